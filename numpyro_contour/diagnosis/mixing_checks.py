"""Whether the chains are long enough, and went up and down."""

from __future__ import annotations

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict
from numpyro_contour.statistics.errors import weighted_ess
from numpyro_contour.statistics.flatness import round_trips, share_above
from numpyro_contour.statistics.quick_looks import LOOKED_AT, quick_sizes

# Independent draws a chain, their weights not counted: half of what Vehtari et al. (2021) ask for
# R-hat and standard errors to be reliable.
_FEWEST_OF_CHAIN = 50
# Of weighted means and standard deviations, half of that.
_FEWEST_EFFECTIVE = 25
_FEWEST_TRIPS = 5
# A tenth of the draws stand for positions that reached so high.
_HIGH = 0.9


def length(evidence: Evidence) -> list[Verdict]:
    """How many independent draws the chains hold, whatever their weights and wherever they are."""
    name = "length"
    chains, draws = evidence.log_weights.shape
    fewest = _FEWEST_OF_CHAIN * chains
    if draws < 8:
        words = f"{draws} draws a chain are too few to tell anything."
        return [verdict(name, chains * draws, fewest, True, words, "Raise `num_samples`.")]
    names, values = evidence.scalars
    of_energy = quick_sizes(evidence.energy[..., None])
    quick = np.concatenate([of_energy, evidence.looks.sizes]) if names else of_energy
    worst = np.argsort(quick)[:LOOKED_AT]
    names = ["the potential energy", *names]
    # Each chain by itself: what they share tells nothing of how long they are.
    sizes, even, of_scalars = np.zeros(len(worst)), np.zeros((1, draws)), worst > 0
    for energy, chain in zip(evidence.energy, values):
        sizes[~of_scalars] += weighted_ess(energy[None], even)
        sizes[of_scalars] += weighted_ess(chain[None, :, worst[of_scalars] - 1], even)
    sizes = np.where(np.isfinite(sizes), sizes, np.inf)
    least = int(np.argmin(sizes))
    words = (
        f"The chains hold {sizes[least]:.0f} independent draws of {names[worst[least]]} (limit "
        f"{fewest}, {_FEWEST_OF_CHAIN} a chain).{_cut_off(evidence)}"
    )
    advice = "Run longer: raise `num_samples`, or `num_steps`."
    return [verdict(name, sizes[least], fewest, sizes[least] < fewest, words, advice)]


def _cut_off(evidence: Evidence) -> str:
    """A sentence where draws would have taken more steps than the warm-up may give them."""
    group = evidence.group("warmup")
    if group is None or "num_steps" not in group:
        return ""
    most = int(group.attrs["most_steps_a_draw"])
    found = int(group["num_steps"].values.max())
    if found < most:
        return ""
    return f" A draw takes {most} steps, the most that the warm-up gives it."


def trips(evidence: Evidence) -> list[Verdict]:
    """Whether each chain went from typical energies to high ones and back."""
    name = "round trips"
    lowest, highest = (evidence.per_draw(f"{end}_energy") for end in ("lowest", "highest"))
    if lowest is None or highest is None or not evidence.weighed:
        return [] if not evidence.is_contour else [unknown(name, "Energies were not recorded.")]
    low = evidence.typical_energy
    # What is high is each chain's own: above all barriers it is a matter of chance.
    tops = np.quantile(highest, _HIGH, axis=1)
    if evidence.barrier is not None:
        tops = np.full(len(highest), low + evidence.barrier)
    counts = np.array(
        [
            round_trips(lowest[[i]], highest[[i]], low, top)[0] if top > low else 0
            for i, top in enumerate(tops)
        ]
    )
    chain = int(counts.argmin())
    high = tops[chain]
    above = share_above(evidence.energy, low)[chain]
    stayed = ""
    if counts[chain] < _FEWEST_TRIPS:
        stayed = f" {above:.0%} of its draws are above typical energies."
    words = (
        f"Chain {chain} went {counts[chain]} times from typical energies ({low:.4g} nats) up to "
        f"{high:.4g} and back (limit {_FEWEST_TRIPS}).{stayed} Nothing is known of barriers above "
        f"{tops.min():.4g}."
    )
    mend = "raise `zeta` towards 1" if evidence.barrier is None else "raise `num_warmup`"
    advice = f"Barriers were not crossed: run longer, start from several places, or {mend}."
    is_bad = counts[chain] < _FEWEST_TRIPS
    found = [verdict(name, counts[chain], _FEWEST_TRIPS, is_bad, words, advice)]
    return found if evidence.barrier is None else [*found, _climb(evidence.barrier, low, highest)]


def _climb(barrier: float, low: float, highest: np.ndarray) -> Verdict:
    """How much of a stated barrier each chain climbed."""
    climbed = np.clip((highest.max(1) - low) / barrier, 0, 1)
    chain = int(climbed.argmin())
    words = (
        f"Chain {chain} climbed {climbed[chain]:.0%} of the barrier of {barrier:g} nats above "
        "typical energies (limit 100%)."
    )
    advice = "It could not cross such a barrier: raise `num_warmup`, or state a lower `barrier`."
    return verdict("climb", climbed[chain], 1.0, climbed[chain] < 1, words, advice)


def effective(evidence: Evidence) -> list[Verdict]:
    """How many equally weighted draws would give the means and standard deviations as precisely."""
    name = "effective draws"
    chains, draws = evidence.log_weights.shape
    if draws < 8 or not evidence.weighed:
        return []
    names, values = evidence.scalars
    if not names:
        return []
    log_weights = evidence.log_weights
    worst = np.argsort(evidence.looks.weighted_sizes)[:LOOKED_AT]
    sizes = np.stack(
        [
            np.atleast_1d(weighted_ess(values[..., worst], log_weights, method))
            for method in ("mean", "sd")
        ]
    )
    sizes = np.where(np.isfinite(sizes), sizes, np.inf)
    method, at = np.unravel_index(sizes.argmin(), sizes.shape)
    least, fewest = float(sizes[method, at]), _FEWEST_EFFECTIVE * chains
    words = (
        f"The {('mean', 'standard deviation')[method]} of {names[worst[at]]} is as precise as from "
        f"{least:.0f} independent draws of equal weight (limit {fewest}, {_FEWEST_EFFECTIVE} a "
        "chain)."
    )
    advice = "Run longer: raise `num_samples`, or `num_steps`."
    return [verdict(name, least, fewest, least < fewest, words, advice)]
