"""Whether theta has settled, and whether the energy partition fits the energies."""

from __future__ import annotations

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict
from numpyro_contour.statistics.flatness import distance, end_masses, noise_in_bins, theta_spread

# Differences of cumulated probabilities.
_MOST_DRIFT = 0.15
_MOST_SPREAD = 0.2
_MOST_DIFFERENCE = 0.2
# Noise of more than this, in bin widths, moves draws between bins.
_SHARP = 0.5
_NOT_COLLECTED = "Theta was not collected: `collect_theta=True` shows how it moved."


def drift(evidence: Evidence) -> list[Verdict]:
    """Theta against what it was."""
    if not _learns(evidence):
        return []
    name = "theta over time"
    if evidence.theta_over_time is None:
        return [unknown(name, _NOT_COLLECTED)]
    _, moved = evidence.theta_over_time
    # The chain in the middle: that of one alone also moves because it wanders.
    median = float(np.median(moved))
    words = (
        f"Theta moved by {median:.2f} of probability from the third to the last quarter of the "
        f"draws, in the median of the chains (limit {_MOST_DRIFT:g})."
    )
    advice = "It has not settled: raise `num_warmup`, or run longer."
    return [verdict(name, median, _MOST_DRIFT, median > _MOST_DRIFT, words, advice)]


def spread(evidence: Evidence) -> list[Verdict]:
    """Theta of each chain against that of the others."""
    if not _learns(evidence):
        return []
    name = "theta between chains"
    if evidence.theta_over_time is None:
        return [unknown(name, _NOT_COLLECTED)]
    mean, _ = evidence.theta_over_time
    # Only chains that ran together do share it.
    if evidence.settings.get("shares_theta") and len(mean) > 1 and (mean == mean[0]).all():
        return [unknown(name, "The chains share theta, which cannot tell whether they agree.")]
    # Means over the draws: the last theta still tells in which mode its chain was last.
    partition = evidence.groups["energy_partition"].transpose("chain", ...)
    lower, upper = partition["lower_edge"].values, partition["upper_edge"].values
    apart = theta_spread(mean, lower, upper)
    if np.isnan(apart).all():
        return [unknown(name, "One chain cannot be compared: run several.")]
    chain = int(apart.argmax())
    words = (
        f"Theta of chain {chain} differs by {apart[chain]:.2f} of probability from the mean of "
        f"the chains (limit {_MOST_SPREAD:g})."
    )
    advice = "The chains have not learnt the same energies: run longer."
    is_bad = apart[chain] > _MOST_SPREAD
    return [verdict(name, apart[chain], _MOST_SPREAD, is_bad, words, advice)]


def against_draws(evidence: Evidence) -> list[Verdict]:
    """Theta against the energies of the weighted draws, whose distribution it is."""
    if not evidence.is_contour:
        return []
    name = "theta against draws"
    noise, bins = evidence.noise, evidence.per_draw("energy_bin")
    if bins is None or not evidence.weighed:
        return [unknown(name, "There are no draws to compare theta with.")]
    if noise is None or noise_in_bins(noise, evidence.width).max() > _SHARP:
        return [unknown(name, "Energies are too noisy to say in which bins the draws belong.")]
    learnt = _mean_theta(evidence)
    if learnt is None:
        return [unknown(name, _NOT_COLLECTED)]
    if evidence.settings.get("random_field") == "scalable":
        # Its theta tends to the masses to the power of 1 / zeta.
        powers = learnt ** float(evidence.settings["zeta"])
        learnt = powers / powers.sum(1, keepdims=True)
    weights = np.exp(evidence.log_weights)
    masses = np.stack(
        [
            np.bincount(b.astype(int), w, minlength=learnt.shape[1]) / len(w)
            for b, w in zip(bins, weights)
        ]
    )
    difference = distance(learnt, masses)
    chain = int(difference.argmax())
    words = (
        f"Theta of chain {chain} differs by {difference[chain]:.2f} of probability from the "
        f"energies of its weighted draws (limit {_MOST_DIFFERENCE:g})."
    )
    is_bad = difference[chain] > _MOST_DIFFERENCE
    advice = _advice(evidence)
    return [verdict(name, difference[chain], _MOST_DIFFERENCE, is_bad, words, advice)]


def _mean_theta(evidence: Evidence) -> np.ndarray | None:
    """The mean of theta over the draws, (chains, bins)."""
    if _learns(evidence):
        return None if evidence.theta_over_time is None else evidence.theta_over_time[0]
    return evidence.per_chain("energy_partition", "theta")


def _learns(evidence: Evidence) -> bool:
    return evidence.is_contour and evidence.settings.get("theta") != "given"


def _advice(evidence: Evidence) -> str:
    if evidence.settings.get("theta") == "given":
        return "It flattens another density: leave `theta` to be learnt."
    if evidence.settings.get("random_field", "consistent") != "consistent":
        return "Its update tends elsewhere: use `random_field='consistent'`."
    return "It has not settled: raise `num_warmup`, or run longer."


# Below the partition nothing is flattened. On two modes in two dimensions crossings fall to a half
# where it begins so many temperatures above typical energies; to a fourth at 5.
_DEEPEST = 3.0
# Nor is anything above it: with 2 % of the visits there crossings are as many as without its end,
# with 3 % a half.
_MOST_ABOVE = 0.02
# Where tails are heavy the partition ends where chains still come back often (adaptation/reach.py),
# and the last bin is as wide as the tail beyond it. The bins that are left over are below the
# others, and nobody visits them.
_MOST_IN_TAIL = 0.3
_LEFT_OVER = 8
# Within a bin the flattening follows one slope. In two dimensions bins of any width do, in ten
# crossings fall by a third where a bin is so many standard deviations of the energy wide.
_WIDEST = 4.0


def partition(evidence: Evidence) -> list[Verdict]:
    """Lower end, upper end and width of the bins."""
    if not evidence.is_contour or not evidence.weighed:
        return []
    found = [_below(evidence), _above(evidence), _width(evidence)]
    # Where a barrier is stated no chain goes above its partition.
    return found if evidence.barrier is None else [found[0], found[2]]


def _below(evidence: Evidence) -> Verdict:
    depth = (evidence.lower - evidence.typical_energy) / evidence.temperature
    chain = int(depth.argmax())
    below = np.mean(
        np.exp(evidence.log_weights) * (evidence.energy < evidence.lower[:, None]), axis=1
    )
    words = (
        f"{below[chain]:.0%} of the posterior lies below the partition of chain {chain}: half of "
        f"it is below {evidence.typical_energy:.4g} nats, the partition begins at "
        f"{evidence.lower[chain]:.4g} (limit {_DEEPEST:g} nats above, in units of the temperature)."
    )
    advice = (
        f"It is too narrow below, where nothing is flattened: {_mend(evidence, 'lower `lower`')}"
    )
    is_bad = depth[chain] > _DEEPEST
    return verdict("partition below", depth[chain], _DEEPEST, is_bad, words, advice)


def _above(evidence: Evidence) -> Verdict:
    visits = evidence.per_chain("energy_partition", "visits")
    assert visits is not None
    # The last bin also holds the visits above it: the bin before says how many are its own.
    last = end_masses(visits)[:, 1]
    above = last - visits[:, -2] / np.maximum(visits.sum(1), 1)
    left_over = (np.cumsum(visits, axis=1) == 0).sum(1) >= _LEFT_OVER
    limit = np.where(_is_found(evidence) & left_over, _MOST_IN_TAIL, _MOST_ABOVE)
    chain = int((above / limit).argmax())
    most = limit[chain]
    words = (
        f"{max(above[chain], 0):.1%} of the steps of chain {chain} were above its partition, which "
        f"ends at {evidence.upper[chain]:.4g} nats (limit {most:.0%})."
    )
    advice = (
        f"It is too narrow above, where nothing is flattened: {_mend(evidence, 'raise `upper`')}"
    )
    return verdict("partition above", above[chain], most, above[chain] > most, words, advice)


def _width(evidence: Evidence) -> Verdict:
    # As the run saw them: what noise does to bins has a check of its own.
    noise = 0.0 if evidence.noise is None else np.median(evidence.noise)
    ratio = evidence.width / max(np.hypot(evidence.energy_sd, noise), 1e-30)
    chain = int(ratio.argmax())
    words = (
        f"A bin of chain {chain} is {evidence.width[chain]:.3g} nats wide, {ratio[chain]:.2g} "
        f"standard deviations of the potential energy (limit {_WIDEST:g})."
    )
    mend = _mend(evidence, "raise `num_bins`")
    advice = f"It holds typical energies and barriers alike: {mend}"
    return verdict("bin width", ratio[chain], _WIDEST, ratio[chain] > _WIDEST, words, advice)


def _mend(evidence: Evidence, given: str) -> str:
    """What to change in a partition that was given, or in the warm-up that found it."""
    if _is_found(evidence):
        return "raise `num_warmup`, or give `partition`."
    return f"{given}, or leave `partition` to the warm-up."


def _is_found(evidence: Evidence) -> bool:
    """Whether the warm-up has found the partition."""
    return evidence.per_chain("warmup", "lower_edge") is not None
