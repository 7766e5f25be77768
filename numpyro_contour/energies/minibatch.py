"""The potential energy estimated from a minibatch alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.models.either_mode import values_and_gradient
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.row_terms import terms


def plain(potential: ModelPotential, like: Any) -> Callable:
    """`(key, position, anchors) -> (energy, gradient)` from a minibatch alone."""
    on_rows = plain_on_rows(potential, like)
    return lambda key, flat, anchors: on_rows(potential.plates.draw(key), flat, anchors)


def plain_on_rows(potential: ModelPotential, like: Any) -> Callable:
    """`(rows, position, anchors) -> (energy, gradient)`, as `plain` on the given rows."""

    def estimate(indices: Any, flat: jax.Array, anchors: Any) -> tuple[jax.Array, jax.Array]:
        energies = lambda x: terms(potential, unravel_like(x, like), indices)
        values, gradient = values_and_gradient(energies, flat)
        return summed(values), gradient

    return estimate


def summed(values: dict[str, jax.Array]) -> jax.Array:
    """The sum of all terms."""
    sums = [jnp.sum(x) for x in values.values()]
    return sum(sums[1:], sums[0])
