"""The control variate: a minibatch's energy relative to its expansion at an anchor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.models.all_rows import along
from numpyro_contour.models.estimators.anchors import Anchor, Anchors, no_anchors, serving
from numpyro_contour.models.estimators.minibatch import plain_on_rows, summed
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.row_terms import axes_of_terms, terms

# Minibatches from which the noise of an estimator at a position is estimated.
_COMPARED = 32


def control_variate(
    potential: ModelPotential, like: Any, order: jax.Array, tells_noise: jax.Array | bool = False
) -> Callable:
    r"""`(key, position, anchors) -> (energy, gradient, variance)`, first-order control variates.

    .. math:: \tilde U_B(x) - U(a_0) = U(a) - U(a_0) + \nabla U(a)^\top (x - a)
              + \bigl[\hat U_B(x) - \hat U_B(a) - \nabla \hat U_B(a)^\top (x - a)\bigr]

    with :math:`\hat U_B` the energy of minibatch B scaled to all rows and a the anchor nearest to
    x. It is unbiased at every x, whichever anchor is taken. Its noise is that of the second-order
    remainders, and its gradient is that of this energy. The bracket is summed term by term, so that
    nothing is lost to rounding.

    Args:
        potential: the potential energy of a model with subsample plates.
        like: an unconstrained position of the model.
        order: the order of the expansion, 1 or 2; 0 where no anchor of any chain has weight, so
            that a minibatch alone is evaluated.
        tells_noise: whether the variance of the energy's noise is estimated, from the scatter of
            the rows in the minibatch. It is 0 otherwise.

    Source: Baker, Fearnhead, Fox and Nemeth (2019) for the gradient; Quiroz, Kohn, Villani and Tran
    (2019) for the energy.
    """
    alone = plain_on_rows(potential, like)
    first, second = _first_order(potential, like), _second_order(potential, like)
    scatter = variance_on_rows(potential, like)

    def without(indices: Any, flat: jax.Array, anchors: Anchors) -> tuple[jax.Array, jax.Array]:
        energy, gradient = alone(indices, flat, ())
        reference = anchors.reference
        return (energy - reference.high) - reference.low, gradient

    def estimate(
        key: jax.Array, flat: jax.Array, anchors: Anchors
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        indices = potential.plates.draw(key)
        orders = [without, first, second] if anchors.slots.hessian.shape[-1] else [without, first]
        energy, gradient = lax.switch(order, orders, indices, flat, anchors)
        variance = lax.cond(
            tells_noise,
            lambda *given: scatter(*given)[anchors.order - 1],
            lambda *_: jnp.zeros_like(energy),
            *(indices, flat, anchors),
        )
        return energy, gradient, variance

    return estimate


def _first_order(potential: ModelPotential, like: Any) -> Callable:
    """The control variate of the nearest anchor, a minibatch alone where none has weight."""

    def estimate(indices: Any, flat: jax.Array, anchors: Anchors) -> tuple[jax.Array, jax.Array]:
        anchor, rise = serving(anchors, flat)
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
        reference = anchors.reference
        without = summed(jax.tree.map(lambda v: v[0], values)) - reference.high
        used = anchor.weight > 0
        return (
            jnp.where(used, energy, without - reference.low),
            jnp.where(used, gradient, here),
        )

    return estimate


def _second_order(potential: ModelPotential, like: Any) -> Callable:
    """As `_first_order`, with the Hessian's part; an anchor is in use."""

    def estimate(indices: Any, flat: jax.Array, anchors: Anchors) -> tuple[jax.Array, jax.Array]:
        anchor, rise = serving(anchors, flat)
        away = flat - anchor.position

        def evaluated(x: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
            energies = lambda x: terms(potential, unravel_like(x, like), indices)
            values, pull = jax.vjp(energies, x)
            return values, pull(jax.tree.map(jnp.ones_like, values))[0]

        values, here = evaluated(flat)
        (old, there), (_, turn) = jax.jvp(evaluated, (anchor.position,), (away,))
        slope, bend = anchor.gradient - there, anchor.hessian @ away - turn
        energy = summed(jax.tree.map(jnp.subtract, values, old)) + rise
        return energy + jnp.sum((slope + 0.5 * bend) * away), here + slope + bend

    return estimate


def variance_on_rows(potential: ModelPotential, like: Any) -> Callable:
    """The variances of a minibatch's energy, (orders,), from the scatter of its rows.

    Rows of nested plates scatter along each plate by itself; what is left beside is counted twice.
    """

    def variances(indices: Any, flat: jax.Array, anchors: Anchors) -> jax.Array:
        anchor, _ = serving(anchors, flat)

        def energies(x: jax.Array) -> dict[str, jax.Array]:
            return terms(potential, unravel_like(x, like), indices)

        expanded = along(energies, anchor.position, flat - anchor.position)
        used = anchor.weight > 0

        def remainder(v: jax.Array, w: jax.Array, slope: jax.Array, bend: jax.Array) -> jax.Array:
            first = v - w - slope
            return jnp.stack([jnp.where(used, r, v) for r in (first, first - 0.5 * bend)])

        remainders = jax.tree.map(remainder, energies(flat), *expanded)
        scatters: dict[str, jax.Array] = {}
        for name, axes in axes_of_terms(potential, like, indices).items():
            for plate, axis in axes.items():
                count, values = indices[plate].shape[0], remainders[name]
                kept = values.ndim + axis
                if values.shape[kept] == count:
                    summed_rows = values.sum([i for i in range(1, values.ndim) if i != kept])
                    scatters[plate] = scatters.get(plate, 0.0) + summed_rows
        counts = {plate: rows.shape[1] for plate, rows in scatters.items()}
        parts = [n * jnp.var(scatters[p], 1, ddof=1) for p, n in counts.items() if n > 1]
        return sum(parts, jnp.zeros((2,)))

    return variances


def least_noisy(
    key: jax.Array,
    potential: ModelPotential,
    like: Any,
    position: jax.Array,
    candidates: Anchor,
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
        candidates: several, along a leading axis.
        preconditioner: the diagonal of M, (d,).
        or_none: whether to return the first one, with weight 0, where a minibatch alone has less
            noise.
    """
    keys = random.split(key, _COMPARED)
    estimate = _first_order(potential, like)
    blank = no_anchors(position.shape[0])

    def noise(anchor: Anchor) -> jax.Array:
        alone = blank._replace(slots=jax.tree.map(lambda x: x[None], anchor))
        energies, gradients = jax.vmap(
            lambda k: estimate(potential.plates.draw(k), position, alone)
        )(keys)
        return energies.var() * jnp.sum(preconditioner * gradients.var(0))

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
