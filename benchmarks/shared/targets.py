"""Potential energies with known answers, and starting points of chains."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


def two_normals(size: int, mass: float = 0.6, shift: float = 4.7) -> Callable:
    """The potential of two unit normals along the diagonal, with the given mass on the right.

    By default the barrier between them is 11 nats high.
    """
    step = shift / np.sqrt(size)

    def potential(x: jax.Array) -> jax.Array:
        left = np.log(1 - mass) - 0.5 * jnp.sum((x + step) ** 2)
        return -jnp.logaddexp(left, np.log(mass) - 0.5 * jnp.sum((x - step) ** 2))

    return potential


def on_a_grid(potential: Callable, axes: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Points of a grid, (points, size), and their probabilities."""
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
    energy = np.asarray(jax.lax.map(potential, jnp.asarray(points), batch_size=4096), np.float64)
    shares = np.exp(energy.min() - energy)
    return points, shares / shares.sum()


def spread_starts(low: float, high: float, *shape: int) -> Callable[[int], np.ndarray]:
    """Starting points of chains along the diagonal, with positions of this shape, (chains, ...)."""

    def start(chains: int) -> np.ndarray:
        line = np.linspace(low, high, chains)
        return line.reshape(-1, *[1] * len(shape)) * np.ones((chains, *shape))

    return start
