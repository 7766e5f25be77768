"""What is known of a posterior over vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from benchmarks.shared.targets import on_a_grid


@dataclass(frozen=True)
class Truth:
    """What is known of a posterior."""

    #: probability of each mode
    masses: np.ndarray
    #: posterior means and standard deviations, (size,)
    means: np.ndarray
    sds: np.ndarray


@dataclass(frozen=True)
class Target:
    """A posterior over vectors whose prior is normal in each coordinate."""

    name: str
    size: int
    log_likelihood: Callable[[jax.Array], jax.Array]
    #: a function from positions (..., size) to the number of their mode, from 0
    mode: Callable[[np.ndarray], np.ndarray]
    find_truth: Callable[[], Truth]
    #: number of gradients of each chain
    gradients: int
    #: sd of the prior; its mean is 0
    scale: float = 10.0
    #: whether the target tests modes
    multimodal: bool = True

    def log_prior(self, x: jax.Array) -> jax.Array:
        """The normal prior, normalised."""
        constant = self.size * math.log(self.scale * math.sqrt(2 * math.pi))
        return -0.5 * jnp.sum((x / self.scale) ** 2) - constant

    def log_density(self, x: jax.Array) -> jax.Array:
        """The posterior, not normalised."""
        return self.log_prior(x) + self.log_likelihood(x)

    def potential(self, x: jax.Array) -> jax.Array:
        """The potential energy."""
        return -self.log_density(x)

    def starts(self, key: jax.Array, chains: int) -> jax.Array:
        """Starting points of chains: uniform within 2 of 0, as in NumPyro."""
        return random.uniform(key, (chains, self.size), minval=-2.0, maxval=2.0)

    @property
    def truth(self) -> Truth:
        """What is known of it."""
        return _truth_of(self)


@cache
def _truth_of(target: Target) -> Truth:
    return target.find_truth()


def given(
    name: str,
    size: int,
    log_density: Callable,
    mode: Callable,
    truth: Callable,
    gradients: int,
    scale: float = 10.0,
) -> Target:
    """A target that is given by its density; the likelihood divides the prior out."""
    prior = Target(name, size, lambda x: 0.0 * x[0], mode, truth, gradients, scale)
    likelihood = lambda x: log_density(x) - prior.log_prior(x)
    return Target(name, size, likelihood, mode, truth, gradients, scale)


def grid_truth(potential: Callable, axes: list[np.ndarray], mode: Callable, modes: int) -> Truth:
    """The truth by integration on a grid."""
    points, shares = on_a_grid(potential, axes)
    means = shares @ points
    sds = np.sqrt(shares @ (points - means) ** 2)
    return Truth(np.bincount(mode(points), shares, minlength=modes), means, sds)
