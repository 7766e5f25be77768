"""The control variate: a minibatch's energy relative to its expansion at an anchor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.core.arrays.entries import entries
from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.energies.anchors import Anchors, Expansions, Serving, serving
from numpyro_contour.energies.data_expansion import data_expansion
from numpyro_contour.energies.minibatch import plain_on_rows, summed
from numpyro_contour.energies.noise import told_variance
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.row_terms import terms


def control_variate(
    potential: ModelPotential,
    like: Any,
    expansions: Expansions,
    order: jax.Array,
    tells_noise: jax.Array | bool = False,
) -> Callable:
    r"""`(key, position, anchors) -> (energy, gradient, variance)`, control variates at anchors.

    .. math:: \tilde U_B(x) - U(a_0) = U(a) - U(a_0) + T_a(x)
              + \bigl[\hat U_B(x) - \hat U_B(a) - \hat T_{B,a}(x)\bigr], \qquad
              T_a(x) = \nabla U(a)^\top (x - a)
              \bigl[{} + \tfrac12 (x - a)^\top \nabla^2 U(a) (x - a)\bigr]

    with :math:`\hat U_B` the energy of minibatch B scaled to all rows, :math:`\hat T_{B,a}` its
    expansion, and a the anchor nearest to x. It is unbiased at every x, whichever anchor is taken.
    Its noise is that of the remainders of the rows, and its gradient is that of this energy. The
    bracket is summed term by term, so that nothing is lost to rounding. Out of the reach of every
    anchor it is the energy of the minibatch alone.

    Args:
        potential: the potential energy of a model with subsample plates.
        like: an unconstrained position of the model.
        expansions: those that may come.
        order: that of the one in use; 0 where no anchor of any chain has weight, so that a
            minibatch alone is evaluated.
        tells_noise: whether the variance of the energy's noise is estimated, from the scatter of
            the rows in the minibatch. It is 0 otherwise.

    Source: Baker, Fearnhead, Fox and Nemeth (2019) for the gradient; Quiroz, Kohn, Villani and Tran
    (2019) for the energy.
    """
    made: dict[int, Callable] = {1: first_order, 2: _second_order, 3: partial(_by_data, expansions)}
    orders = expansions.orders
    branches = [_alone(potential, like), *(made[number](potential, like) for number in orders)]
    places = jnp.asarray([0, *(1 + orders.index(k) if k in orders else 1 for k in made)])
    told = told_variance(potential, like, expansions, order)

    def estimate(
        key: jax.Array, flat: jax.Array, anchors: Anchors
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        # Once for all that take it: what is traced here is compiled wherever energies are computed.
        given = potential.plates.draw(key), flat, anchors, serving(anchors, flat)
        energy, gradient = lax.switch(places[order], branches, *given)
        none = jnp.zeros_like(energy)
        if isinstance(tells_noise, bool):  # only one side is compiled
            return energy, gradient, told(*given) if tells_noise else none
        return energy, gradient, lax.cond(tells_noise, told, lambda *_: none, *given)

    return estimate


def _alone(potential: ModelPotential, like: Any) -> Callable:
    """The minibatch alone, as a difference to the reference."""
    on_rows = plain_on_rows(potential, like)

    def estimate(
        indices: Any, flat: jax.Array, anchors: Anchors, served: Serving
    ) -> tuple[jax.Array, jax.Array]:
        energy, gradient = on_rows(indices, flat, ())
        return (energy - served.reference.high) - served.reference.low, gradient

    return estimate


def _by_data(expansions: Expansions, potential: ModelPotential, like: Any) -> Callable:
    """The expansion in the data, relative to the first anchor."""
    assert expansions.clusters
    expansion = data_expansion(potential, like, expansions.clusters)
    return lambda indices, flat, anchors, served: expansion(indices, flat, anchors.home)


def first_order(potential: ModelPotential, like: Any) -> Callable:
    """The control variate of the nearest anchor, a minibatch alone out of its reach.

    It takes `(rows, position, anchors, serving)`, as the other orders do, and returns an energy and
    a gradient.
    """

    def estimate(
        indices: Any, flat: jax.Array, anchors: Anchors, served: Serving
    ) -> tuple[jax.Array, jax.Array]:
        _, anchor, rise, reference = served
        # Both positions in one evaluation: a minibatch is gathered once.
        values, pull = jax.vjp(
            jax.vmap(lambda x: terms(potential, unravel_like(x, like), indices)),
            jnp.stack([flat, anchor.position]),
        )
        ((here, there),) = pull(jax.tree.map(jnp.ones_like, values))
        away = flat - anchor.position
        difference = summed(jax.tree.map(lambda v: v[0] - v[1], values))
        energy = difference + jnp.sum((anchor.gradient - there) * away) + rise
        gradient = here + (anchor.gradient - there)
        used = anchor.weight > 0
        alone = (summed(jax.tree.map(lambda v: v[0], values)) - reference.high) - reference.low
        return jnp.where(used, energy, alone), jnp.where(used, gradient, here)

    return estimate


def _second_order(potential: ModelPotential, like: Any) -> Callable:
    """As `first_order`, with the Hessian's part."""

    def estimate(
        indices: Any, flat: jax.Array, anchors: Anchors, served: Serving
    ) -> tuple[jax.Array, jax.Array]:
        number, anchor, rise, reference = served
        hessian = entries(anchors.slots.hessian, number)
        used = anchor.weight > 0
        away = flat - anchor.position

        def evaluated(x: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
            energies = lambda x: terms(potential, unravel_like(x, like), indices)
            values, pull = jax.vjp(energies, x)
            return values, pull(jax.tree.map(jnp.ones_like, values))[0]

        values, here = evaluated(flat)
        (old, there), (_, turn) = jax.jvp(evaluated, (anchor.position,), (away,))
        slope, bend = anchor.gradient - there, hessian @ away - turn
        energy = summed(jax.tree.map(jnp.subtract, values, old)) + rise
        energy = energy + jnp.sum((slope + 0.5 * bend) * away)
        alone = (summed(values) - reference.high) - reference.low
        return jnp.where(used, energy, alone), here + jnp.where(used, slope + bend, 0.0)

    return estimate
