"""Whether theta has settled, on one value, and on the probabilities of the bins."""

from __future__ import annotations

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict
from numpyro_contour.statistics.flatness import (
    distance,
    noise_in_bins,
    theta_spread,
)

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
