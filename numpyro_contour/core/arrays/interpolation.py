"""Linear interpolation between values at the whole numbers 0, 1, ..., as weights of the values."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def interpolation_weights(place: jax.Array, count: int) -> jax.Array:
    """The weights of `count` evenly spaced nodes in a linear interpolation between them.

    Args:
        place: where to interpolate, (); 0 is the first node and `count - 1` the last one. Places
            outside get the value of the nearest node.
        count: the number of nodes.

    Returns:
        Weights that sum to 1, (count,); at most two neighbours have a weight above 0.
    """
    place = jnp.clip(place, 0, count - 1)
    return jnp.maximum(1 - jnp.abs(place - jnp.arange(count, dtype=place.dtype)), 0)
