"""The subsample plates of a NumPyro model, and the rows that a minibatch takes of them.

NumPyro's own subsampling shuffles the whole plate at every step. Here indices are drawn with
replacement, in time proportional to the minibatch, and a handler gives them to the plates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour import checks
from numpyro_contour.core.arrays.random_bits import bits

MinibatchSize = int | Mapping[str, int] | None

#: among the indices of plates, the random key of the step that drew them, where a model asks for it
STEP_KEY = "key of the step"


@dataclass(frozen=True)
class SubsamplePlates:
    """The plates of a model whose rows are chosen here."""

    #: subsampled plates, name to (size, minibatch size)
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    #: plates that take all their rows against the model's own `subsample_size`, name to size
    whole: Mapping[str, int] = field(default_factory=dict)
    #: whether the model asks for a random key with each minibatch
    keyed: bool = False

    def __bool__(self) -> bool:
        return bool(self.sizes)

    def draw(self, key: jax.Array | Mapping[str, Any]) -> dict[str, Any]:
        """Fresh indices for each plate, uniform with replacement, in O(n).

        Args:
            key: random key; or what was drawn by one before, with `drawn`, and maybe more.

        Returns:
            Indices of rows by name of plate, (n,) each.
        """
        drawn = dict(key) if isinstance(key, Mapping) else self.drawn(key)
        return drawn | self._whole_rows()

    def drawn(self, key: jax.Array) -> dict[str, jax.Array]:
        """As `draw`, without the plates that take all rows."""
        keys = [key] if len(self.sizes) == 1 else random.split(key, max(len(self.sizes), 1))
        indices = {
            name: draw_indices(k, size, minibatch)
            for k, (name, (size, minibatch)) in zip(keys, self.sizes.items())
        }
        return indices | ({STEP_KEY: random.fold_in(key, 1)} if self.keyed else {})

    def first_rows(self) -> dict[str, jax.Array]:
        """Indices without randomness, for what must not depend on the data rows."""
        first = {name: jnp.arange(minibatch) for name, (_, minibatch) in self.sizes.items()}
        return first | self._whole_rows()

    def all_rows(self) -> dict[str, jax.Array]:
        """The indices of every row.

        Returns:
            Indices by name of plate, (N,) each.
        """
        rows = {name: jnp.arange(size) for name, (size, _) in self.sizes.items()}
        return rows | self._whole_rows()

    def taking(self, indices: Mapping[str, jax.Array]) -> SubsamplePlates:
        """These plates with as many rows as are given."""
        sizes = {name: (size, indices[name].shape[0]) for name, (size, _) in self.sizes.items()}
        return SubsamplePlates(sizes, self.whole, self.keyed)

    def _whole_rows(self) -> dict[str, jax.Array]:
        return {name: jnp.arange(size) for name, size in self.whole.items()}


def draw_indices(key: jax.Array, size: int, minibatch: int) -> jax.Array:
    """`minibatch` row numbers below `size`, uniform with replacement.

    The upper half of the product of 32 random bits and `size`: half the random bits of
    `random.randint`. A row's probability is off by at most 2**-32, which matters for none of the
    sizes that use it.
    """
    if size > 2**24:
        return random.randint(key, (minibatch,), 0, size)
    return _on_its_own(lambda key: _row_numbers(bits(key, (minibatch,)), size), key)


def _row_numbers(words: jax.Array, size: int) -> jax.Array:
    low, high = words & 0xFFFF, words >> 16
    size_low, size_high = size & 0xFFFF, size >> 16
    middle = high * size_low + (low * size_low >> 16)
    carried = low * size_high + (middle & 0xFFFF)
    return (high * size_high + (middle >> 16) + (carried >> 16)).astype(jnp.int32)


def _on_its_own(draw: Callable[[jax.Array], jax.Array], key: jax.Array) -> jax.Array:
    """What is drawn, in a program of its own.

    XLA would draw a row's number within the copying of the row, once for each of its columns. Only
    a branch keeps it from that, of which it must not see that it is always the same.
    """
    words = random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    never = lax.population_count(words[0]) > 32
    drawn = jax.eval_shape(draw, key)
    return lax.cond(never, lambda _: jnp.zeros(drawn.shape, drawn.dtype), draw, key)


def plates_of(site: Mapping[str, Any]) -> list[str]:
    """The names of the plates around a site."""
    return [frame.name for frame in site["cond_indep_stack"]]


def subsampled_plates_of(site: Mapping[str, Any], plates: SubsamplePlates) -> tuple[str, ...]:
    """The names of the subsampled plates around a site, in one order for all sites."""
    return tuple(sorted(name for name in plates_of(site) if name in plates.sizes))


def check_minibatch_size(value: MinibatchSize) -> MinibatchSize:
    """The argument `minibatch_size`, as far as it can be checked without the model."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {
            str(name): checks.integer(f"minibatch_size[{name!r}]", n, at_least=1)
            for name, n in value.items()
        }
    return checks.integer("minibatch_size", value, at_least=1)
