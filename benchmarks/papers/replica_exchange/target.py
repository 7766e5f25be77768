"""The mixtures of the authors' script, and the noise of their energies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from scipy import stats

from benchmarks.shared.tables import crossings

SEED = 0
CHAINS = 20
#: steps between the positions that are kept
THINNING = 10
#: from the authors' script
STEP_SIZE = 0.03
LADDER = (1.0, 10.0)
GRADIENT_SD = 0.1
Energy = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


@dataclass(frozen=True)
class Mixture:
    """0.4 N(left, 0.7^2) + 0.6 N(right, 0.5^2)."""

    left: float
    right: float
    mass: float = 0.4
    left_sd: float = 0.7
    right_sd: float = 0.5

    @property
    def divide(self) -> float:
        """A point between the modes."""
        return 0.5 * (self.left + self.right)

    def __str__(self) -> str:
        return (
            f"{self.mass:g} N({self.left:g}, {self.left_sd:g}^2) + "
            f"{1 - self.mass:g} N({self.right:g}, {self.right_sd:g}^2)"
        )

    @property
    def edges(self) -> np.ndarray:
        """The edges of bins of width 0.2, which reach far beyond the modes."""
        return np.linspace(
            self.left - 3, self.right + 3, round(5 * (self.right - self.left + 6)) + 1
        )

    @property
    def left_mass(self) -> float:
        """The exact probability left of the divide."""
        return float(self.cdf(np.array(self.divide)))

    def cdf(self, x: np.ndarray) -> np.ndarray:
        """The distribution function."""
        left = stats.norm.cdf(x, self.left, self.left_sd)
        return self.mass * left + (1 - self.mass) * stats.norm.cdf(x, self.right, self.right_sd)

    def density(self, x: np.ndarray) -> np.ndarray:
        """The density."""
        left = stats.norm.pdf(x, self.left, self.left_sd)
        return self.mass * left + (1 - self.mass) * stats.norm.pdf(x, self.right, self.right_sd)

    def bins(self) -> np.ndarray:
        """The exact probability of each bin; the outermost bins include the tails."""
        inner = self.cdf(self.edges[1:-1])
        return np.diff(np.concatenate([[0.0], inner, [1.0]]))

    def histogram(self, x: np.ndarray) -> np.ndarray:
        """Shares of draws (..., draws) in the bins."""
        place = np.searchsorted(self.edges[1:-1], x, side="right")
        number = len(self.edges) - 1
        rows = [
            np.bincount(row, minlength=number) / row.size for row in place.reshape(-1, x.shape[-1])
        ]
        return np.stack(rows).reshape(*x.shape[:-1], number)

    def potential(self, x: jax.Array) -> jax.Array:
        """The potential energy of x, ()."""
        left = math.log(self.mass / self.left_sd) - 0.5 * ((x - self.left) / self.left_sd) ** 2
        right = math.log((1 - self.mass) / self.right_sd)
        right -= 0.5 * ((x - self.right) / self.right_sd) ** 2
        return 0.5 * math.log(2 * math.pi) - jnp.logaddexp(left, right)


def noisy(mixture: Mixture, noise: Callable[[jax.Array], jax.Array], gradient_sd: object) -> Energy:
    """Potential energy with a given noise and gradient with normal noise."""

    def energy(key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        key_energy, key_gradient = random.split(key)
        value, gradient = jax.value_and_grad(mixture.potential)(x)
        return value + noise(key_energy), gradient + gradient_sd * random.normal(key_gradient)

    return energy


def student(key: jax.Array) -> jax.Array:
    """Student's t with 5 degrees of freedom."""
    normals = random.normal(key, (6,))
    return normals[0] / jnp.sqrt(jnp.mean(normals[1:] ** 2))


@dataclass(frozen=True)
class Case:
    """A target of the script and the noise of its energies."""

    name: str
    mixture: Mixture
    noise: Callable[[jax.Array], jax.Array]
    variance: float


CASES = (
    Case("N(0, 4)", Mixture(-3.0, 2.0), lambda key: 2.0 * random.normal(key), 4.0),
    Case("t with 5 degrees of freedom", Mixture(-4.0, 3.0), student, 5 / 3),
)


def changes(x: np.ndarray, divide: float) -> np.ndarray:
    """How often each chain, (..., draws), changes sides in 1,000 steps."""
    return crossings(x < divide) / (x.shape[-1] - 1) * 1000 / THINNING
