"""Whether the noise of subsampled energies leaves anything of the bins."""

from __future__ import annotations

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict
from numpyro_contour.statistics.flatness import (
    noise_at_energies,
    noise_at_energies_text,
    noise_in_bins,
)

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
    which = "`energy='full'` or larger minibatches"
    if _may_ask_for_control_variate(evidence):
        which += ", or `energy='control_variate'`"
    advice = (
        "Lower barriers drown in it, and what chains agree on may be one mode of several: use "
        f"{which}.{_refused_passes(evidence)}"
    )
    return [verdict("energy noise", figure, most, figure > most, words, advice)]


def _may_ask_for_control_variate(evidence: Evidence) -> bool:
    in_use = evidence.per_chain("warmup", "control_variate")
    if in_use is not None:
        return not in_use.any()
    # A run to which nothing was given has one wherever the model can be expanded.
    given = {name: evidence.settings.get(name) for name in ("energy", "step_size")}
    return given != {"energy": "None", "step_size": "tuned"}


def anchors(evidence: Evidence) -> list[Verdict]:
    """Whether the anchors of the control variate serve the whole posterior."""
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
        f"{_anchors_serve(evidence, not is_bad)} the whole posterior: the noise of the control "
        f"variate is {median:.3g} nats in the median{elsewhere} (limit {_MOST_NOISY_SHARE:.0%}). "
        f"{noise_at_energies_text(noise_at_energies(noise, evidence.energy))}"
    )
    advice = (
        "Little is flattened there, and steps are too noisy. Anchors are placed in the warm-up, "
        "where chains go: a longer warm-up, more chains or larger minibatches may mend it, and "
        f"`energy='full'` does.{_refused_passes(evidence)}"
    )
    return [verdict("anchor", share, _MOST_NOISY_SHARE, is_bad, words, advice)]


def _refused_passes(evidence: Evidence) -> str:
    """A sentence on anchors that were not placed, since the run was too short for their passes."""
    refused = evidence.per_chain("warmup", "passes_refused")
    if refused is None or not refused.any():
        return ""
    return (
        f" At {refused.sum():.0f} draws of the warm-up an anchor was wanted, but its pass over all "
        "rows would have looked at more rows than the minibatches until then: raise `num_steps` or "
        "`num_warmup`."
    )


def _anchors_serve(evidence: Evidence, good: bool) -> str:
    numbers = evidence.per_chain("warmup", "anchors")
    number = 1 if numbers is None else int(numbers.max())
    if number == 1:
        return "One anchor serves" if good else "One anchor does not serve"
    return f"{number} anchors {'serve' if good else 'do not serve'}"
