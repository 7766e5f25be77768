"""Whether the rows of a model can be expanded in their data, and how well."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.models.clustering import triples
from numpyro_contour.models.row_expansion import RowExpansion
from numpyro_contour.models.row_terms import row_energies

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
