"""Sums of very many numbers without loss by rounding.

A float32 holds seven digits, but the energies of ten million rows add up to a number with eight
digits before the point. Each sum therefore carries what rounding has lost (Knuth's two-sum).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# So few terms that their plain sum loses less than the terms themselves have lost.
_BLOCK = 32


class Sum(NamedTuple):
    """A number as the unevaluated sum of two."""

    #: the number, rounded
    high: jax.Array
    #: what the rounding lost
    low: jax.Array

    def float64(self) -> np.ndarray:
        """The number in double precision."""
        return np.asarray(self.high, np.float64) + np.asarray(self.low, np.float64)


def zero_sum(shape: tuple[int, ...] = ()) -> Sum:
    """The sum of nothing."""
    zeros = jnp.zeros(shape, jnp.result_type(float))
    return Sum(zeros, zeros)


def add(one: Sum, other: Sum) -> Sum:
    """The sum of two sums."""
    high, lost = _two_sum(one.high, other.high)
    return Sum(*_two_sum(high, lost + one.low + other.low))


def added(sums: Sum) -> Sum:
    """The sum of a few sums along the first axis."""
    result = jax.tree.map(lambda x: x[0], sums)
    for number in range(1, sums.high.shape[0]):
        result = add(result, jax.tree.map(lambda x, number=number: x[number], sums))
    return result


def total(values: jax.Array) -> Sum:
    """The sum over the first axis: a plain one within short blocks, then pairwise over the blocks.

    Source: Knuth, The Art of Computer Programming, volume 2, 4.2.2, theorem B.
    """
    blocks = -(-values.shape[0] // _BLOCK)
    size = 1 << max(blocks - 1, 0).bit_length()
    padding = [(0, size * _BLOCK - values.shape[0])] + [(0, 0)] * (values.ndim - 1)
    high = jnp.pad(values, padding).reshape(_BLOCK, size, *values.shape[1:]).sum(0)
    low = jnp.zeros_like(high)
    while size > 1:
        size //= 2
        high, lost = _two_sum(high[:size], high[size:])
        low = low[:size] + low[size:] + lost
    return Sum(high[0], low[0])


def _two_sum(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The rounded sum, and exactly what the rounding lost."""
    rounded = a + b
    of_b = rounded - a
    return rounded, (a - (rounded - of_b)) + (b - of_b)
