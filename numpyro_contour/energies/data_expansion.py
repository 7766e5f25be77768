"""A control variate that expands the rows in their data: one expansion serves every position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.compensated_sums import Sum, add, total, zero_sum
from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.energies.clusters import Clusters
from numpyro_contour.models.all_rows import FullData, along
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.plates import Pieces
from numpyro_contour.models.row_terms import terms_outside

# Rows that a pass over all of them takes at once: they have few columns.
_AT_ONCE = 2**13


class Home(NamedTuple):
    """The position to whose energy all energies are differences."""

    #: the position, (d,)
    position: jax.Array
    #: the energies of the clusters there, as `of_centroids` gives them, (K,)
    values: jax.Array
    #: the sum of the remainders of all rows there
    rest: jax.Array


def of_centroids(
    potential: ModelPotential, like: Any, clusters: Clusters, flat: jax.Array
) -> jax.Array:
    r"""The energies of the rows of each cluster, expanded to second order in their data.

    .. math:: n_c \, \ell(c; x) + \tfrac12 \operatorname{tr}\bigl(\ell''(c; x) S_c\bigr)

    with :math:`\ell(z; x)` the energy of a row with data z at the position x, c the mean of the
    :math:`n_c` rows of a cluster and :math:`S_c` their scatter. The first order adds up to zero.

    Returns:
        Energies in nats, (K,).
    """
    expansion = clusters.expansion(potential, like)
    centroids = [jnp.asarray(array) for array in clusters.centroids]
    counts = jnp.asarray(clusters.counts)
    if not len(clusters.columns):
        return counts * expansion.energies(flat, centroids)
    energies = expansion.near(flat, centroids)
    start = jnp.zeros(clusters.factors.shape[:2])

    def value_and_bend(direction: jax.Array) -> tuple[jax.Array, jax.Array]:
        value, _, bend = along(energies, start, direction)
        return value, bend

    factors = jnp.asarray(clusters.factors)
    value, bends = jax.vmap(value_and_bend, 2, out_axes=(None, 0))(factors)
    return counts * value + 0.5 * bends.sum(0)


def remainders(
    potential: ModelPotential, like: Any, clusters: Clusters, flat: jax.Array, indices: jax.Array
) -> jax.Array:
    """The energies of rows, less their expansions at the centroids of their clusters.

    The same at the clusters' reference is subtracted, where there is one.

    Returns:
        Remainders in nats, (n,).
    """
    if not len(clusters.columns):  # every row is equal to its centroid
        return jnp.zeros(indices.shape, flat.dtype)
    expansion = clusters.expansion(potential, like)
    numbers = jnp.asarray(clusters.assignment)[indices]
    centroids = [jnp.asarray(array)[numbers] for array in clusters.centroids]
    left = expansion.remainders(flat, expansion.rows(indices), centroids)
    if not len(clusters.at_reference):
        return left
    return left - jnp.asarray(clusters.at_reference)[indices]


# ---------------------------------------------------------------------- the estimate


def home_of(full_data: FullData, clusters: Clusters, position: jax.Array) -> Home:
    """A home, by a pass over all rows.

    Args:
        full_data: the potential energy of the model over all rows.
        clusters: the clusters of its rows.
        position: where it is, (d,).
    """
    potential, like = full_data.potential, full_data.like
    plate = clusters.arrays.plate

    def add_piece(rest: Sum, piece: tuple) -> Sum:
        rows, counted = piece
        found = remainders(potential, like, clusters, position, rows[plate])
        return add(rest, total(jnp.where(counted, found, 0.0)))

    pieces = Pieces.of((plate,), [clusters.arrays.size], _AT_ONCE)
    rest = pieces.fold(add_piece, zero_sum())
    return Home(
        position,
        of_centroids(potential, like, clusters, position),
        rest.high + rest.low,
    )


def data_expansion(potential: ModelPotential, like: Any, clusters: Clusters) -> Callable:
    r"""`(indices, position, home) -> (energy, gradient)`, rows expanded in their data.

    .. math:: \tilde U_B(x) - U(h) = \sum_c \bigl[E_c(x) - E_c(h)\bigr]
              + \frac Nn \sum_{i \in B} r_i(x) - \sum_i r_i(h)

    with h the home, :math:`E_c` the energies of `of_centroids` and :math:`r_i` those of
    `remainders`; energies outside the plate are added. It is unbiased at every x, and its noise is
    that of the remainders, which is as small in one mode as in another. Differences are taken
    cluster by cluster, so that nothing is lost to rounding.

    Args:
        potential: the potential energy of a model with one subsampled plate.
        like: an unconstrained position of the model.
        clusters: the clusters of its rows.

    Source: Quiroz, Kohn, Villani and Tran (2019), section 3.
    """

    def estimate(indices: Any, flat: jax.Array, home: Home) -> tuple[jax.Array, jax.Array]:
        rows = indices[clusters.arrays.plate]

        def energy(x: jax.Array) -> jax.Array:
            here = terms_outside(potential, unravel_like(x, like))
            there = terms_outside(potential, unravel_like(home.position, like))
            outside = sum(jnp.sum(here[name] - there[name]) for name in here)
            known = jnp.sum(of_centroids(potential, like, clusters, x) - home.values)
            left = remainders(potential, like, clusters, x, rows)
            scale = clusters.arrays.size / rows.shape[0]
            return outside + known + (scale * jnp.sum(left) - home.rest)

        return jax.value_and_grad(energy)(flat)

    return estimate


def variance_of_expansion(potential: ModelPotential, like: Any, clusters: Clusters) -> Callable:
    """`(indices, position) -> variance` of the energy's noise, from the minibatch's remainders."""

    def variance(indices: Any, flat: jax.Array) -> jax.Array:
        rows = indices[clusters.arrays.plate]
        if len(rows) < 2:
            return jnp.zeros((), flat.dtype)
        left = remainders(potential, like, clusters, flat, rows)
        return clusters.arrays.size**2 / len(rows) * jnp.var(left, ddof=1)

    return variance
