"""Clusters of rows that are alike, so that their energies can be expanded in their data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.energies.clustering import assign, extents, moments
from numpyro_contour.energies.row_expansion import (
    Columns,
    ExpansionTrial,
    RowArrays,
    RowExpansion,
    find_columns,
    find_row_arrays,
    flat,
    number_of_continuous,
    strata_of,
)
from numpyro_contour.models.kept_on_data import KeptOnData
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.operands import with_values
from numpyro_contour.models.typical_positions import typical_positions

# How many clusters are tried, until the noise is small enough, in nats.
_NUMBERS = (1, 64, 256, 512)
_ENOUGH = 0.5
# The energies of clusters are rounded in float32. With (rows / this)^2 clusters or more, their sum
# is off by some hundredths of a nat.
_ROUNDED = 200_000
# Rows a cluster, and clusters a combination of discrete values, at the least.
_ROWS_A_CLUSTER = 20
_CLUSTERS_A_STRATUM = 4
_MOST_COLUMNS = 4
# A reference leaves at most this share of the noise, or there is none: far from it there is the
# noise of two positions.
_WORTH_IT = 0.5
# Rows of a pass over all of them that are taken at once.
_AT_ONCE = 2**16
# What a model may raise on rows that it was not written for, and JAX on a function that it cannot
# differentiate twice (NotImplementedError, where a rule is missing).
_ERRORS = (TypeError, ValueError, NotImplementedError, IndexError, RuntimeError)


@dataclass(frozen=True, eq=False)
class Clusters:
    """The rows of a model in K clusters, each with q continuous columns and equal discrete ones."""

    #: the arrays of the rows
    arrays: RowArrays
    #: their continuous columns
    columns: Columns
    #: the means of the rows of each cluster, an array (K, ...) for each of `arrays`
    centroids: tuple[np.ndarray, ...]
    #: the rows of each cluster, (K,)
    counts: np.ndarray
    #: L_c with the scatter L_c L_c' of the rows around their centroid, (K, q, q)
    factors: np.ndarray
    #: the cluster of each row, (N,)
    assignment: np.ndarray
    #: what the expansion leaves of each row at a reference, in nats, (N,): only changes from it are
    #: left to minibatches. Of no rows if there is no reference.
    at_reference: np.ndarray

    def expansion(self, potential: ModelPotential, like: Any) -> RowExpansion:
        """The energies of rows as functions of their data.

        Args:
            potential: the potential energy of the model.
            like: an unconstrained position of the model.
        """
        return RowExpansion(potential, like, self.arrays, self.columns)


def clusters_of(potential: ModelPotential) -> Clusters | str:
    """Clusters of a model's rows, or a sentence that says why it has none.

    There are as many as make the noise of an energy small, 512 or a twentieth of the rows at
    most. They are found once for a model and its data, also while JAX traces around it.

    Args:
        potential: the potential energy of a model with one subsampled plate.
    """
    potential = with_values(potential)
    arrays = find_row_arrays(potential)
    return arrays if isinstance(arrays, str) else _kept(potential)


def _found_while_tracing(potential: ModelPotential) -> Clusters | str:
    arrays = find_row_arrays(potential)
    assert not isinstance(arrays, str)
    with jax.ensure_compile_time_eval():
        return _found(potential, arrays)


_kept = KeptOnData(_found_while_tracing)


def _found(potential: ModelPotential, arrays: RowArrays) -> Clusters | str:
    rows = arrays.of(potential)
    number = number_of_continuous(rows)
    if number > _MOST_COLUMNS:
        return f"the rows have {number} continuous columns, and it takes at most {_MOST_COLUMNS}"
    columns, codes = find_columns(rows)
    if len(columns) > _MOST_COLUMNS:
        return f"the rows have {len(columns)} continuous columns, and it takes {_MOST_COLUMNS}"
    strata = strata_of(codes, arrays.size)
    most = min(_NUMBERS[-1], max(1, arrays.size // _ROWS_A_CLUSTER))
    combinations = int(strata.max()) + 1
    if combinations * (_CLUSTERS_A_STRATUM if len(columns) else 1) > most:
        return (
            f"the discrete columns of the rows have {combinations} combinations, too many for "
            f"{most} clusters"
        )
    like, positions = typical_positions(potential)
    expansion = RowExpansion(potential, like, arrays, columns)
    trial = ExpansionTrial(expansion, jnp.asarray(positions, jnp.result_type(float)))
    try:
        reason = trial.reason()
    except _ERRORS as error:
        return f"the model takes no other rows in the place of its arrays ({_first_line(error)})"
    if reason:
        return reason
    try:
        return _smallest(trial, strata, most)
    except _ERRORS as error:
        return f"the model has no second derivatives in its data ({_first_line(error)})"


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]


def _smallest(trial: ExpansionTrial, strata: np.ndarray, most: int) -> Clusters | str:
    """As few clusters as leave little noise."""
    arrays, columns = trial.expansion.arrays, trial.expansion.columns
    rows = [np.asarray(row) for row in trial.expansion.rows(jnp.arange(arrays.size))]
    table = np.zeros((arrays.size, 0))
    if not len(columns):
        return _clusters(arrays, columns, rows, table, strata)
    table = np.stack([flat(rows[place])[:, i] for place, i in columns.continuous], 1).astype(float)
    spread = table.std(0)
    derivatives = trial.third_derivatives(spread)
    # A reference is judged beside the ends too, since its noise grows with the distance.
    ends = len(derivatives) // 2
    least = int(strata.max()) + 1
    fewest = max(least, (arrays.size / _ROUNDED) ** 2)

    def fitted_to(derivatives: np.ndarray, reference: int | None) -> tuple[Clusters, np.ndarray]:
        """As few as leave little of such derivatives, and the noise at each position, (p,)."""
        squares = (derivatives**2).mean(-1)
        for number in [*(number for number in _NUMBERS if fewest <= number < most), most]:
            units = spread * extents(squares, len(columns), max(1, number // least))
            assignment = assign(table / units, strata, number)
            clusters = _clusters(arrays, columns, rows, table, assignment)
            noise = trial.noise(clusters.centroids, clusters.assignment, reference)
            judged = noise[:ends] if reference is None else noise
            if judged.max() <= _ENOUGH or not np.isfinite(judged).all():
                break
        return clusters, noise

    clusters, noise = fitted_to(derivatives, None)
    if not np.isfinite(noise[:ends]).all():
        return "the energies of rows have no finite derivatives in their data"
    if noise[:ends].max() <= _ENOUGH:
        return clusters
    # Terms without parameters, such as the logarithms of known errors, are alike everywhere.
    left = [((derivatives - there) ** 2).sum(1).mean(-1).max() for there in derivatives]
    reference = int(np.argmin(left))
    others, of_others = fitted_to(derivatives - derivatives[reference], reference)
    if not of_others.max() <= _WORTH_IT * noise.max():
        return clusters
    position = trial.positions[reference]
    return replace(others, at_reference=_left(trial.expansion, others, position))


def _left(expansion: RowExpansion, clusters: Clusters, position: jax.Array) -> np.ndarray:
    """What the expansion leaves of each row at a position, (N,)."""

    @jax.jit
    def of_rows(indices: jax.Array, centres: list[jax.Array]) -> jax.Array:
        return expansion.remainders(position, expansion.rows(indices), centres)

    size = clusters.arrays.size
    # The last piece begins earlier: pieces of one size are compiled once.
    starts = np.minimum(np.arange(0, size, _AT_ONCE), max(0, size - _AT_ONCE))
    found = np.zeros(size, np.dtype(jnp.result_type(float)))
    for start in starts:
        piece = slice(start, min(start + _AT_ONCE, size))
        centres = [jnp.asarray(x[clusters.assignment[piece]]) for x in clusters.centroids]
        found[piece] = of_rows(jnp.arange(piece.start, piece.stop), centres)
    return found


def _clusters(
    arrays: RowArrays,
    columns: Columns,
    rows: list[np.ndarray],
    table: np.ndarray,
    assignment: np.ndarray,
) -> Clusters:
    """Clusters from the cluster of each row, and the continuous columns."""
    dtype = np.dtype(jnp.result_type(float))
    counts, means, factors = moments(table, assignment, dtype)
    # Discrete columns are equal in all rows of a cluster: any row has their values.
    _, any_row = np.unique(assignment, return_index=True)
    centroids = [row[any_row] for row in rows]
    for number, (place, column) in enumerate(columns.continuous):
        flat(centroids[place])[:, column] = means[:, number]
    return Clusters(
        arrays,
        columns,
        tuple(centroids),
        counts.astype(dtype),
        factors.astype(dtype),
        assignment.astype(np.int32),
        np.zeros(0),
    )
