"""The noise of a minibatch's energy, from the scatter of its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.models.all_rows import along
from numpyro_contour.models.estimators.anchors import Anchors, serving
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.row_terms import axes_of_terms, terms


def told_variance(potential: ModelPotential, like: Any) -> Callable:
    """`(rows, position, anchors) -> variance` of the energy of the estimator that is in use."""
    on_rows = variances_on_rows(potential, like)

    def told(indices: Any, flat: jax.Array, anchors: Anchors) -> jax.Array:
        anchor, _ = serving(anchors, flat)
        order = jnp.where(anchor.weight > 0, anchors.order, 0)
        return on_rows(indices, flat, anchors)[order]

    return told


def variances_on_rows(potential: ModelPotential, like: Any) -> Callable:
    """The variances of a minibatch's energy, (3,): alone, and by the first and second order.

    Rows of nested plates scatter along each plate by itself; what is left beside is counted twice.
    """

    def variances(indices: Any, flat: jax.Array, anchors: Anchors) -> jax.Array:
        anchor, _ = serving(anchors, flat)

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
