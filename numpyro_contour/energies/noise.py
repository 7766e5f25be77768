"""The noise of a minibatch's energy, from the scatter of its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.energies.anchors import Anchor, Anchors, Expansions, Serving, serving
from numpyro_contour.energies.data_expansion import variance_of_expansion
from numpyro_contour.models.all_rows import along
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.row_terms import axes_of_terms, terms


def told_variance(
    potential: ModelPotential, like: Any, expansions: Expansions, order: jax.Array
) -> Callable:
    """`(rows, position, anchors, serving) -> variance` of the energy of the estimator in use.

    Args:
        potential: the potential energy of the model.
        like: an unconstrained position.
        expansions: those of the control variate that may come.
        order: that of the one in use, the same for all chains.
    """
    at_anchors = variances_at_anchors(potential, like)

    def of_anchors(indices: Any, flat: jax.Array, anchors: Anchors, served: Serving) -> jax.Array:
        order = jnp.where(served.anchor.weight > 0, anchors.order, 0)
        return at_anchors(indices, flat, served.anchor)[order]

    if not expansions.clusters:
        return of_anchors
    of_expansion = variance_of_expansion(potential, like, expansions.clusters)

    def told(indices: Any, flat: jax.Array, anchors: Anchors, served: Serving) -> jax.Array:
        return lax.cond(
            order == 3,
            lambda indices, flat, *_: of_expansion(indices, flat),
            of_anchors,
            *(indices, flat, anchors, served),
        )

    return told


def variances_of_all(potential: ModelPotential, like: Any, expansions: Expansions) -> Callable:
    """`(rows, position, anchors) -> (4,)`, the variance of a minibatch alone and of every order.

    It is infinite for an order that cannot come.
    """
    at_anchors = variances_at_anchors(potential, like)
    possible = jnp.asarray([number in (0, *expansions.orders) for number in range(4)])
    clusters = expansions.clusters

    def variances(indices: Any, flat: jax.Array, anchors: Anchors) -> jax.Array:
        by_data = jnp.zeros((1,))
        if clusters:
            by_data = variance_of_expansion(potential, like, clusters)(indices, flat)[None]
        at_nearest = at_anchors(indices, flat, serving(anchors, flat).anchor)
        found = jnp.concatenate([at_nearest, by_data])
        return jnp.where(possible, found, jnp.inf)

    return variances


def variances_at_anchors(potential: ModelPotential, like: Any) -> Callable:
    """`(rows, position, anchor) -> (3,)`, the variances of a minibatch's energy by each order.

    They are that of the minibatch alone, and those by the first and second order at the anchor.
    Rows of nested plates scatter along each plate by itself; what is left beside is counted twice.
    """

    def variances(indices: Any, flat: jax.Array, anchor: Anchor) -> jax.Array:
        def energies(x: jax.Array) -> dict[str, jax.Array]:
            return terms(potential, unravel_like(x, like), indices)

        expanded = along(energies, anchor.position, flat - anchor.position)

        def remainder(v: jax.Array, w: jax.Array, slope: jax.Array, bend: jax.Array) -> jax.Array:
            first = v - w - slope
            return jnp.stack([v, first, first - 0.5 * bend])

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
        return sum(parts, jnp.zeros((3,)))

    return variances
