"""The mixture 0.4 N(-6, 1) + 0.6 N(4, 1) of section 4.1 of the paper, with a barrier of 12 nats."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.core.arrays.random_bits import normal
from numpyro_contour.core.flattening.energy_partition import EnergyPartition

MEAN = 0.0
#: probability of the mode at 4
MASS = 0.6
#: a point between the modes
DIVIDE = -1.0


def potential(x: jax.Array) -> jax.Array:
    r"""The potential energy of the mixture, normalised.

    .. math:: U(x) = -\log\{0.4\, N(x; -6, 1) + 0.6\, N(x; 4, 1)\}

    Args:
        x: position, of any shape.

    Returns:
        The potential energy in nats, of the shape of x.

    Source: Deng, Lin and Liang (2020), section 4.1.

    Example:
        >>> from numpyro_contour.examples.mixture import potential
        >>> print(round(float(potential(4.0)), 3))
        1.43
    """
    left = math.log(0.4) - 0.5 * (x + 6) ** 2
    right = math.log(0.6) - 0.5 * (x - 4) ** 2
    return 0.5 * math.log(2 * math.pi) - jnp.logaddexp(left, right)


def noisy_energy(gradient_variance: float = 0.01, energy_variance: float = 0.0) -> Callable:
    r"""The argument `energy` of a kernel: the potential and its gradient with Gaussian noise.

    .. math:: \tilde U(x) = U(x) + \sigma_u \xi, \qquad
              \nabla\tilde U(x) = \nabla U(x) + \sigma_g \xi'

    Args:
        gradient_variance: :math:`\sigma_g^2`, the variance of the gradient's noise. Defaults to
            the paper's 0.01.
        energy_variance: :math:`\sigma_u^2`, the variance of the potential energy's noise, in nats
            squared. Defaults to 0.

    Returns:
        A function `(key, x) -> (potential energy, gradient)`, both of the shape of x.

    Source: Deng, Lin and Liang (2020), section 4.1.

    Example:
        >>> import jax
        >>> from numpyro_contour.examples.mixture import noisy_energy
        >>> value, gradient = noisy_energy()(jax.random.key(0), 4.0)
        >>> round(float(value), 3), bool(abs(gradient) < 0.5)
        (1.43, True)
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
    r"""The probability of each energy bin, by integration on a fine grid.

    .. math:: \theta_\star(i) = \int_{U(x) \in \text{bin } i} \pi(x)\, dx

    Args:
        partition: the energy partition.

    Returns:
        The probabilities, (num_bins,), which sum to 1.

    Source: Deng, Lin and Liang (2020), equation (4).

    Example:
        >>> from numpyro_contour import EnergyPartition
        >>> from numpyro_contour.examples.mixture import exact_theta
        >>> exact_theta(EnergyPartition(1.0, 5.0, 4)).round(3).tolist()
        [0.602, 0.301, 0.068, 0.029]
    """
    x = np.linspace(-20.0, 18.0, 400_001)
    left = math.log(0.4) - 0.5 * (x + 6) ** 2
    right = math.log(0.6) - 0.5 * (x - 4) ** 2
    energy = 0.5 * math.log(2 * math.pi) - np.logaddexp(left, right)
    place = np.floor((energy - partition.lower) / partition.width)
    bins = np.clip(place, 0, partition.num_bins - 1).astype(int)
    density = np.exp(-energy)
    return np.bincount(bins, density / density.sum(), minlength=partition.num_bins)
