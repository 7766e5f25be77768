"""A step size that is right at typical energies, lowered where flattened chains climb.

Flattened chains go far up, and where walls steepen the curvature grows with the energy. A step
that is stable at their foot overshoots up there: its drift is clipped, and the chain is thrown
back to energies that it would seldom visit.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.stage import TUNE
from numpyro_contour.adaptation.warmup import Warmup, progress

# The share of clipped drifts that is let pass: a mixture of normals has one of a hundred, and
# without the clip the same masses.
_SHARE = 0.02
# The log step size falls by this times the share above it, over all flattened draws of a warm-up:
# from a share of a tenth by four within a fifth of them.
_RATE = 100.0
# No flattened draws may lower it by more: something else is wrong then.
_MOST = 8.0


def with_lower_step(plan: Plan, warmup: Warmup, clipped: jax.Array, steps: int) -> Warmup:
    r"""The warm-up after a draw of the kernel's sampler, with a step size for its climbs.

    .. math:: \log\epsilon \leftarrow \min\{\log\epsilon_0,\; \log\epsilon - r (s - s_0) / n\}

    with the share s of the draw's steps whose drift was clipped, n flattened draws in the warm-up,
    and the step size :math:`\epsilon_0` that was found at typical energies.

    Args:
        plan: the plan.
        warmup: the warm-up before the draw is counted.
        clipped: steps of the chain so far whose drift was clipped.
        steps: steps of a draw.
    """
    if TUNE not in plan.stages:
        return warmup
    here = progress(plan, warmup)
    found = warmup.tuning.step_size
    first = found.log_value
    share = (clipped - warmup.clipped) / steps
    bounds = plan.bounds(warmup.length)
    taken = jnp.diff(bounds, prepend=0)
    flattened = jnp.sum(taken * jnp.array([stage.flattens for stage in plan.stages]))
    lower = found.log_average - _RATE * (share - _SHARE) / jnp.maximum(flattened, 1)
    lower = jnp.clip(lower, first - _MOST, first)
    flattens = plan.flag("flattens", here.number)
    log_average = jnp.where(flattens, lower, found.log_average)
    tuning = warmup.tuning._replace(step_size=found._replace(log_average=log_average))
    return warmup._replace(tuning=tuning, clipped=clipped)
