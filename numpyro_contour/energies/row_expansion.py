"""The energies of rows as functions of their data: the columns of rows, and how well it works."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.energies.clustering import triples
from numpyro_contour.models.all_rows import along
from numpyro_contour.models.disk.on_disk import stored_of
from numpyro_contour.models.handlers import model_trace, record_plates, subsample_rows
from numpyro_contour.models.local_rows import number_of_devices
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.plates import SubsamplePlates
from numpyro_contour.models.row_terms import row_energies


@dataclass(frozen=True)
class RowExpansion:
    """The energies of any rows of a model, at any position."""

    potential: ModelPotential
    #: an unconstrained position: positions are given as flat vectors of its shapes
    like: Any
    arrays: RowArrays
    columns: Columns

    def rows(self, indices: jax.Array) -> list[jax.Array]:
        """Some rows of the data, (n, ...) each."""
        return self.columns.held(self.arrays.at(self.potential, indices))

    def energies(self, flat: jax.Array, rows: Sequence[jax.Array]) -> jax.Array:
        """The energies of any rows at a position, in nats, (n,)."""
        return self.arrays.energies(self.potential, unravel_like(flat, self.like), rows)

    def near(self, flat: jax.Array, rows: Sequence[jax.Array]) -> Callable[[jax.Array], jax.Array]:
        """The energies as a function of what is added to the continuous columns, (n, q)."""
        return lambda away: self.energies(flat, self.columns.moved(rows, away))

    def remainders(
        self, flat: jax.Array, rows: Sequence[jax.Array], centres: Sequence[jax.Array]
    ) -> jax.Array:
        """The energies of rows less their expansions to second order at others, in nats, (n,).

        Args:
            flat: the position, (d,).
            rows: n rows.
            centres: n rows with the same discrete columns.
        """
        away = self.columns.of(rows) - self.columns.of(centres)
        value, slope, bend = along(self.near(flat, centres), jnp.zeros_like(away), away)
        return self.energies(flat, rows) - value - slope - 0.5 * bend


# A column of no more values than these is discrete.
_FEW_VALUES = 20
# Rows that are looked at first: most continuous columns show there.
_FIRST = 1000


@dataclass(frozen=True)
class Columns:
    """The continuous columns among those of some arrays of rows, (N, ...) each."""

    #: (place among the arrays, column of the array made flat)
    continuous: tuple[tuple[int, int], ...]
    #: what the arrays' rows are held as: columns of integers may be continuous
    dtypes: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.continuous)

    def held(self, rows: Sequence[Any]) -> list[jax.Array]:
        """The rows in their types."""
        return [jnp.asarray(row).astype(dtype) for row, dtype in zip(rows, self.dtypes)]

    def of(self, rows: Sequence[Any]) -> jax.Array:
        """The continuous columns of some rows, (n, q)."""
        return jnp.stack([flat(rows[place])[:, i] for place, i in self.continuous], 1)

    def moved(self, rows: Sequence[jax.Array], away: jax.Array) -> list[jax.Array]:
        """The rows with (n, q) added to their continuous columns."""
        result = list(rows)
        for place in {place for place, _ in self.continuous}:
            array = flat(rows[place])
            numbers = np.full(array.shape[1], -1)
            for number, (where, column) in enumerate(self.continuous):
                if where == place:
                    numbers[column] = number
            added = jnp.where(numbers >= 0, away[:, numbers], 0.0)
            result[place] = (array + added).reshape(rows[place].shape)
        return result


def flat(array: Any) -> Any:
    """An array with one axis beside that of its rows."""
    return array.reshape(array.shape[0], -1)


def number_of_continuous(arrays: Sequence[Any]) -> int:
    """How many columns of some arrays of rows take many values among the first rows already."""
    first = [flat(np.asarray(array[:_FIRST])) for array in arrays]
    return sum(len(np.unique(column)) > _FEW_VALUES for array in first for column in array.T)


def find_columns(arrays: Sequence[Any]) -> tuple[Columns, list[np.ndarray]]:
    """The columns of some arrays of rows.

    Args:
        arrays: (N, ...) each.

    Returns:
        The columns, and the codes of the discrete ones, (N,) each.
    """
    continuous, codes, dtypes = [], [], []
    for place, array in enumerate(arrays):
        dtype = jnp.asarray(array[:1]).dtype
        for i, column in enumerate(flat(np.asarray(array)).T):
            few = len(np.unique(column[:_FIRST])) <= _FEW_VALUES
            values, code = np.unique(column, return_inverse=True) if few else (column, None)
            if code is not None and len(values) <= _FEW_VALUES:
                codes.append(code)
                continue
            continuous.append((place, i))
            if not jnp.issubdtype(dtype, jnp.floating):
                dtype = jnp.result_type(float)
        dtypes.append(dtype)
    return Columns(tuple(continuous), tuple(dtypes)), codes


def strata_of(codes: Sequence[np.ndarray], size: int) -> np.ndarray:
    """The combination of discrete values that each row has, integers from 0, (N,)."""
    strata = np.zeros(size, np.int64)
    for code in codes:
        strata = np.unique(strata * (int(code.max()) + 1) + code, return_inverse=True)[1]
    return strata


# Rows that are looked at.
_ROWS = 2000
# Rows whose energies are checked, and fewer of them.
_CHECKED, _FEWER = 64, 23
_TOLERANCE = 1e-4


@dataclass(frozen=True)
class ExpansionTrial:
    """Some rows of a model at some positions."""

    expansion: RowExpansion
    #: typical positions, (p, d)
    positions: jax.Array

    @property
    def numbers(self) -> np.ndarray:
        """The rows that are looked at."""
        size = self.expansion.arrays.size
        return np.random.default_rng(1).choice(size, min(size, _ROWS), replace=False)

    def reason(self) -> str:
        """Why the rows cannot be expanded; empty where they can."""
        if not len(self.positions):
            return "no position with a finite potential energy was found"
        expansion = self.expansion
        potential, plate = expansion.potential, expansion.arrays.plate
        checked = jnp.asarray(self.numbers[:_CHECKED])
        rows = expansion.rows(checked)

        @jax.jit
        def energies(flat: jax.Array) -> list[jax.Array]:
            position = unravel_like(flat, expansion.like)
            indices = potential.plates.first_rows() | {plate: checked}
            fewer = [row[:_FEWER] for row in rows]
            return [
                row_energies(potential, position, (plate,), indices),
                expansion.energies(flat, rows),
                expansion.energies(flat, fewer),
            ]

        for flat in self.positions[:2]:
            expected, found, of_fewer = (np.asarray(x, float) for x in energies(flat))
            if not np.isfinite(expected).all():
                return "the energies of some rows are not finite"
            limit = _TOLERANCE * (1 + np.abs(expected))
            alike = (np.abs(found - expected) <= limit).all()
            fewer_alike = (np.abs(of_fewer - expected[:_FEWER]) <= limit[:_FEWER]).all()
            if not (alike and fewer_alike):
                return (
                    "the energies of rows do not follow from the rows of the model's arguments "
                    "alone: data in a closure, the row's index, or a computation on all rows "
                    "take part"
                )
        return ""

    def third_derivatives(self, units: np.ndarray) -> np.ndarray:
        """Third derivatives of the rows' energies in the data, (p, triples, rows).

        Args:
            units: what is one unit of each column, (q,).
        """
        expansion = self.expansion
        rows = expansion.rows(jnp.asarray(self.numbers))
        shape = (len(self.numbers), len(units))
        directions = jnp.asarray(np.diag(units), jnp.result_type(float))

        def derivative(flat: jax.Array, triple: jax.Array) -> jax.Array:
            function = expansion.near(flat, rows)
            for direction in directions[triple]:
                function = _slope(function, jnp.broadcast_to(direction, shape))
            return function(jnp.zeros(shape))

        chosen = jnp.asarray(triples(len(units)))
        found = jax.jit(
            lambda x: jax.lax.map(lambda flat: jax.vmap(derivative, (None, 0))(flat, chosen), x)
        )(self.positions)
        return np.asarray(found, float)

    def noise(
        self, centroids: Sequence[np.ndarray], assignment: np.ndarray, reference: int | None
    ) -> np.ndarray:
        """The standard deviation of a minibatch's energy at each position, in nats, (p,).

        It is infinite where the rows have no finite derivatives in their data.

        Args:
            centroids: the rows that are the centres.
            assignment: the centre of each row of the data.
            reference: the number of the position where what rows leave is known. None if nowhere.
        """
        numbers = self.numbers
        centres = [jnp.asarray(array[assignment[numbers]]) for array in centroids]
        left = np.asarray(self._remainders(centres), float)
        left = left if reference is None else left - left[reference]
        ((size, minibatch),) = self.expansion.potential.plates.sizes.values()
        scatter = size * left.std(1) / math.sqrt(minibatch)
        return np.where(np.isfinite(left).all(1), scatter, np.inf)

    @cached_property
    def _remainders(self) -> Callable:
        expansion = self.expansion
        rows = expansion.rows(jnp.asarray(self.numbers))
        of_position = lambda flat, centres: expansion.remainders(flat, rows, centres)
        return jax.jit(
            lambda centres: jax.lax.map(lambda flat: of_position(flat, centres), self.positions)
        )


def _slope(function: Callable, direction: jax.Array) -> Callable:
    """The derivative of a function along a direction, as a function."""
    return lambda x: jax.jvp(function, (x,), (direction,))[1]


@dataclass(frozen=True)
class RowArrays:
    """The arguments of a model that hold its rows, along their leading axis."""

    #: the model's only subsampled plate
    plate: str
    #: its number of rows
    size: int
    #: the places of the arrays among the leaves of `(model_args, model_kwargs)`
    places: tuple[int, ...]

    def of(self, potential: ModelPotential) -> list[Any]:
        """The arrays, (N, ...) each."""
        leaves = jax.tree.leaves((potential.model_args, potential.model_kwargs))
        return [leaves[place] for place in self.places]

    def at(self, potential: ModelPotential, indices: jax.Array) -> list[jax.Array]:
        """Some rows of the arrays, (n, ...) each."""
        return [jnp.asarray(array)[indices] for array in self.of(potential)]

    def energies(
        self, potential: ModelPotential, position: dict, rows: Sequence[jax.Array]
    ) -> jax.Array:
        """The energies of any rows, those of the data or others, in nats, (n,).

        Args:
            potential: the potential energy of the model.
            position: unconstrained values of the latent sites, by name.
            rows: what takes the place of the arrays, (n, ...) each.
        """
        leaves, structure = jax.tree.flatten((potential.model_args, potential.model_kwargs))
        for place, array in zip(self.places, rows):
            leaves[place] = array
        args, kwargs = jax.tree.unflatten(structure, leaves)
        count = len(rows[0])
        indices = {self.plate: jnp.arange(count)}
        whole = potential.plates.first_rows()
        recorder = record_plates(subsample_rows(potential.model, whole | indices))
        model_trace(recorder, args, kwargs)
        # A plate of `len(y)` rows is now as large as its minibatch, one of a fixed size is not.
        sizes = {self.plate: (recorder.plates[self.plate][0], count)}
        plates = SubsamplePlates(sizes, potential.plates.whole)
        other = replace(potential, model_args=args, model_kwargs=kwargs, plates=plates)
        return row_energies(other, position, (self.plate,), whole | indices)


def find_row_arrays(potential: ModelPotential) -> RowArrays | str:
    """The arrays whose leading axis is as long as the only subsampled plate, or why there are none.

    Args:
        potential: the potential energy of a model.
    """
    plates = potential.plates.sizes
    if len(plates) != 1:
        names = ", ".join(map(repr, plates)) or "none"
        return f"it takes one subsampled plate, and the model has {len(plates)} ({names})"
    ((plate, (size, _)),) = plates.items()
    if (plate,) not in potential.groups:
        return f"the subsampled plate {plate!r} has no observations"
    leaves = jax.tree.leaves((potential.model_args, potential.model_kwargs))
    if stored_of(leaves):
        return "its rows stay on disk, and clusters of them take all rows in memory"
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return "the values of the data are not known while JAX traces them (`jit_model_args=True`)"
    if any(number_of_devices(leaf) > 1 for leaf in leaves if isinstance(leaf, jax.Array)):
        return "its rows lie on several devices, and their values are looked at on one"
    places = tuple(
        place
        for place, leaf in enumerate(leaves)
        if isinstance(leaf, np.ndarray | jax.Array)
        and leaf.ndim
        and leaf.shape[0] == size
        and (jnp.issubdtype(leaf.dtype, np.number) or leaf.dtype == bool)
    )
    if not places:
        return (
            f"no array among the model's arguments has the {size} rows of the plate {plate!r} "
            f"along its leading axis"
        )
    return RowArrays(plate, size, places)
