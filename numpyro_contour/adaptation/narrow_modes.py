"""The step size that the narrowest of the known modes bears.

A step fits the widths of the places where it was found. In a narrower mode it overshoots the
bottom: draws are spread too widely there, and chains are thrown out and give it too little mass.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from numpyro_contour.adaptation.found_modes import FoundModes
from numpyro_contour.adaptation.tuning import TINY, Tuning
from numpyro_contour.core.arrays.factors import displacement, slope

# The largest product of step size and curvature at the bottom of a mode, where from 2 on steps are
# unstable.
_MOST = 1.0
# A mode that is lighter than the heaviest one by more nats is left out.
_LIGHTER = 4.0
# The log step size falls by no more: a mode that is narrower still is a neck, or rarely visited.
_MOST_FALL = 1.5
# Products with the Hessian: the largest eigenvalue is seldom too low by a tenth after them.
_PRODUCTS = 8


def suited_to_modes(tuning: Tuning, found: FoundModes, temperature: jax.Array) -> Tuning:
    r"""What is tuned, with a step size that suits all modes of much mass.

    .. math:: \epsilon \max_k \lambda_{\max}(L^\top H_k L) \le 1, \quad
       H_k = \tau F_k^{-\top} F_k^{-1}

    Moves are preconditioned by :math:`L L^\top`, and :math:`F_k F_k^\top` is the covariance of
    mode k.

    Args:
        tuning: what is tuned of the chain.
        found: the modes that are known.
        temperature: tau.

    Returns:
        The tuning; as it is where there are not two modes, or their shapes are not known.
    """
    modes = found.modes
    if modes.factor.ndim < 3:
        return tuning
    root = jnp.sqrt(tuning.preconditioner)

    def product(inverse: jax.Array, v: jax.Array) -> jax.Array:
        image = inverse @ displacement(tuning.factor, root * v)
        return root * slope(tuning.factor, image @ inverse)

    def grown(_: int, v: jax.Array) -> jax.Array:
        return jax.vmap(product)(modes.inverse, v / (_size(v)[:, None] + TINY))

    first = np.random.default_rng(0).standard_normal(modes.mean.shape[-1])
    start = jnp.broadcast_to(first.astype(modes.mean.dtype), modes.mean.shape)
    largest = temperature * _size(lax.fori_loop(0, _PRODUCTS, grown, start))
    log_mass = jnp.where(modes.known, found.log_mass, -jnp.inf)
    counts = (log_mass > jnp.max(log_mass) - _LIGHTER) & jnp.isfinite(largest) & found.several
    most = jnp.max(jnp.where(counts, largest, 0.0))
    step_size = tuning.step_size
    bound = jnp.where(most > 0, jnp.log(_MOST / (most + TINY)), jnp.inf)
    bound = jnp.maximum(bound, step_size.log_value - _MOST_FALL)
    lower = jnp.minimum(step_size.log_average, bound)
    return tuning._replace(step_size=step_size._replace(log_average=lower))


def _size(v: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(v**2, -1))
