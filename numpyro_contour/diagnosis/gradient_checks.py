"""Whether the gradient of the potential energy is its slope."""

from __future__ import annotations

import numpy as np

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
    sizes = np.minimum(group["jump"].values / evidence.temperature, _MOST_OF_A_LINE)
    figure = float(sizes.mean())
    share = float((sizes > _MOST_JUMPING).mean())
    is_bad = figure > _MOST_JUMPING
    words = (
        f"Along lines between draws the potential energy jumps by {figure:.2g} temperatures in the "
        f"mean (limit {_MOST_JUMPING:g}), on {share:.0%} of the lines, and the gradient does not "
        "show it."
    )
    if not is_bad:
        words = (
            "Along lines between draws the potential energy changes as the gradient says, up to "
            f"{figure:.1g} temperatures in the mean (limit {_MOST_JUMPING:g})."
        )
    advice = (
        "The draws are not of this posterior: the model has a threshold, a rounding, an argmax or "
        "a table of a parameter. Make it smooth there, sum the cases out, or use a sampler without "
        "gradients."
    )
    return [verdict(name, figure, _MOST_JUMPING, is_bad, words, advice)]
