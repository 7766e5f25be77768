"""Whether the weights leave enough draws."""

from __future__ import annotations

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict
from numpyro_contour.diagnostics import kish_share, pareto_khat
from numpyro_contour.flattening_diagnostics import histogram_flatness, share_above

_LEAST_SHARE = 0.05
_LARGEST_KHAT = 0.7


def weights(evidence: Evidence) -> list[Verdict]:
    """How even the weights are, and how heavy their tail is."""
    name = "weights"
    if not evidence.weighed:
        chain = int(np.argmin(np.isfinite(evidence.log_weights).any(1)))
        words = f"No draw of chain {chain} has any weight."
        advice = "Its moves were all refused, or made while a cycle explored or cooled."
        return [verdict(name, 0, _LEAST_SHARE, True, words, advice)]
    broken = int(evidence.no_numbers.sum())
    if broken:
        words = f"{broken} of the {evidence.no_numbers.size} log weights are not numbers."
        advice = "Check the model for NaN at the draws that have them."
        return [verdict(name, broken, 0, True, words, advice)]
    share = kish_share(evidence.log_weights)
    khat = pareto_khat(evidence.log_weights)
    above = share_above(evidence.energy, evidence.typical_energy).mean()
    words = (
        f"The weights leave an effective share of {share:.2g} of the draws (limit {_LEAST_SHARE}), "
        f"Pareto k-hat {khat:.2f} (limit {_LARGEST_KHAT}); {above:.0%} of the draws are above "
        "typical energies."
    )
    advice = (
        "They are too uneven: stand a draw for more steps (`num_steps`), lower `zeta`, or lower "
        "`upper` of the partition."
    )
    heavy = np.isfinite(khat) and khat > _LARGEST_KHAT
    if share >= _LEAST_SHARE and heavy:
        return [verdict(name, khat, _LARGEST_KHAT, True, words, advice)]
    return [verdict(name, share, _LEAST_SHARE, share < _LEAST_SHARE, words, advice)]


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
