"""Whether the gradient of the potential energy is its slope."""

from __future__ import annotations

import numpy as np
import xarray as xr

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Verdict, unknown, verdict

# In units of the temperature; probabilities beside a jump of so much are off by a fifth.
_MOST_JUMPING = 0.2
# One wall that hardly any draw reaches must not hide that all others are right.
_MOST_OF_A_LINE = 10.0


def gradient(evidence: Evidence) -> list[Verdict]:
    """Whether the potential energy jumps where its gradient does not show it."""
    name = "gradient"
    group = evidence.group(name)
    if group is None:
        why = (
            "The gradient was not compared with the potential energy: too few draws, or a pass "
            "would take long."
        )
        return [unknown(name, why)]
    sizes = _sizes(evidence, group)
    figure = float(sizes.mean())
    share = float((sizes > _MOST_JUMPING).mean())
    is_bad = jumps(evidence) and not evidence.adjusted
    words = (
        f"Along lines between draws the potential energy jumps by {figure:.2g} temperatures in the "
        f"mean (limit {_MOST_JUMPING:g}), on {share:.0%} of the lines, and the gradient does not "
        "show it."
    )
    if jumps(evidence) and not is_bad:
        words += " Moves were accepted by the energies themselves, so that the draws are right."
    if not jumps(evidence):
        words = (
            "Along lines between draws the potential energy changes as the gradient says, up to "
            f"{figure:.1g} temperatures in the mean (limit {_MOST_JUMPING:g})."
        )
    advice = (
        "The draws are not of this posterior: the model has a threshold, a rounding, an argmax or "
        f"a table of a parameter. Give {_adjusted(evidence)}, make the model smooth there, or sum "
        "the cases out."
    )
    return [verdict(name, figure, _MOST_JUMPING, is_bad, words, advice)]


def jumps(evidence: Evidence) -> bool:
    """Whether the potential energy was found to jump."""
    group = evidence.group("gradient")
    return group is not None and float(_sizes(evidence, group).mean()) > _MOST_JUMPING


def _sizes(evidence: Evidence, group: xr.Dataset) -> np.ndarray:
    """The jumps along each line in temperatures, none larger than what counts."""
    return np.minimum(group["jump"].values / evidence.temperature, _MOST_OF_A_LINE)


def _adjusted(evidence: Evidence) -> str:
    """How moves come to be accepted by the energies of this run."""
    exact = evidence.noise is not None and evidence.noise.max(initial=0.0) == 0
    given = "`adjusted=True`" if exact else "`adjusted=True` with `energy='full'`"
    return given if "adjusted" in evidence.settings else f"{given} to `ContourSGLD` or `SGLD`"
