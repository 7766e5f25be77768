"""The control variate: a minibatch's energy relative to its first-order expansion at an anchor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.core.arrays.compensated_sums import Sum, zero_sum
from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.models.all_rows import FullData
from numpyro_contour.models.estimators.minibatch import plain_on_rows, summed
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.row_terms import terms

# Minibatches from which the noise of an estimator at a position is estimated.
_COMPARED = 32


class Anchor(NamedTuple):
    """The point at which a chain's control variate is expanded."""

    #: the point a, (d,)
    position: jax.Array
    #: U(a) over all data in nats; the chain's energies are differences to it
    energy: Sum
    #: its gradient, (d,)
    gradient: jax.Array
    #: 1 where the control variate is in use, 0 before there is an anchor and where noise forbids it
    weight: jax.Array


def no_anchor(size: int) -> Anchor:
    """Before the descent has found a point."""
    zeros = jnp.zeros((size,), jnp.result_type(float))
    return Anchor(zeros, zero_sum(), zeros, jnp.zeros((), zeros.dtype))


def anchor_at(full_data: FullData, position: jax.Array) -> Anchor:
    """An anchor, by one pass over all data."""
    energy, gradient = full_data.energy_and_gradient(position)
    return Anchor(position, energy, gradient, jnp.ones((), position.dtype))


def control_variate(potential: ModelPotential, like: Any, in_use: jax.Array) -> Callable:
    r"""`(key, position, anchor) -> (energy, gradient)` with the first-order control variate.

    .. math:: \tilde U_B(x) - U(a) = \nabla U(a)^\top (x - a)
              + \bigl[\hat U_B(x) - \hat U_B(a) - \nabla \hat U_B(a)^\top (x - a)\bigr]

    with :math:`\hat U_B` the energy of minibatch B scaled to all rows. It is unbiased at every x,
    its noise is that of the second-order remainders, and its gradient is that of this energy. The
    bracket is summed term by term, so that nothing is lost to rounding.

    Args:
        potential: the potential energy of a model with subsample plates.
        like: an unconstrained position of the model.
        in_use: whether any chain's anchor has weight; a minibatch alone is evaluated otherwise.

    Source: Baker, Fearnhead, Fox and Nemeth (2019) for the gradient; Quiroz, Kohn, Villani and Tran
    (2019) for the energy.
    """
    alone, controlled = plain_on_rows(potential, like), _controlled_on_rows(potential, like)

    def estimate(key: jax.Array, flat: jax.Array, anchor: Anchor) -> tuple[jax.Array, jax.Array]:
        return lax.cond(in_use, controlled, alone, potential.plates.draw(key), flat, anchor)

    return estimate


def _controlled_on_rows(potential: ModelPotential, like: Any) -> Callable:
    """The control variate of an anchor with weight, a minibatch alone for one without."""

    def estimate(indices: Any, flat: jax.Array, anchor: Anchor) -> tuple[jax.Array, jax.Array]:
        # Both positions in one evaluation: a minibatch is gathered once.
        values, pull = jax.vjp(
            jax.vmap(lambda x: terms(potential, unravel_like(x, like), indices)),
            jnp.stack([flat, anchor.position]),
        )
        ((here, there),) = pull(jax.tree.map(jnp.ones_like, values))
        away = flat - anchor.position
        difference = summed(jax.tree.map(lambda v: v[0] - v[1], values))
        energy = difference + jnp.sum((anchor.gradient - there) * away)
        gradient = here + (anchor.gradient - there)
        without = summed(jax.tree.map(lambda v: v[0], values)) - anchor.energy.high
        used = anchor.weight > 0
        return (
            jnp.where(used, energy, without - anchor.energy.low),
            jnp.where(used, gradient, here),
        )

    return estimate


def least_noisy(
    key: jax.Array,
    potential: ModelPotential,
    like: Any,
    position: jax.Array,
    anchors: Anchor,
    preconditioner: jax.Array,
    or_none: bool,
) -> Anchor:
    """The anchor whose control variate has the least noise at a position.

    The measure is the product of the variances of the energy and of the preconditioned gradient.

    Args:
        key: random key.
        potential: the potential energy of a model with subsample plates.
        like: an unconstrained position of the model.
        position: where the noise is estimated, (d,).
        anchors: several, along a leading axis.
        preconditioner: the diagonal of M, (d,).
        or_none: whether to return the first one, with weight 0, where a minibatch alone has less
            noise.
    """
    keys = random.split(key, _COMPARED)
    estimate = _controlled_on_rows(potential, like)

    def noise(anchor: Anchor) -> jax.Array:
        energies, gradients = jax.vmap(
            lambda k: estimate(potential.plates.draw(k), position, anchor)
        )(keys)
        return energies.var() * jnp.sum(preconditioner * gradients.var(0))

    none = jax.tree.map(lambda x: x[:1], anchors)
    none = none._replace(weight=jnp.zeros_like(none.weight))
    used = anchors._replace(weight=jnp.ones_like(anchors.weight))
    levels = jax.vmap(noise)(jax.tree.map(lambda *both: jnp.concatenate(both), used, none))
    # Where the descent found no finite energy there is no anchor: its gradient was left at 0.
    usable = jnp.isfinite(levels[:-1] + anchors.energy.high) & jnp.any(anchors.gradient != 0, -1)
    least = jnp.where(usable, levels[:-1], jnp.inf)
    limit = levels[-1] if or_none else jnp.inf
    place = jnp.argmin(least)
    taken = jnp.isfinite(least[place]) & (least[place] <= limit)
    return jax.tree.map(lambda a, b: jnp.where(taken, a[place], b[0]), used, none)
