"""The choice of a first anchor among several points."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import random

from numpyro_contour.core.arrays.factors import slope
from numpyro_contour.models.estimators.anchors import Anchor, no_anchors, serving
from numpyro_contour.models.estimators.control_variate import first_order
from numpyro_contour.models.model_potential import ModelPotential

# Minibatches from which the noise of an estimator at a position is estimated.
_COMPARED = 32


def least_noisy(
    key: jax.Array,
    potential: ModelPotential,
    like: Any,
    position: jax.Array,
    candidates: Anchor,
    preconditioner: jax.Array,
    or_none: bool,
    factor: Any = (),
) -> Anchor:
    """The anchor whose control variate has the least noise at a position.

    The measure is the product of the variances of the energy and of the preconditioned gradient.

    Args:
        key: random key.
        potential: the potential energy of a model with subsample plates.
        like: an unconstrained position of the model.
        position: where the noise is estimated, (d,).
        candidates: several, along a leading axis.
        preconditioner: D of the preconditioner L D L', (d,).
        or_none: whether to return the first one, with weight 0, where a minibatch alone has less
            noise.
        factor: L, (d, d). Defaults to (), for the identity.
    """
    keys = random.split(key, _COMPARED)
    estimate = first_order(potential, like)
    blank = no_anchors(position.shape[0], (1,))

    def noise(anchor: Anchor) -> jax.Array:
        alone = blank._replace(slots=jax.tree.map(lambda x: x[None], anchor))
        served = serving(alone, position)
        energies, gradients = jax.vmap(
            lambda k: estimate(potential.plates.draw(k), position, alone, served)
        )(keys)
        slopes = jax.vmap(lambda gradient: slope(factor, gradient))(gradients)
        return energies.var() * jnp.sum(preconditioner * slopes.var(0))

    none = jax.tree.map(lambda x: x[:1], candidates)
    none = none._replace(weight=jnp.zeros_like(none.weight))
    used = candidates._replace(weight=jnp.ones_like(candidates.weight))
    levels = jax.vmap(noise)(jax.tree.map(lambda *both: jnp.concatenate(both), used, none))
    # Where the descent found no finite energy there is no anchor: its gradient was left at 0.
    usable = jnp.isfinite(levels[:-1] + used.energy.high) & jnp.any(used.gradient != 0, -1)
    least = jnp.where(usable, levels[:-1], jnp.inf)
    limit = levels[-1] if or_none else jnp.inf
    place = jnp.argmin(least)
    taken = jnp.isfinite(least[place]) & (least[place] <= limit)
    return jax.tree.map(lambda a, b: jnp.where(taken, a[place], b[0]), used, none)
