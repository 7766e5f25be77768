"""The two-dimensional target with nine modes from section D.3 of the paper."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour import checks
from numpyro_contour.core.arrays.random_bits import normal

#: coordinates near which the modes lie, in each of the two dimensions
MODE_GRID = (-5 / 3, 0.0, 5 / 3)


def potential(x: jax.Array) -> jax.Array:
    r"""The potential energy, in nats.

    .. math:: U(x) = \sum_{i=1}^2 \frac{x_i^2 - 10 \cos(1.2 \pi x_i)}{3}
              + (|x|^2 - 7)\, 1\{|x|^2 > 7\}

    The barriers between neighbouring modes are about 7 nats high.

    Args:
        x: position, (2,).

    Returns:
        The potential energy in nats, ().

    Source: Deng, Lin and Liang (2020), sections 4.1 and D.3.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.examples.nine_modes import potential
        >>> print(round(float(potential(jnp.zeros(2))), 3))
        -6.667
    """
    square = jnp.sum(x**2)
    waves = jnp.sum(jnp.cos(1.2 * math.pi * x))
    return (square - 10 * waves) / 3 + jnp.maximum(square - 7, 0)


def noisy_energy(variance: float = 0.1) -> Callable:
    r"""The argument `energy` of a kernel: potential energy and gradient with Gaussian noise.

    .. math:: \tilde U(x) = U(x) + \sigma \xi, \qquad
              \nabla\tilde U(x) = \nabla U(x) + \sigma \xi'

    Args:
        variance: :math:`\sigma^2`, the variance of the noise of the potential energy, in nats
            squared, and of each coordinate of the gradient, at least 0. Defaults to the paper's
            0.1.

    Returns:
        A function `(key, x) -> (potential energy, gradient)`, x and the gradient (2,).

    Raises:
        ValueError: `variance` is below 0.

    Source: Deng, Lin and Liang (2020), section D.3.

    Example:
        >>> import jax
        >>> from numpyro_contour.examples.nine_modes import noisy_energy
        >>> value, gradient = noisy_energy(0.1)(jax.random.key(0), jax.numpy.zeros(2))
        >>> value.shape, gradient.shape
        ((), (2,))
    """
    sd = math.sqrt(checks.non_negative("variance", variance))

    def energy(key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        value, gradient = jax.value_and_grad(potential)(x)
        noise = sd * normal(key, (3,), value.dtype)
        return value + noise[0], gradient + noise[1:]

    return energy


def mode_masses(samples: Any, weights: Any = None) -> np.ndarray:
    r"""The share of the weight at each of the nine modes, where a position counts for the nearest.

    .. math:: p_{ij} = \sum_k w_k 1\{x_k \text{ nearest to mode } (i, j)\} / \sum_k w_k

    Args:
        samples: positions, (..., 2).
        weights: weights of at least 0, (...,). None (default) for equal weights.

    Returns:
        An array (3, 3), with rows for the first coordinate's mode and columns for the second's.

    Raises:
        ValueError: the shapes do not fit.

    Example:
        >>> from numpyro_contour.examples.nine_modes import mode_masses
        >>> mode_masses([[0.1, 0.0], [1.7, -1.5]], weights=[3.0, 1.0])
        array([[0.  , 0.  , 0.  ],
               [0.  , 0.75, 0.  ],
               [0.25, 0.  , 0.  ]])
    """
    positions = np.asarray(samples, np.float64)
    if positions.ndim == 0 or positions.shape[-1] != 2:
        raise checks.fail("samples", positions.shape, "positions of shape (..., 2)")
    shape = positions.shape[:-1]
    weight = np.ones(shape) if weights is None else np.asarray(weights, np.float64)
    if weight.shape != shape:
        raise checks.fail("weights", weight.shape, f"weights of the shape {shape}")
    nearest = np.abs(positions[..., None] - np.array(MODE_GRID)).argmin(axis=-1)
    place = (3 * nearest[..., 0] + nearest[..., 1]).ravel()
    return (np.bincount(place, weight.ravel(), minlength=9) / weight.sum()).reshape(3, 3)


@cache
def _grid_masses() -> np.ndarray:
    # A midpoint rule with cells much smaller than the modes' width of 0.14; beyond 5 the density is
    # below exp(-40) of its peak.
    axis = (np.arange(2000) + 0.5) / 200 - 5
    squares, waves = axis**2, np.cos(1.2 * math.pi * axis)
    square = squares[:, None] + squares
    energy = (square - 10 * (waves[:, None] + waves)) / 3 + np.maximum(square - 7, 0)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    return mode_masses(grid, np.exp(-energy))


def exact_masses() -> np.ndarray:
    r"""The exact probability of each mode by integration on a grid.

    .. math:: p_{ij} = \int_{x \text{ nearest to mode } (i, j)} \pi(x)\, dx

    Returns:
        An array (3, 3), as in `mode_masses`.

    Example:
        >>> from numpyro_contour.examples.nine_modes import exact_masses
        >>> exact_masses().round(4)
        array([[0.0494, 0.1239, 0.0494],
               [0.1239, 0.3068, 0.1239],
               [0.0494, 0.1239, 0.0494]])
    """
    return _grid_masses().copy()
