"""Whether the noise of subsampled energies leaves anything of the bins."""

from __future__ import annotations

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict
from numpyro_contour.statistics.flatness import noise_in_bins

# Noise that is wider blurs bins and is no longer the small correction that weights allow for.
_MOST_BINS = 3.0
# Noise as large as a barrier leaves a tenth of the crossings, and larger noise none
# (benchmarks/accuracy/crossings.py). A run that cannot lower ten nats, in units of the temperature,
# is plain SGLD, which must not be taken for an answer on modes: its chains may agree and all be in
# one.
_MOST_NATS = 10.0
# More noise than so many bins, and so many times the median, in this share of a posterior: where
# the noise is ten bins wide modes are hardly ever left.
_TOO_NOISY = 10.0
_MOST_NOISY_SHARE = 0.01


def energy_noise(evidence: Evidence) -> list[Verdict]:
    """The noise of the potential energy beside the width of a bin."""
    if not evidence.is_contour:
        return []
    noise = evidence.noise
    if noise is None:
        return [unknown("energy noise", "How noisy the energies were was not measured.")]
    if noise.max() == 0:
        words = "Potential energies were exact."
        return [verdict("energy noise", 0.0, _MOST_BINS, False, words, "")]
    bins = noise_in_bins(noise, evidence.width)
    nats = np.median(noise, axis=1)
    most_nats = _MOST_NATS * evidence.temperature
    by_nats = bool((nats > most_nats).any())
    chain = int((nats if by_nats else bins).argmax())
    figure, most = (nats[chain], most_nats) if by_nats else (bins[chain], _MOST_BINS)
    words = (
        f"Subsampling moves the potential energy of chain {chain} by {nats[chain]:.3g} nats, "
        f"{bins[chain]:.2g} bins (limit {most:g}{' nats' if by_nats else ''})."
    )
    in_use = evidence.per_chain("warmup", "control_variate")
    which = "`energy='full'` or larger minibatches"
    if in_use is None or not in_use.any():
        which += ", or `energy='control_variate'` where there is one mode"
    advice = (
        "Lower barriers drown in it, and what chains agree on may be one mode of several: use "
        f"{which}."
    )
    return [verdict("energy noise", figure, most, figure > most, words, advice)]


def anchors(evidence: Evidence) -> list[Verdict]:
    """Whether one anchor of the control variate serves the whole posterior."""
    in_use = evidence.per_chain("warmup", "control_variate")
    noise = evidence.per_draw("energy_noise")
    if in_use is None or noise is None or not evidence.is_contour or not in_use.any():
        return []
    weights = np.exp(evidence.log_weights)
    order = np.argsort(noise, axis=None)
    reached = np.cumsum(weights.ravel()[order])
    median = noise.ravel()[order][np.searchsorted(reached, reached[-1] / 2)]
    bad = (noise > _TOO_NOISY * evidence.width[:, None]) & (noise > _TOO_NOISY * median)
    share = weights[bad].sum() / max(weights.sum(), 1e-30)
    is_bad = share >= _MOST_NOISY_SHARE
    elsewhere = f", but {np.median(noise[bad]):.3g} nats in {share:.0%} of it" if bad.any() else ""
    words = (
        f"One anchor {'does not serve' if is_bad else 'serves'} the whole posterior: the noise of "
        f"the control variate is {median:.3g} nats in the median{elsewhere} (limit "
        f"{_MOST_NOISY_SHARE:.0%})."
    )
    advice = (
        "Little is flattened there, and steps are too noisy: use `energy='full'` or larger "
        "minibatches."
    )
    return [verdict("anchor", share, _MOST_NOISY_SHARE, is_bad, words, advice)]
