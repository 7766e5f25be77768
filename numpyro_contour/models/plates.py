"""The subsample plates of a NumPyro model, and the rows that a minibatch takes of them.

NumPyro's own subsampling shuffles the whole plate at every step. Here indices are drawn with
replacement, in time proportional to the minibatch, and a handler gives them to the plates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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


Group = tuple[str, ...]
#: sums of the rows' energies over the plates that are not named, for names of a group's plates
Marginals = Mapping[Group, jax.Array]


def subsets(group: Group) -> list[Group]:
    """The subsets of a group in its order, the empty one first, the group itself last."""
    return [s for n in range(len(group) + 1) for s in itertools.combinations(group, n)]


def needed_marginals(group: Group, groups: tuple[Group, ...]) -> list[Group]:
    """The sums that `minibatch_variance` takes of a group's rows."""
    inside_another = any(set(group) < set(other) for other in groups)
    return subsets(group) if inside_another else subsets(group)[:-1]


def minibatch_variance(
    plates: SubsamplePlates,
    marginals: Mapping[Group, Marginals],
    squares: Mapping[Group, jax.Array],
) -> jax.Array:
    r"""The variance of an energy estimated from rows that are drawn with replacement.

    .. math:: \mathrm{Var} = \sum_{T \neq \emptyset} \prod_{p \in T} \frac{N_p^2}{n_p}
              \sum_{S \subseteq T} (-1)^{|T \setminus S|} \overline{m_S^2}

    over the sets T of plates, with :math:`m_S` the mean energy over the other plates of T, of
    all rows that lie inside T. For one plate it is :math:`N^2 / n` times the variance of its rows.
    Rows of nested plates, drawn as the product of their plates' rows, are not independent, and
    this is their analysis of variance.

    Args:
        plates: sizes and minibatch sizes.
        marginals: for each group of rows, its `needed_marginals`.
        squares: the sum of squares of each group's rows.

    Source: Hoeffding (1948), section 5, for the decomposition.
    """
    sizes = {name: size for name, (size, _) in plates.sizes.items()}
    groups = [group for group in marginals if group]
    variance = jnp.zeros((), jnp.result_type(float))
    for inside in dict.fromkeys(t for group in groups for t in subsets(group) if t):
        around = [group for group in groups if set(inside) <= set(group)]
        count = math.prod(sizes[name] for name in inside)
        if around == [inside]:
            sums = marginals[inside]
            squared = {
                s: jnp.mean((sums[s] * (math.prod(sizes[p] for p in s) / count)) ** 2)
                for s in subsets(inside)[:-1]
            }
            squared[inside] = squares[inside] / count
        else:
            energies = sum(marginals[group][inside] for group in around)
            squared = {}
            for s in subsets(inside):
                axes = tuple(i for i, name in enumerate(inside) if name not in s)
                squared[s] = jnp.mean(jnp.mean(energies, axes) ** 2)
        component = sum((-1) ** (len(inside) - len(s)) * x for s, x in squared.items())
        rows = math.prod(plates.sizes[name][1] for name in inside)
        variance += count**2 / rows * jnp.maximum(component, 0.0)
    return variance
