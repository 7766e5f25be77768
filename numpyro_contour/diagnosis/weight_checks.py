"""Whether the weights leave enough draws."""

from __future__ import annotations

import math

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict
from numpyro_contour.statistics.flatness import histogram_flatness, share_above
from numpyro_contour.statistics.tails import pareto_khat
from numpyro_contour.statistics.weights import kish_share

_LEAST_SHARE = 0.05
_LARGEST_KHAT = 0.7
_MOST_APART = 0.1


def weights(evidence: Evidence) -> list[Verdict]:
    """How even the weights are, and how heavy their tail is."""
    name = "weights"
    if not evidence.weighed:
        chain = int(np.argmin(np.isfinite(evidence.log_weights).any(1)))
        words = f"No draw of chain {chain} has any weight."
        advice = "Its moves were all refused, or made while a cycle explored or cooled."
        return [verdict(name, 0, _LEAST_SHARE, True, words, advice)]
    broken = int(evidence.not_numbers.sum())
    if broken:
        words = f"{broken} of the {evidence.not_numbers.size} log weights are not numbers."
        advice = "Check the model for NaN at the draws that have them."
        return [verdict(name, broken, 0, True, words, advice)]
    share = kish_share(evidence.log_weights)
    khat = pareto_khat(evidence.log_weights)
    above = share_above(evidence.energy, evidence.typical_energy).mean()
    heavy = np.isfinite(khat) and khat > _LARGEST_KHAT
    advice = (
        "Raise `num_steps`, so that a draw stands for more steps, lower `zeta`, or lower `upper` "
        "of the partition."
    )
    if share >= _LEAST_SHARE and heavy:
        words = (
            f"A few draws carry most of the weight: Pareto k-hat is {khat:.2f} (limit "
            f"{_LARGEST_KHAT})."
        )
        return [verdict(name, khat, _LARGEST_KHAT, True, words, advice)]
    words = (
        f"The weights leave an effective share of {share:.2g} of the draws (limit {_LEAST_SHARE}), "
        f"Pareto k-hat {khat:.2f}; {above:.0%} of the draws are above typical energies."
    )
    return [verdict(name, share, _LEAST_SHARE, share < _LEAST_SHARE, words, advice)]


def by_bin(evidence: Evidence) -> list[Verdict]:
    r"""The paper's weights, constant in a bin, compared with the continuous ones of its drift.

    At a slope of log theta of -1 the logarithms differ by :math:`\zeta` times the width over
    :math:`\sqrt{12}`, as a standard deviation over the bin.
    """
    if evidence.settings.get("weight") != "piecewise":
        return []
    zeta = float(evidence.settings["zeta"])
    apart = zeta * float(evidence.width.max()) / evidence.temperature / math.sqrt(12)
    words = (
        f"Weights that are constant in a bin differ from those of the drift by {apart:.2g}, as a "
        f"standard deviation of their logarithms (limit {_MOST_APART:g})."
    )
    advice = "That biases all means: take `weight='consistent'`, or narrower bins."
    return [verdict("weights by bin", apart, _MOST_APART, apart > _MOST_APART, words, advice)]


def flatness(evidence: Evidence) -> list[Verdict]:
    """How evenly the bins were visited, for information: it is not even by design below zeta 1."""
    visits = evidence.per_chain("energy_partition", "visits")
    if visits is None:
        return []
    flat = histogram_flatness(visits)
    if np.isnan(flat).all():
        return [unknown("flatness", "No bin was visited.")]
    words = (
        f"The visited bins were visited as evenly as {np.nanmean(flat):.0%} of them would be, "
        "visited alike."
    )
    return [verdict("flatness", np.nanmean(flat), 0.0, False, words, "")]


def record(evidence: Evidence) -> list[Verdict]:
    """Draws without the rest of their run tell too little, however good they look."""
    if evidence.settings.get("resampled"):
        why = "The draws were resampled, and what their run has told of itself was left behind."
    elif "kernel" not in evidence.settings and "inference_library" in evidence.settings:
        why = (
            "`az.from_numpyro` takes the draws alone: neither the warm-up, the energy partition "
            "nor the energies over all rows could be checked."
        )
    else:
        return []
    return [unknown("record", f"{why} Hand over the MCMC, or what `to_inference_data` returns.")]
