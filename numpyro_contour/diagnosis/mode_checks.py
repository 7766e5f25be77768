"""Whether the weights of modes rest on enough visits, and whether a search has found all modes."""

from __future__ import annotations

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict
from numpyro_contour.statistics.errors import weighted_ess, weighted_rhat

# With so many round trips the weight p of a mode has a standard error of .45 p (1 - p).
_FEWEST_TRIPS = 10


def crossings(evidence: Evidence) -> list[Verdict]:
    """How often the chains went from one mode of a variable to another and back."""
    if not evidence.weighed or evidence.log_weights.shape[1] < 8:
        return []
    found = evidence.valleys
    if not found:
        return []
    name, valley = min(found, key=lambda pair: pair[1].trips.sum())
    trips = int(valley.trips.sum())
    words = (
        f"{name} has modes near {valley.low:.3g} and {valley.high:.3g}. That "
        f"{valley.share:.0%} of the weight is above {valley.cut:.3g} rests on {trips} "
        f"{'trip' if trips == 1 else 'trips'} from one side to the other and back (limit "
        f"{_FEWEST_TRIPS})."
    )
    advice = (
        f"So few do not tell how probable each is{_error(trips)}: raise `num_samples`, or "
        "`num_steps`, and run several chains."
    )
    is_bad = trips < _FEWEST_TRIPS
    return [verdict("crossings", trips, _FEWEST_TRIPS, is_bad, words, advice)]


def _error(trips: int) -> str:
    return "" if trips else ", and no error can be given"


# The most mass that as many descents again may add.
_MOST_UNSEEN = 0.05
# If the kernel itself leaves modes in more than this share of the draws, they are parts of larger
# ones.
_WALKS = 0.01
# Modes of at least this mass are compared from chain to chain, by R-hat and by independent draws a
# chain.
_SIZEABLE, _LARGEST_RHAT, _FEWEST_EFFECTIVE = 0.05, 1.05, 25


def unseen_modes(evidence: Evidence) -> list[Verdict]:
    """How much mass as many descents again would find, by those that found something alone."""
    name = "unseen modes"
    group = evidence.group("mode_search")
    if group is None:
        return []
    descents, new = (int(group[n].values) for n in ("all_descents", "new_modes"))
    number = group.sizes["known_mode"]
    if not number:
        words = f"None of {descents} descents ended in a mode: nothing is known of others."
        return [unknown(name, words)]
    unseen, left_out = (float(group[n].values) for n in ("unseen_mass", "left_out_mass"))
    if np.isnan(unseen):
        return [unknown(name, "The modes were given: nothing is known of others.")]
    words = (
        f"{descents} descents found {number} {'mode' if number == 1 else 'modes'}, {new} of them "
        f"by a single one. As many again would add {unseen:.1%} of the mass (limit "
        f"{_MOST_UNSEEN:.0%})."
    )
    too_many, is_bad = left_out > _MOST_UNSEEN, unseen > _MOST_UNSEEN
    if too_many:
        words += f" Chains jump between the heaviest: the others have {left_out:.1%} of the mass."
    walks = _walks(evidence)
    if is_bad and walks >= _WALKS:
        is_bad = False
        words += (
            f" The inner kernel itself goes to another one in {walks:.0%} of the draws: they are "
            "parts of larger modes."
        )
    advice = (
        "Search for longer before the run, `kernel.find_modes(key, ..., most_gradients=)`. Where "
        "there are many shallow modes, as in a field with kinks, take `ContourSGLD`."
    )
    figure = max(unseen, left_out)
    return [verdict(name, figure, _MOST_UNSEEN, is_bad or too_many, words, advice)]


def _walks(evidence: Evidence) -> float:
    """The share of draws in which the inner kernel itself changed the mode."""
    group = evidence.group("modes")
    if group is None or "walks" not in group:
        return 0.0
    counted = group["walks"].transpose("chain", "from_mode", "to_mode").values.sum(0)
    return float((counted.sum() - np.trace(counted)) / max(counted.sum(), 1))


def modes_by_chain(evidence: Evidence) -> list[Verdict]:
    """Whether the chains agree on the masses of the modes, by R-hat of being in one."""
    name = "mode agreement"
    labels = evidence.per_draw("mode")
    if evidence.group("mode_search") is None or labels is None or not evidence.weighed:
        return []
    chains, draws = labels.shape
    masses = np.bincount(labels.ravel()) / labels.size
    sizeable = np.flatnonzero((masses >= _SIZEABLE) & (masses <= 1 - _SIZEABLE))
    if chains < 2 or draws < 8 or not sizeable.size:
        return []
    inside = (labels[..., None] == sizeable).astype(float)
    rhat = np.atleast_1d(weighted_rhat(inside, evidence.log_weights))
    sizes = np.atleast_1d(weighted_ess(inside, evidence.log_weights))
    # A chain that never changes its mode has no R-hat: nothing could disagree more.
    rhat = np.where(np.isnan(rhat), np.inf, rhat)
    worst, fewest = int(rhat.argmax()), _FEWEST_EFFECTIVE * chains
    least = int(np.nanargmin(np.where(np.isnan(sizes), 0.0, sizes)))
    words = (
        f"R-hat of being in mode {sizeable[worst]} is {rhat[worst]:.2f} (limit "
        f"{_LARGEST_RHAT:g}); its mass is as precise as from {sizes[least]:.0f} independent draws "
        f"(mode {sizeable[least]}, limit {fewest})."
    )
    advice = (
        "Chains change modes too seldom: run longer, raise `tries`, or see `jumps` for pairs of "
        "modes whose tries are never accepted."
    )
    is_bad = bool(rhat[worst] > _LARGEST_RHAT or not sizes[least] >= fewest)
    return [verdict(name, rhat[worst], _LARGEST_RHAT, is_bad, words, advice)]
