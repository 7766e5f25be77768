"""Decompositions of matrices, one matrix after the other also in chains that are vectorised.

On a batch of matrices LAPACK's calls wait for threads of the pool that they run in themselves. Two
such calls at once on a machine of two cores then wait for each other for ever (jaxlib 0.10).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.custom_batching import sequential_vmap


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
