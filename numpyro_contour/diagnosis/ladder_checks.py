"""Whether replicas went through the whole ladder of temperatures."""

from __future__ import annotations

import ast

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, verdict
from numpyro_contour.statistics.ladders import (
    equal_rejection_temperatures,
    optimal_round_trip_rate,
)

# Without one, no draw of the coldest chain owes its mode to the hottest.
_FEWEST_TRIPS = 1
# Rejections so near to 0 or 1 do not say where a temperature is to be.
_TELLING = (0.02, 0.98)
# Largest share of rejections over the smallest from where on other temperatures are worth a run.
_UNEVEN = 2.0


def ladder(evidence: Evidence) -> list[Verdict]:
    """Round trips from the coldest temperature to the hottest and back, of all replicas.

    None is a fault only where the draws have several modes: one mode needs no other temperature.
    """
    counted, rates = evidence.per_draw("round_trips"), evidence.per_draw("swap_rates")
    steps = evidence.per_draw("steps")
    if counted is None or rates is None or steps is None or counted.shape[1] < 2:
        return []
    # What was counted in the warm-up does not tell of the draws.
    trips = int((counted[:, -1].astype(np.int64) - counted[:, 0]).sum())
    number = (steps[:, -1].astype(np.int64) - steps[:, 0]).sum()
    rounds = max(number / float(evidence.settings.get("swap_every", 1)), 1.0)
    rejected = 1 - rates[:, -1].astype(np.float64).mean(0)
    of_window = int(evidence.settings.get("swap_window", 1))
    best = 1000 * float(optimal_round_trip_rate(rejected, of_window))
    words = (
        f"Replicas made {trips} round {'trip' if trips == 1 else 'trips'} from the coldest "
        f"temperature to the hottest and back, {1000 * trips / rounds:.3g} in 1,000 rounds of "
        f"swaps. Moves that forget the energy between rounds would make {best:.3g} with this "
        f"barrier of {rejected.sum():.2f}, the sum of the rejection rates."
    )
    is_bad = trips < _FEWEST_TRIPS and evidence.weighed and bool(evidence.valleys)
    advice = (
        "The draws have several modes, and what the hottest replica found never came down: "
        "raise `num_samples` or `num_steps`, or change `temperatures`."
    )
    advice += _better(evidence, rejected)
    return [verdict("ladder", trips, _FEWEST_TRIPS, is_bad, words, advice)]


def window(evidence: Evidence) -> list[Verdict]:
    """Windows of several rounds, in which the swap comes too soon for some modes."""
    rounds = evidence.settings.get("swap_window", 1)
    if rounds == 1:
        return []
    words = f"Pairs of replicas swap at most once in a window of {rounds} rounds (limit 1)."
    advice = (
        "The draws have several modes, and with more than one round their probabilities are "
        "biased: leave `swap_window` out."
    )
    is_bad = evidence.weighed and bool(evidence.valleys)
    return [verdict("swap window", rounds, 1, is_bad, words, advice)]


def _better(evidence: Evidence, rejected: np.ndarray) -> str:
    """Temperatures that share the rejections out, where that may be worth a run."""
    low, high = _TELLING
    if rejected.min() < low or rejected.max() > high or rejected.max() < _UNEVEN * rejected.min():
        return ""
    try:
        given = ast.literal_eval(str(evidence.settings["temperatures"]))
        found = equal_rejection_temperatures(given, rejected)
    except (KeyError, SyntaxError, TypeError, ValueError):
        return ""  # schedules
    return f" ({', '.join(f'{tau:.3g}' for tau in found)}) would share the rejections out evenly."
