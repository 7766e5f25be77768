"""Exact results on the mixture: its energy, theta and flattened densities."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour import EnergyPartition
from numpyro_contour.core.flattening.psi import Flattening, log_psi
from numpyro_contour.examples import mixture

ZETA = 0.75
#: 50 subregions of 1 nat; the first of them is the lowest that holds any energy
PARTITION = EnergyPartition(1.0, 51.0, 50)
#: the same partition one nat lower: no position has an energy in its first bin
EMPTY_FIRST = EnergyPartition(0.0, 50.0, 50)
#: Psi of the paper, equation (5), and that of this package
PAPERS_PSI = Flattening(ZETA, "backward", one_sided=False, multiplier_bound=None)
OUR_PSI = Flattening(ZETA)


def energy(x: np.ndarray, mass: float = mixture.MASS) -> np.ndarray:
    """The potential energy of a mixture with the given mass at 4, in nats, in float64."""
    left = math.log(1 - mass) - 0.5 * (x + 6) ** 2
    right = math.log(mass) - 0.5 * (x - 4) ** 2
    return 0.5 * math.log(2 * math.pi) - np.logaddexp(left, right)


def fine_grid() -> np.ndarray:
    """Positions that cover the mixtures."""
    return np.linspace(-20.0, 18.0, 400_001)


def bins_of(energies: np.ndarray, partition: EnergyPartition) -> np.ndarray:
    """The bin of each energy, from 0."""
    place = np.floor((energies - partition.lower) / partition.width)
    return np.clip(place, 0, partition.num_bins - 1).astype(int)


def exact_theta(partition: EnergyPartition, mass: float = mixture.MASS) -> np.ndarray:
    """The probability of each bin, (num_bins,), by integration."""
    energies = energy(fine_grid(), mass)
    density = np.exp(-energies)
    bins = bins_of(energies, partition)
    return np.bincount(bins, density / density.sum(), minlength=partition.num_bins)


@partial(jax.jit, static_argnames="psi")
def _log_psi(
    energies: jax.Array, log_theta: jax.Array, partition: EnergyPartition, psi: Flattening
) -> jax.Array:
    return jax.vmap(lambda u: log_psi(log_theta, u, partition, 1.0, psi).value)(energies)


def log_flattening(
    energies: np.ndarray, theta: np.ndarray, partition: EnergyPartition, psi: Flattening
) -> np.ndarray:
    r"""What flattening adds to energies, :math:`\zeta \log \Psi_\theta(u)`, at temperature 1."""
    values = _log_psi(jnp.asarray(energies), jnp.asarray(np.log(theta)), partition, psi)
    return psi.zeta * np.asarray(values, np.float64)


def flattened_energy(
    x: np.ndarray,
    theta: np.ndarray,
    partition: EnergyPartition,
    psi: Flattening,
    mass: float = mixture.MASS,
) -> np.ndarray:
    """The energy of the flattened density, up to a constant."""
    energies = energy(x, mass)
    return energies + log_flattening(energies, theta, partition, psi)


def barrier(x: np.ndarray, energies: np.ndarray) -> float:
    """How far the highest energy between the modes is above the lowest of all."""
    between = (x > -6) & (x < 4)
    return float(energies[between].max() - energies.min())


def mean_by_bin_weights(partition: EnergyPartition) -> float:
    """E[x] by the paper's weights and Psi at the exact theta, without any error of sampling."""
    x = fine_grid()
    energies, theta = energy(x), exact_theta(partition)
    own = ZETA * np.log(theta[bins_of(energies, partition)])
    density = np.exp(-energies + own - log_flattening(energies, theta, partition, PAPERS_PSI))
    return float((x * density).sum() / density.sum())
