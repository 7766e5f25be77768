"""Entries of arrays that lie one behind another, values between them, and choices of trees."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def entries(arrays: Any, numbers: jax.Array) -> Any:
    """`jax.tree.map(lambda x: x[numbers], arrays)`, of numbers that are in the range of all arrays.

    An index of JAX may be negative. To look for that takes about eight operations for each array,
    which are traced and compiled wherever a state of many arrays is indexed; this takes two.

    Args:
        arrays: a pytree of arrays with the same leading axis.
        numbers: which entries, of any shape; each at least 0 and less than that axis.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.arrays.entries import entries
        >>> entries({"a": jnp.arange(4.0)}, jnp.array([2, 0]))["a"].tolist()
        [2.0, 0.0]
        >>> entries({"a": jnp.eye(3)}, jnp.array(1))["a"].tolist()
        [0.0, 1.0, 0.0]
    """

    def entry(x: jax.Array) -> jax.Array:
        rest = range(numbers.ndim, numbers.ndim + x.ndim - 1)
        sizes = (1, *x.shape[1:])
        dimensions = lax.GatherDimensionNumbers(tuple(rest), (0,), (0,))
        return lax.gather(x, numbers[..., None], dimensions, sizes, mode="clip")

    return jax.tree.map(entry, arrays)


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


def tree_where(condition: jax.Array, one: Any, other: Any) -> Any:
    """Each array of one tree where a condition holds, and of the other where it does not.

    Args:
        condition: of a shape that goes with that of every array, mostly ().
        one: a pytree of arrays.
        other: a tree of the same form.
    """
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), one, other)
