"""Steps of a stage that are kept whole, evenly spaced, for directions to be found from them.

They take memory in proportion to the dimension, where all second moments would take its square.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

#: steps that are kept of a stage
ROWS = 256


class Rows(NamedTuple):
    """Steps of a stage; a row of zeros where none was kept."""

    #: positions and gradients there, (rows, d)
    places: jax.Array
    gradients: jax.Array
    #: differences to the gradient of another minibatch there, over the root of 2, (rows, d)
    noise: jax.Array


def no_rows(position: jax.Array) -> Rows:
    """Rows of a stage that has not begun."""
    zeros = jnp.zeros((ROWS, *position.shape), position.dtype)
    return Rows(zeros, zeros, zeros)


def with_row(
    rows: Rows,
    progress: jax.Array,
    place: jax.Array,
    gradient: jax.Array,
    difference: jax.Array | None,
    counts: jax.Array,
) -> Rows:
    """The rows with one more step, which takes the place of those just before it.

    Args:
        rows: the rows.
        progress: share of the stage that is done.
        place: the position, (d,).
        gradient: the gradient there, (d,).
        difference: between it and the gradient of another minibatch there, None where gradients
            are exact.
        counts: whether the step says anything; else the row is left empty.
    """
    number = jnp.clip((progress * ROWS).astype(jnp.int32), 0, ROWS - 1)

    def put(old: jax.Array, new: jax.Array) -> jax.Array:
        return lax.dynamic_update_index_in_dim(old, jnp.where(counts, new, 0.0), number, 0)

    noise = rows.noise if difference is None else put(rows.noise, difference / 2**0.5)
    return Rows(put(rows.places, place), put(rows.gradients, gradient), noise)
