"""Whether the chains agree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict
from numpyro_contour.statistics.errors import weighted_rhat
from numpyro_contour.statistics.quick_looks import LOOKED_AT

_LARGEST_RHAT = 1.05
# R-hat goes by ranks: it hardly sees a chain that once went very far out. In 90 runs that were
# right no chain's standard deviation was off by more than 1.33.
_LARGEST_RATIO = 1.5
_ONE_CHAIN = (
    "One chain cannot show whether others would find the same modes, or more: run several, from "
    "several places."
)


def agreement(evidence: Evidence) -> list[Verdict]:
    """Whether the chains have sampled the same posterior."""
    name = "chains"
    chains, draws = evidence.log_weights.shape
    if chains == 1:
        return [unknown(name, _ONE_CHAIN)]
    if draws < 8 or not evidence.weighed:
        return [unknown(name, "There are too few weighted draws to compare the chains.")]
    names, values = evidence.scalars
    if not names:
        return []
    worst = np.argsort(-evidence.looks.rhat)[:LOOKED_AT]
    rhat = np.atleast_1d(weighted_rhat(values[..., worst], evidence.log_weights))
    if np.isnan(rhat).all():
        return [unknown(name, "Half of a chain has no weight: chains cannot be compared.")]
    at = int(np.nanargmax(rhat))
    words = f"R-hat of {names[worst[at]]} is {rhat[at]:.2f} (limit {_LARGEST_RHAT:g})."
    advice = _advice([names[i] for i in worst], values[..., worst], rhat, evidence)
    return [verdict(name, rhat[at], _LARGEST_RHAT, rhat[at] > _LARGEST_RHAT, words, advice)]


def spreads(evidence: Evidence) -> list[Verdict]:
    """Whether the chains found the same weighted standard deviations."""
    name = "spread of chains"
    chains, draws = evidence.log_weights.shape
    if chains == 1 or draws < 8 or not evidence.weighed:
        return []
    names, _ = evidence.scalars
    if not names:
        return []
    variances = evidence.looks.variances.T
    pooled = np.maximum(variances.mean(0), 1e-300)
    log_ratio = 0.5 * np.log(np.maximum(variances, 1e-300) / pooled)
    chain, worst = np.unravel_index(np.abs(log_ratio).argmax(), log_ratio.shape)
    ratio = float(np.exp(np.abs(log_ratio[chain, worst])))
    wider = "larger" if log_ratio[chain, worst] > 0 else "smaller"
    words = (
        f"The standard deviation of {names[worst]} is {ratio:.2f} times {wider} in chain {chain} "
        f"than in all chains (limit {_LARGEST_RATIO:g})."
    )
    advice = (
        "One of them went where the others did not, perhaps far out: look at its energies, run "
        "longer, or take a smaller gain."
    )
    return [verdict(name, ratio, _LARGEST_RATIO, ratio > _LARGEST_RATIO, words, advice)]


def _advice(names: list[str], values: np.ndarray, rhat: np.ndarray, evidence: Evidence) -> str:
    """Where the chains are, by the worst variable that shows it."""
    weights = np.exp(evidence.log_weights)
    for i in np.argsort(-np.nan_to_num(rhat)):
        apart = places(values[..., i], weights)
        if rhat[i] > _LARGEST_RHAT and len(apart) > 1:
            return (
                f"The chains disagree: {names[i]} is {in_words(apart)}, and no chain holds "
                f"{'both' if len(apart) == 2 else 'two of them'}. How probable each is, this run "
                "cannot tell: run longer, and do not pool them."
            )
    odd = _odd_one(values[..., int(np.nanargmax(rhat))], evidence)
    return (
        f"The chains disagree: {odd} they are in different modes, or too short. Run longer, and "
        "do not pool them."
    )


def _odd_one(values: np.ndarray, evidence: Evidence) -> str:
    """Which chain is farthest from the median of the chains, in words."""
    means = (np.exp(evidence.log_weights) * values).mean(1)
    away = np.abs(means - np.median(means))
    chain = int(away.argmax())
    others = np.median(np.delete(means, chain))
    return f"the mean is {means[chain]:.3g} in chain {chain}, {others:.3g} in the middle one;"


# At most this many groups, and chains of a group, are named.
_MOST_GROUPS, _MOST_CHAINS = 4, 4


class Place(NamedTuple):
    """Where some of the chains are."""

    #: the mean of a scalar over these chains
    value: float
    #: their numbers
    chains: list[int]


def places(values: np.ndarray, weights: np.ndarray) -> list[Place]:
    """The groups of chains whose values of a scalar do not overlap, the largest group first.

    Two chains are apart if their means differ by more than their standard deviations together. A
    chain that holds two modes has a large one, and so joins them.

    Args:
        values: draws, (chains, draws).
        weights: their weights, (chains, draws), each chain's of mean 1.
    """
    means = (weights * values).mean(1)
    spreads = np.sqrt((weights * (values - means[:, None]) ** 2).mean(1))
    order = np.argsort(means)
    # What chains on the left reach up to, and from where on those on the right begin.
    reached = np.maximum.accumulate((means + spreads)[order])
    begins = np.minimum.accumulate((means - spreads)[order][::-1])[::-1]
    groups = np.split(order, np.flatnonzero(begins[1:] > reached[:-1]) + 1)
    found = [Place(float(means[group].mean()), sorted(map(int, group))) for group in groups]
    return sorted(found, key=lambda place: -len(place.chains))


def in_words(found: list[Place]) -> str:
    """Which chains are where, at most four places of them."""
    named = [f"near {place.value:.3g} in {_chains(place.chains)}" for place in found[:_MOST_GROUPS]]
    more = len(found) - _MOST_GROUPS
    if more > 0:
        named.append(f"elsewhere in {sum(len(p.chains) for p in found[_MOST_GROUPS:])} others")
    return _listed(named)


def _chains(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"chain {numbers[0]}"
    if len(numbers) > _MOST_CHAINS:
        return f"{len(numbers)} chains ({', '.join(map(str, numbers[:2]))}, ...)"
    return f"chains {_listed([str(n) for n in numbers])}"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
