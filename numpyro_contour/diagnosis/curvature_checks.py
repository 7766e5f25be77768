"""Whether steps fit the places of the lowest energies."""

from __future__ import annotations

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict

# A quarter of the draws of the lowest energies in a narrow place suffices.
_QUANTILE = 0.75
# From 1 on steps are unstable.
_UNSTABLE = 1.0
# Where the energy is bent so many times as strongly as at other draws, the place is one of its own:
# in models that are sampled well it was at most 4.2 times, in a mode of sd 0.3 beside one of sd 1
# it is 11 times. With a share s of the limit drifts are clipped from 3 / sqrt(s) of the mode's sds
# on, which makes its walls too low: at 0.28 its mass was 0.55 to 0.69 instead of 0.8.
_OF_ITS_OWN, _CLIPPED_WALLS = 7.0, 0.25


def curvature(evidence: Evidence) -> list[Verdict]:
    """Whether steps are too long where the potential energy is lowest."""
    name = "curvature"
    if evidence.adjusted or evidence.barrier is not None:
        return []
    group = evidence.group(name)
    lowest, even = (
        np.zeros(0) if group is None else group[of].values[np.isfinite(group[of].values)]
        for of in ("lowest", "even")
    )
    if not lowest.size or not even.size:
        why = (
            "The curvature of the potential energy was not held against the steps: too few draws, "
            "no second derivatives, or it would take long."
        )
        return [unknown(name, why)]
    figure, elsewhere = float(np.quantile(lowest, _QUANTILE)), float(np.median(even))
    # In heavy tails the energy is bent the other way: what is narrower than that is no mode.
    is_bent = elsewhere > 0
    times = figure / elsewhere if is_bent else 0.0
    limit = _CLIPPED_WALLS if times > _OF_ITS_OWN else _UNSTABLE
    compared = f", {times:.2g} times as much as at other draws" if is_bent else ""
    words = (
        f"At the draws of the lowest energies step size times curvature is {figure:.2g} of the "
        f"value from which on steps are unstable (limit {limit:g}){compared}."
    )
    return [verdict(name, figure, limit, figure > limit, words, _advice(evidence))]


def _advice(evidence: Evidence) -> str:
    exact = evidence.noise is not None and evidence.noise.max(initial=0.0) == 0
    adjusted = "`adjusted=True`"
    if "adjusted" not in evidence.settings:
        adjusted += " to `ContourSGLD` or `SGLD`"
    if not exact:
        adjusted += " with `energy='full'`"
    return (
        "Steps are too long in a narrower place, a mode or a neck, which has too little mass then. "
        f"Give {adjusted} and ten times as many steps. A `step_size` a tenth as large only makes "
        "the error smaller."
    )
