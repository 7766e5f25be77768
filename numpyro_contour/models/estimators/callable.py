"""A user's own estimator of the potential energy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.vectors import ravel, unravel_like
from numpyro_contour.models.estimators.estimator import Estimator


def of_callable(energy: Callable, like: Any) -> Estimator:
    """The user's own `(key, position) -> (potential energy, gradient)`."""
    expected = jax.tree.map(jnp.shape, like)

    def estimate(key: jax.Array, flat: jax.Array, anchor: Any) -> tuple[jax.Array, jax.Array]:
        value, gradient = energy(key, unravel_like(flat, like))
        shapes = jax.tree.map(jnp.shape, gradient)
        if shapes != expected or jnp.shape(value) != ():
            raise ValueError(
                "`energy` takes a callable `(key, z)` that returns a scalar potential energy "
                f"and a gradient of the shapes of z, {expected}, but it returned shapes "
                f"{jnp.shape(value)} and {shapes}."
            )
        return jnp.asarray(value, flat.dtype), ravel(gradient).astype(flat.dtype)

    return estimate
