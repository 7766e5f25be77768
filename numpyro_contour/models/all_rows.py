"""Passes over all rows of the data, in chunks of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.compensated_sums import Sum, add, total, zero_sum
from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.models.either_mode import values_and_gradient
from numpyro_contour.models.jaxprs import result_bytes
from numpyro_contour.models.minibatch_variance import Group, minibatch_variance, needed_marginals
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.pieces import Pieces
from numpyro_contour.models.row_terms import row_energies, terms_outside

#: Memory that a pass over all rows may take, in bytes.
CHUNK_BYTES = 256 * 2**20

# From this number of rows on, differences of energies are integrals of derivatives by Simpson's
# rule, wherever the two agree to within rounding: energies have a mean rounding error of about
# 1e-8 per row, which adds up.
_SMOOTH_FROM = 100_000
_ROUNDING = 1e-6

# Positions that are evaluated at once: reading the rows costs more than a few more positions.
_FEWEST_POSITIONS, _MOST_POSITIONS = 8, 64


class Reference(NamedTuple):
    """A point to which energies are differences."""

    #: the point, (d,)
    position: jax.Array
    #: 1 where the run's estimate took the control variate there, else 0
    weight: jax.Array
    #: the order of the control variate's expansion at anchors, 1 or 2
    order: jax.Array | int = 1


class FullEnergy(NamedTuple):
    """The energy of a position over all rows, and the noise of its estimate."""

    #: the potential energy in nats, less that of the reference where there is one
    energy: Sum
    #: the variance of its estimate from a minibatch
    noise: jax.Array


@dataclass(frozen=True)
class FullData:
    """The potential energy of a model with subsample plates over all of its rows."""

    potential: ModelPotential
    #: an unconstrained position: positions are given as flat vectors of its shapes
    like: Any
    chunk_bytes: int = CHUNK_BYTES
    #: `(position, rows) -> (n,)`, the part of the energies of rows that is noise in a minibatch
    #: where their data were expanded; None where they were not
    remainders: Callable | None = None

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The sets of subsampled plates around observations."""
        return tuple(group for group in self.potential.groups if group)

    @cached_property
    def size(self) -> int:
        """The number of rows, of all groups together."""
        return sum(math.prod(self._sizes(group)) for group in self.groups)

    def _sizes(self, group: Group) -> list[int]:
        return [self.potential.plates.sizes[name][0] for name in group]

    def _rows(self, flat: jax.Array, group: Group, rows: dict[str, jax.Array]) -> jax.Array:
        indices = self.potential.plates.first_rows() | rows
        return row_energies(self.potential, unravel_like(flat, self.like), group, indices)

    def _outside(self, flat: jax.Array) -> dict[str, jax.Array]:
        return terms_outside(self.potential, unravel_like(flat, self.like))

    # ------------------------------------------------------------------ energy and gradient

    def energy_and_gradient(self, flat: jax.Array) -> tuple[Sum, jax.Array]:
        """The potential energy in nats and its gradient, (d,)."""
        terms, slope = values_and_gradient(self._outside, flat)
        energy = zero_sum()
        for values in terms.values():
            energy = add(energy, total(jnp.ravel(values)))
        gradient = Sum(slope, jnp.zeros_like(slope))

        for group in self.groups:

            def of_piece(rows: dict, counted: jax.Array, group: Group = group) -> tuple[Sum, Any]:
                energies = lambda x: jnp.where(counted, self._rows(x, group, rows), 0.0)
                values, slope = values_and_gradient(energies, flat)
                return total(jnp.ravel(values)), slope

            def add_piece(carry: tuple, piece: tuple, of_piece: Callable = of_piece) -> tuple:
                part, slope = of_piece(*piece)
                return add(carry[0], part), add(carry[1], Sum(slope, jnp.zeros_like(slope)))

            pieces = self._pieces(group, of_piece, "gradient")
            energy, gradient = pieces.fold(add_piece, (energy, gradient))
        return energy, gradient.high + gradient.low

    def hessian(self, flat: jax.Array) -> jax.Array:
        """The Hessian of the potential energy, (d, d), by forward over reverse differentiation."""
        directions = jnp.eye(flat.shape[0], dtype=flat.dtype)

        def columns(energy: Callable[[jax.Array], jax.Array]) -> jax.Array:
            along = lambda v: jax.jvp(jax.grad(energy), (flat,), (v,))[1]
            return jax.vmap(along)(directions)

        def outside(x: jax.Array) -> jax.Array:
            parts = [jnp.sum(values) for values in self._outside(x).values()]
            return sum(parts, jnp.zeros((), flat.dtype))

        result = Sum(columns(outside), jnp.zeros_like(directions))
        for group in self.groups:

            def of_piece(rows: dict, counted: jax.Array, group: Group = group) -> jax.Array:
                energy = lambda x: jnp.sum(jnp.where(counted, self._rows(x, group, rows), 0.0))
                return columns(energy)

            def add_piece(carry: Sum, piece: tuple, of_piece: Callable = of_piece) -> Sum:
                part = of_piece(*piece)
                return add(carry, Sum(part, jnp.zeros_like(part)))

            result = self._pieces(group, of_piece, "hessian").fold(add_piece, result)
        return result.high + result.low

    # ------------------------------------------------------------------ energies of draws

    def at(self, flat: jax.Array, reference: Reference | None = None) -> FullEnergy:
        """The potential energy of a position and the noise of its estimate.

        Differences to the reference are taken row by row: their sum is precise to a hundredth of a
        nat in float32 where ten million rows add up to ten million nats.
        """
        energy = zero_sum()
        away = self._outside(flat)
        if reference is not None:
            here = self._outside(reference.position)
            away = {name: values - here[name] for name, values in away.items()}
        for values in away.values():
            energy = add(energy, total(jnp.ravel(values)))
        marginals, squares = {}, {}
        for group in self.groups:
            needed = needed_marginals(group, self.groups)
            of_piece = self._difference(flat, group, reference)
            shape = dict(zip(group, self._sizes(group)))
            blank = {s: jnp.zeros([shape[p] for p in s]) for s in needed}

            def add_piece(
                carry: tuple,
                piece: tuple,
                of_piece: Callable = of_piece,
                group: Group = group,
            ) -> tuple:
                energy, sums, squared = carry
                difference, remainder = of_piece(*piece)
                rows = piece[0]
                sums = {s: _scatter(x, remainder, group, s, rows) for s, x in sums.items()}
                squared = squared + jnp.sum(remainder**2)
                return add(energy, total(jnp.ravel(difference))), sums, squared

            pieces = self._pieces(group, of_piece)
            carry = (energy, blank, jnp.zeros(()))
            energy, marginals[group], squares[group] = pieces.fold(add_piece, carry)
        noise = minibatch_variance(self.potential.plates, marginals, squares)
        return FullEnergy(energy, noise)

    def _difference(self, flat: jax.Array, group: Group, reference: Reference | None) -> Callable:
        """The energies of the rows of a piece, and the part that is noise in a minibatch."""

        def of_piece(rows: dict, counted: jax.Array) -> tuple[jax.Array, jax.Array]:
            def energies(x: jax.Array) -> jax.Array:
                return self._rows(x, group, rows)

            if reference is None:
                values = jnp.where(counted, energies(flat), 0.0)
                return values, values
            away = flat - reference.position
            there, slope, bend = along(energies, reference.position, away)
            if self.size < _SMOOTH_FROM:
                here = energies(flat)
                difference = here - there
            else:
                here, end = jax.jvp(energies, (flat,), (away,))
                _, middle = jax.jvp(energies, (reference.position + 0.5 * away,), (away,))
                difference = here - there
                smooth = (slope + 4 * middle + end) / 6
                rounding = _ROUNDING * (jnp.abs(here) + jnp.abs(there))
                alike = jnp.abs(smooth - difference) <= rounding
                difference = jnp.where(alike, smooth, difference)
            if self.remainders is not None:
                left = self.remainders(flat, rows[group[0]])
                return (jnp.where(counted, difference, 0.0), jnp.where(counted, left, 0.0))
            controlled = reference.weight > 0
            expansion = slope + jnp.where(jnp.asarray(reference.order) > 1, 0.5 * bend, 0.0)
            remainder = jnp.where(controlled, difference - expansion, here)
            return jnp.where(counted, difference, 0.0), jnp.where(counted, remainder, 0.0)

        return of_piece

    def sharing(self, reference: Reference | None) -> tuple[FullData, int]:
        """Full data for evaluating several positions at once with `at`, and their number.

        The positions share the rows and the memory of a chunk: its pieces get smaller.
        """
        flat = jnp.zeros(sum(math.prod(jnp.shape(x)) for x in jax.tree.leaves(self.like)))
        size = sum(
            self._bytes_a_row(group, self._difference(flat, group, reference))
            * math.prod(self._sizes(group))
            for group in self.groups
        )
        positions = min(_MOST_POSITIONS, max(_FEWEST_POSITIONS, int(self.chunk_bytes / size)))
        return replace(self, chunk_bytes=self.chunk_bytes // positions), positions

    # ------------------------------------------------------------------ chunks

    def _pieces(self, group: Group, of_piece: Callable, name: str = "") -> Pieces:
        """The pieces of a pass; by its name it is known how large they may be."""
        known = self.potential.known if name else {}
        if (name, group) not in known:
            known[name, group] = self._bytes_a_row(group, of_piece)
        at_once = max(1, int(self.chunk_bytes // known[name, group]))
        return Pieces.of(group, self._sizes(group), at_once)

    def _bytes_a_row(self, group: Group, of_piece: Callable) -> float:
        """An upper bound: as if nothing that is computed were fused or freed."""
        sizes = self._sizes(group)

        def bytes_of(count: int) -> tuple[int, int]:
            pieces = Pieces.of(group, sizes, count)
            trace = jax.make_jaxpr(lambda: of_piece(*pieces.at(jnp.zeros((), jnp.int32))))()
            return math.prod(pieces.lengths), result_bytes(trace.jaxpr)

        (few, small), (many, large) = bytes_of(8), bytes_of(64)
        return (large - small) / (many - few) if many > few else max(large / many, 1.0)


def along(
    function: Callable, position: jax.Array, direction: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The value of a function, and its first two derivatives along a direction."""

    def slope(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.jvp(function, (x,), (direction,))

    (value, first), (_, second) = jax.jvp(slope, (position,), (direction,))
    return value, first, second


def _scatter(
    sums: jax.Array, values: jax.Array, group: Group, kept: Group, rows: dict[str, jax.Array]
) -> jax.Array:
    """Sums with those of a piece added: over the plates that are not kept, at its rows."""
    part = values.sum([axis for axis, name in enumerate(group) if name not in kept])
    if not kept:
        return sums + part
    return sums.at[jnp.ix_(*(rows[name] for name in kept))].add(part)
