"""Step sizes that fit where chains come later: up steep walls, and in narrow modes.

Flattened chains go far up, and on steep walls the curvature grows with the energy. A step that is
stable at their foot overshoots up there: its drift is clipped, and the chain is thrown back to
energies that it would seldom visit. In a mode that is narrower than the places of tuning, steps
overshoot the bottom: draws are spread too widely there, and chains are thrown out and give it too
little mass.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from numpyro_contour.core.arrays.factors import displacement
from numpyro_contour.core.samplers.jumps import JumpCounts
from numpyro_contour.modes.found_modes import FoundModes
from numpyro_contour.warmup.stages.plan import TUNE, Plan
from numpyro_contour.warmup.stages.state import Warmup, progress
from numpyro_contour.warmup.stages.tuning import TINY, Tuning

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


# The largest product of step size and curvature at the bottom of a mode, where from 2 on steps are
# unstable. At 1 a mode of sd 0.3 beside one of sd 1 had 0.81 to 0.85 of the mass instead of 0.8, in
# one coordinate; at 0.45 it has 0.79 to 0.83.
_MOST_OFTEN = 0.45
# The log step size falls by no more.
_MOST_FALL = 8.0
# A mode that is lighter than the heaviest one by more nats has no say.
_LIGHTER = 4.0
# So many jumps into a mode, and such a share of the tries, show that it is as wide as it seems
# where it is no normal: the end of a neck is not.
_FEWEST_JUMPS, _LEAST_SHARE = 3, 0.05
# Products with the Hessian: the largest eigenvalue is seldom too low by a tenth after them.
_PRODUCTS = 8


def suited_to_modes(
    tuning: Tuning, found: FoundModes, jumps: JumpCounts, temperature: jax.Array
) -> Tuning:
    r"""What is tuned, with a step size that suits all modes in use.

    .. math:: \epsilon\, \lambda_{\max}(M^{1/2} L^\top H_k L M^{1/2}) \le 0.45, \qquad
       H_k = \tau F_k^{-\top} F_k^{-1}

    Moves are preconditioned by :math:`L M L^\top`, and :math:`F_k F_k^\top` is the covariance of
    mode k. Modes in use are those that chains jump to, and normals with much of the mass. M stays:
    what is narrow in one mode may be wide in the others.

    Args:
        tuning: what is tuned of the chain.
        found: the modes that are known.
        jumps: the jumps of the warm-up so far, of all chains that run together.
        temperature: tau.

    Returns:
        The tuning; as it is where the shapes of modes are not known.
    """
    modes = found.modes
    if modes.factor.ndim < 3:
        return tuning
    tried, made = jumps.tried.sum(0), jumps.made.sum(0)
    in_use = modes.known & (made >= _FEWEST_JUMPS) & (made > _LEAST_SHARE * tried)
    normal = modes.known & found.is_normal & found.several
    heaviest = jnp.max(found.log_mass, where=normal, initial=-jnp.inf)
    in_use |= normal & (found.log_mass > heaviest - _LIGHTER)
    size, dtype = modes.mean.shape[-1], modes.mean.dtype
    axes = jax.vmap(lambda axis: displacement(tuning.factor, axis))(jnp.eye(size, dtype=dtype))
    # R, with R'R tau = M^1/2 L'H L M^1/2
    roots = (modes.inverse @ axes.T) * jnp.sqrt(tuning.preconditioner)

    def grown(_: int, v: jax.Array) -> jax.Array:
        v = v / (_length(v)[:, None] + TINY)
        return jnp.einsum("kji,kj->ki", roots, jnp.einsum("kji,ki->kj", roots, v))

    first = np.random.default_rng(0).standard_normal(size).astype(dtype)
    start = jnp.broadcast_to(first, modes.mean.shape)
    largest = temperature * _length(lax.fori_loop(0, _PRODUCTS, grown, start))
    most = jnp.max(jnp.where(in_use & jnp.isfinite(largest), largest, 0.0))
    step_size = tuning.step_size
    bound = jnp.where(most > 0, jnp.log(_MOST_OFTEN / (most + TINY)), jnp.inf)
    bound = jnp.maximum(bound, step_size.log_value - _MOST_FALL)
    lower = jnp.minimum(step_size.log_average, bound)
    return tuning._replace(step_size=step_size._replace(log_average=lower))


def _length(v: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(v**2, -1))
