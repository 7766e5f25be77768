"""Passes over all rows of the data, in chunks of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.compensated_sums import Sum, add, added, total, zero_sum
from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.models.either_mode import values_and_gradient
from numpyro_contour.models.jaxprs import result_bytes
from numpyro_contour.models.local_rows import Part, by_parts, number_of_parts, on_part
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.plates import Group, Pieces, minibatch_variance, needed_marginals
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
    #: the part of the rows that is passed over, where they lie on several devices; None for all
    part: Part | None = None

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The sets of subsampled plates around observations."""
        return tuple(group for group in self.potential.groups if group)

    @cached_property
    def size(self) -> int:
        """The number of rows, of all groups together."""
        return sum(math.prod(self._sizes(group)) for group in self.groups)

    @property
    def taken(self) -> int:
        """The rows of a minibatch, of all groups together."""
        sizes = self.potential.plates.sizes
        return sum(math.prod(sizes[name][1] for name in group) for group in self.groups)

    def _sizes(self, group: Group) -> list[int]:
        sizes = [self.potential.plates.sizes[name][0] for name in group]
        return sizes if self.part is None else [len(self.part.arrays[0])]

    def _rows(self, flat: jax.Array, group: Group, rows: dict[str, jax.Array]) -> jax.Array:
        potential = self.potential

        def of_all(data: tuple, rows: Any, flat: jax.Array) -> jax.Array:
            args, kwargs = data
            of_data = replace(potential, model_args=args, model_kwargs=kwargs)
            indices = potential.plates.first_rows() | rows
            return row_energies(of_data, unravel_like(flat, self.like), group, indices)

        data = potential.model_args, potential.model_kwargs
        if self.part is None:
            return of_all(data, rows, flat)
        (name,) = group
        of_part = lambda data, numbers, flat: of_all(data, {name: numbers}, flat)
        size = potential.plates.sizes[name][0]
        return on_part(of_part, data, size, self.part)(rows[name], flat)

    def _by_parts(self, group: Group, of: Callable[[FullData], Any]) -> Any:
        """A function of the full data for each part of the rows, as `local_rows.by_parts`."""
        # Rows of nested plates are a product, and those of an expansion are known by their numbers.
        whole = len(self.potential.plates.sizes) > 1 or self.remainders is not None
        data = () if whole else (self.potential.model_args, self.potential.model_kwargs)
        size = self.potential.plates.sizes[group[0]][0]
        chunk_bytes = self.chunk_bytes // number_of_parts(data, size)
        return by_parts(
            data, size, lambda part: of(replace(self, part=part, chunk_bytes=chunk_bytes))
        )

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
            of_part = partial(FullData._energy_and_gradient_of, group=group, flat=flat)
            energies, slopes = self._by_parts(group, of_part)
            energy = add(energy, added(energies))
            gradient = add(gradient, jax.tree.map(lambda x: x.sum(0), slopes))
        return energy, gradient.high + gradient.low

    def _energy_and_gradient_of(self, group: Group, flat: jax.Array) -> tuple[Sum, Sum]:
        def of_piece(rows: dict, counted: jax.Array) -> tuple[Sum, Any]:
            energies = lambda x: jnp.where(counted, self._rows(x, group, rows), 0.0)
            values, slope = values_and_gradient(energies, flat)
            return total(jnp.ravel(values)), slope

        def add_piece(carry: tuple, piece: tuple) -> tuple:
            part, slope = of_piece(*piece)
            return add(carry[0], part), add(carry[1], Sum(slope, jnp.zeros_like(slope)))

        pieces = self._pieces(group, of_piece, "gradient")
        return pieces.fold(add_piece, (zero_sum(), zero_sum(flat.shape)))

    def hessian(self, flat: jax.Array) -> jax.Array:
        """The Hessian of the potential energy, (d, d), by forward over reverse differentiation."""
        columns = partial(_hessian, flat)

        def outside(x: jax.Array) -> jax.Array:
            parts = [jnp.sum(values) for values in self._outside(x).values()]
            return sum(parts, jnp.zeros((), flat.dtype))

        found = columns(outside)
        result = Sum(found, jnp.zeros_like(found))
        for group in self.groups:
            of_part = partial(FullData._hessian_of, group=group, flat=flat)
            found = self._by_parts(group, of_part)
            result = add(result, jax.tree.map(lambda x: x.sum(0), found))
        return result.high + result.low

    def _hessian_of(self, group: Group, flat: jax.Array) -> Sum:
        def of_piece(rows: dict, counted: jax.Array) -> jax.Array:
            energy = lambda x: jnp.sum(jnp.where(counted, self._rows(x, group, rows), 0.0))
            return _hessian(flat, energy)

        def add_piece(carry: Sum, piece: tuple) -> Sum:
            part = of_piece(*piece)
            return add(carry, Sum(part, jnp.zeros_like(part)))

        blank = zero_sum((*flat.shape, *flat.shape))
        return self._pieces(group, of_piece, "hessian").fold(add_piece, blank)

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
            of_part = partial(FullData._at_of, group=group, flat=flat, reference=reference)
            energies, sums, squared = self._by_parts(group, of_part)
            energy = add(energy, added(energies))
            marginals[group] = {s: x.sum(0) for s, x in sums.items()}
            squares[group] = squared.sum(0)
        noise = minibatch_variance(self.potential.plates, marginals, squares)
        return FullEnergy(energy, noise)

    def _at_of(self, group: Group, flat: jax.Array, reference: Reference | None) -> tuple:
        """The energy of the rows of a group, and the sums and squares that noise is made of."""
        of_piece = self._difference(flat, group, reference)
        shape = dict(zip(group, self._sizes(group)))
        needed = needed_marginals(group, self.groups)
        blank = {s: jnp.zeros([shape[p] for p in s]) for s in needed}

        def add_piece(carry: tuple, piece: tuple) -> tuple:
            energy, sums, squared = carry
            difference, remainder = of_piece(*piece)
            rows = piece[0]
            sums = {s: _scatter(x, remainder, group, s, rows) for s, x in sums.items()}
            squared = squared + jnp.sum(remainder**2)
            return add(energy, total(jnp.ravel(difference))), sums, squared

        pieces = self._pieces(group, of_piece)
        return pieces.fold(add_piece, (zero_sum(), blank, jnp.zeros(())))

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

    def rows_at_once(self) -> int:
        """How many rows of its only plate may be evaluated at one position in a chunk's memory."""
        (group,) = self.groups
        flat = jnp.zeros(sum(math.prod(jnp.shape(x)) for x in jax.tree.leaves(self.like)))
        energies = lambda rows, counted: self._rows(flat, group, rows)
        return max(1, int(self.chunk_bytes // self._bytes_a_row(group, energies)))

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


def _hessian(flat: jax.Array, energy: Callable[[jax.Array], jax.Array]) -> jax.Array:
    directions = jnp.eye(flat.shape[0], dtype=flat.dtype)
    return jax.vmap(lambda v: jax.jvp(jax.grad(energy), (flat,), (v,))[1])(directions)


def _scatter(
    sums: jax.Array, values: jax.Array, group: Group, kept: Group, rows: dict[str, jax.Array]
) -> jax.Array:
    """Sums with those of a piece added: over the plates that are not kept, at its rows."""
    part = values.sum([axis for axis, name in enumerate(group) if name not in kept])
    if not kept:
        return sums + part
    return sums.at[jnp.ix_(*(rows[name] for name in kept))].add(part)
