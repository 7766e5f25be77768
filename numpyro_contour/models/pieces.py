"""All combinations of the rows of nested plates, cut into pieces of one shape."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax


class Pieces(NamedTuple):
    """The rows of a group of plates, cut into pieces of one shape."""

    group: tuple[str, ...]
    sizes: tuple[int, ...]
    #: rows of each plate in a piece
    lengths: tuple[int, ...]
    #: pieces along each plate
    counts: tuple[int, ...]

    @classmethod
    def of(cls, group: tuple[str, ...], sizes: list[int], at_once: int) -> Pieces:
        """Pieces of at most so many combinations of rows."""
        lengths, counts = [], []
        for size in sizes:
            count = -(-size // max(1, min(size, at_once)))
            length = -(-size // count)
            at_once //= length
            lengths.append(length)
            counts.append(count)
        return cls(group, tuple(sizes), tuple(lengths), tuple(counts))

    def at(self, number: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
        """The rows of each plate in a piece, and which of their combinations count."""
        rows, counted = {}, jnp.ones((), bool)
        for name, size, length, count in zip(self.group, self.sizes, self.lengths, self.counts):
            number, place = number // count, number % count
            places = place * length + jnp.arange(length)
            rows[name] = jnp.minimum(places, size - 1)
            counted = counted[..., None] & (places < size)
        return rows, counted

    def fold(self, add_piece: Callable, carry: Any) -> Any:
        """The pieces taken one after the other: `add_piece(carry, piece) -> carry`."""
        numbers = jnp.arange(math.prod(self.counts), dtype=jnp.int32)
        if len(numbers) == 1:
            return add_piece(carry, self.at(numbers[0]))
        return lax.scan(lambda c, n: (add_piece(c, self.at(n)), None), carry, numbers)[0]
