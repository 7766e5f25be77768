"""Factors L of a matrix M = L L': between a position x and coordinates z in which M is 1.

A factor is a matrix (d, d), a `LowRank`, or () for the identity.

Matrices are decomposed one after the other also in chains that are vectorised. On a batch of them
LAPACK's calls wait for threads of the pool that they run in themselves: two such calls at once on a
machine of two cores then wait for each other for ever (jaxlib 0.10).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_batching import sequential_vmap


class LowRank(NamedTuple):
    r"""A factor that scales coordinates and stretches a few directions.

    .. math:: L = D \bigl(I + U (S - I)\, U^\top\bigr)

    Neither L nor its inverse is ever formed: each product takes 4 d r operations.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.arrays.factors import LowRank, displacement
        >>> along = jnp.array([[0.6], [0.8]])
        >>> factor = LowRank(jnp.ones(2), along, jnp.array([10.0]))
        >>> [round(x, 3) for x in displacement(factor, jnp.array([0.6, 0.8])).tolist()]
        [6.0, 8.0]
    """

    #: the diagonal of D, above 0, (d,)
    scales: jax.Array
    #: U, orthonormal columns, (d, r); columns of zeros stretch nothing
    directions: jax.Array
    #: the diagonal of S, above 0, (r,)
    stretches: jax.Array


def displacement(factor: Any, move: jax.Array) -> jax.Array:
    """L v: a move in the coordinates z as one of the position.

    Args:
        factor: L.
        move: v, (d,).
    """
    if isinstance(factor, LowRank):
        return factor.scales * _stretched(factor, move)
    return move if isinstance(factor, tuple) else factor @ move


def slope(factor: Any, gradient: jax.Array) -> jax.Array:
    """L' g: a gradient in the position as one in the coordinates z.

    Args:
        factor: L.
        gradient: g, (d,).
    """
    if isinstance(factor, LowRank):
        return _stretched(factor, factor.scales * gradient)
    return gradient if isinstance(factor, tuple) else gradient @ factor


def diagonal(factor: Any, scales: jax.Array) -> jax.Array:
    """The diagonal of L D L', (d,).

    Args:
        factor: L.
        scales: the diagonal of D, (d,).
    """
    if isinstance(factor, LowRank):
        directions = factor.directions
        more = directions * (factor.stretches - 1)
        within = directions.T @ (scales[:, None] * directions)
        squares = jnp.sum((more @ within) * more, -1)
        across = 2 * scales * jnp.sum(more * directions, -1)
        return factor.scales**2 * (scales + across + squares)
    return scales if isinstance(factor, tuple) else factor**2 @ scales


def inverse_transposed(factor: Any) -> Any:
    """The factor that makes a gradient in the position of one in the coordinates z."""
    if isinstance(factor, LowRank):
        return LowRank(1 / factor.scales, factor.directions, 1 / factor.stretches)
    return factor if isinstance(factor, tuple) else inverse(factor).T


def _stretched(factor: LowRank, v: jax.Array) -> jax.Array:
    """(I + U (S - I) U') v, (d,)."""
    along = v @ factor.directions
    return v + factor.directions @ ((factor.stretches - 1) * along)


@sequential_vmap
def eigh(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Eigenvalues, rising, (d,), and eigenvectors, (d, d), of a symmetric matrix, (d, d)."""
    values, vectors = jnp.linalg.eigh(matrix)
    return values, vectors


@sequential_vmap
def svd(matrix: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """U, (m, m), singular values, falling, and the transposed V, (n, n), of a matrix, (m, n)."""
    u, values, vt = jnp.linalg.svd(matrix)
    return u, values, vt


@sequential_vmap
def orthonormal(matrix: jax.Array) -> jax.Array:
    """Q of the QR decomposition: orthonormal columns, (m, n), of an (m, n) matrix with m >= n."""
    return jnp.linalg.qr(matrix)[0]


@sequential_vmap
def inverse(matrix: jax.Array) -> jax.Array:
    """The inverse of a square matrix, (d, d)."""
    return jnp.linalg.inv(matrix)
