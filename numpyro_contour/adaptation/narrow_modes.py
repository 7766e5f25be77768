"""A step size that suits the narrowest of the modes that chains jump to.

Steps fit the widths of the places where they were found. In a narrower mode they overshoot the
bottom: draws are spread too widely there, and chains are thrown out and give it too little mass.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from numpyro_contour.adaptation.found_modes import FoundModes
from numpyro_contour.adaptation.tuning import TINY, Tuning
from numpyro_contour.core.arrays.factors import displacement
from numpyro_contour.core.samplers.jumps import JumpCounts

# The largest product of step size and curvature at the bottom of a mode, where from 2 on steps are
# unstable. At 1 a mode of sd 0.3 beside one of sd 1 had 0.81 to 0.85 of the mass instead of 0.8, in
# one coordinate; at 0.45 it has 0.79 to 0.83.
_MOST = 0.45
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
    bound = jnp.where(most > 0, jnp.log(_MOST / (most + TINY)), jnp.inf)
    bound = jnp.maximum(bound, step_size.log_value - _MOST_FALL)
    lower = jnp.minimum(step_size.log_average, bound)
    return tuning._replace(step_size=step_size._replace(log_average=lower))


def _length(v: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(v**2, -1))
