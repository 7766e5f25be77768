"""A dense preconditioner from second moments: turned coordinates in which M is 1."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.adaptation.tuning import positive_or_one
from numpyro_contour.core.arrays.decompositions import eigh, svd

#: What is added to second moments of n steps, over n: directions that n steps say nothing of keep
#: the scale that they have.
SHRINKAGE = 0.005
#: The least share of a gradient's variance that is not taken for noise.
LEAST_SIGNAL = 1e-3


class Whitening(NamedTuple):
    """A change of coordinates from z to w, z = T w, with M = T T'."""

    #: T, (d, d)
    factor: jax.Array
    #: the variances of the gradient's noise in w, where they do not covary, (d,)
    noise: jax.Array
    #: the largest eigenvalue of the inverse of M: how much too long a step of M = 1 would be
    stiffness: jax.Array
    #: the condition number of M: how many times longer than now the slowest direction would take
    condition: jax.Array


def whitening(
    places: jax.Array, gradients: jax.Array, noise: jax.Array, temperature: jax.Array
) -> Whitening:
    r"""The preconditioner that second moments of positions and gradients suggest.

    .. math:: M^{-1} = P + V / \tau, \qquad
              P = C^{-1/2} \bigl(C^{1/2} (G - V)\, C^{1/2}\bigr)^{1/2} C^{-1/2}

    P is the precision of a Gaussian from the moments of any set of positions, also of a chain that
    has not mixed: there G - V = P C P. Where chains have mixed, M is the inverse of the mean
    square of the gradient over tau. T is turned so that T' V T is diagonal.

    With C = A A' and G - V = B B', and the singular values of B' A = U S W', it is
    :math:`P^{-1} = A W S^{-1} W' A'`: nothing is inverted and nothing squared, which single
    precision would not bear.

    Args:
        places: C, the covariance of positions, (d, d).
        gradients: G, the covariance of gradients, (d, d).
        noise: V, the covariance of a gradient's noise at one position, (d, d).
        temperature: tau.

    Source: Seyboldt, Carlson and Carpenter (2024), *Preconditioning Hamiltonian Monte Carlo by
    minimizing Fisher divergence*, for P without noise.
    """
    values, vectors = _decomposed(gradients)
    root, inverse = vectors * jnp.sqrt(values), vectors / jnp.sqrt(values)
    noisy, turn = eigh(_symmetric(inverse.T @ noise @ inverse))
    # The share of each direction's variance that is signal.
    signal = (root @ turn) * jnp.sqrt(jnp.clip(1 - noisy, LEAST_SIGNAL, 1.0))
    values, vectors = _decomposed(places)
    spread = vectors * jnp.sqrt(values)
    _, singular, turn = svd(signal.T @ spread)
    singular = jnp.maximum(singular, _eps(singular) * singular[0])
    exact = (spread @ turn.T) / jnp.sqrt(singular)
    # In the coordinates of `exact` P is 1.
    shares, turn = eigh(_symmetric(exact.T @ noise @ exact))
    shares = jnp.maximum(shares, 0.0) / positive_or_one(temperature)
    factor = (exact @ turn) / jnp.sqrt(1 + shares)
    squares = svd(factor)[1] ** 2
    variances = positive_or_one(temperature) * shares / (1 + shares)
    return Whitening(factor, variances, 1 / squares[-1], squares[0] / squares[-1])


def _eps(x: jax.Array) -> float:
    return float(jnp.finfo(x.dtype).eps)


def _symmetric(matrix: jax.Array) -> jax.Array:
    return 0.5 * (matrix + matrix.T)


def _decomposed(matrix: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Eigenvalues of a symmetric matrix, not below what rounding leaves, and eigenvectors."""
    values, vectors = eigh(_symmetric(matrix))
    return jnp.maximum(values, _eps(values) * values[-1]), vectors
