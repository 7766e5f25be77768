"""The columns of a model's rows: continuous ones, and discrete ones that make strata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

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
