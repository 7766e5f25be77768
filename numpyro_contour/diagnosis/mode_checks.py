"""Whether the weights of modes rest on enough visits."""

from __future__ import annotations

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, verdict

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
