"""The mixture 0.4 N(-6, 1) + 0.6 N(4, 1) of section 4.1 of the paper, a barrier of 12 nats."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.partition import EnergyPartition
from numpyro_contour.random_bits import normal

MEAN = 0.0
#: probability of the mode at 4
MASS = 0.6
#: a point between the modes
DIVIDE = -1.0


def potential(x: jax.Array) -> jax.Array:
    r"""The potential energy :math:`-\log \pi(x)` in nats of x, ().

    Example:
        >>> from numpyro_contour.examples.mixture import potential
        >>> print(round(float(potential(4.0)), 3))
        1.43
    """
    left = math.log(0.4) - 0.5 * (x + 6) ** 2
    right = math.log(0.6) - 0.5 * (x - 4) ** 2
    return 0.5 * math.log(2 * math.pi) - jnp.logaddexp(left, right)


def noisy_energy(gradient_variance: float = 0.01, energy_variance: float = 0.0) -> Callable:
    """The argument `energy` of a kernel: the potential and its gradient with Gaussian noise.

    Args:
        gradient_variance: variance of the noise of the gradient. Defaults to the paper's 0.01.
        energy_variance: variance of the noise of the potential energy. Defaults to 0.

    Returns:
        A function `(key, x) -> (potential energy, gradient)`.
    """

    def energy(key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        value, gradient = jax.value_and_grad(potential)(x)
        noise = normal(key, (2, *jnp.shape(x)), jnp.result_type(x))
        return (
            value + math.sqrt(energy_variance) * noise[0],
            gradient + math.sqrt(gradient_variance) * noise[1],
        )

    return energy


def exact_theta(partition: EnergyPartition) -> np.ndarray:
    """The probability of each energy bin, (num_bins,), by integration on a fine grid."""
    x = np.linspace(-20.0, 18.0, 400_001)
    left = math.log(0.4) - 0.5 * (x + 6) ** 2
    right = math.log(0.6) - 0.5 * (x - 4) ** 2
    energy = 0.5 * math.log(2 * math.pi) - np.logaddexp(left, right)
    place = np.floor((energy - partition.lower) / partition.width)
    bins = np.clip(place, 0, partition.num_bins - 1).astype(int)
    density = np.exp(-energy)
    return np.bincount(bins, density / density.sum(), minlength=partition.num_bins)
