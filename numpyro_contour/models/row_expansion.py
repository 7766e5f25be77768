"""The energies of rows as functions of their data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.models.all_rows import along
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.row_arrays import RowArrays
from numpyro_contour.models.row_columns import Columns


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
