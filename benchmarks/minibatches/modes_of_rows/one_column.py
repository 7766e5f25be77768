"""Targets of one column: the sign of a root, and a mixture of two close components."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random

from benchmarks.minibatches.modes_of_rows.target import (
    USUAL,
    Length,
    Target,
    float32,
    in_cells,
    mass_and_barrier,
    on_points,
)

# ------------------------------------------------------------------------------ a root


def _root_prior() -> dict:
    return {"a": numpyro.sample("a", dist.Normal(0.3, 1))}


def _square(noise: float, sites: dict) -> dist.Distribution:
    return dist.Normal(sites["a"] ** 2, noise)


def _root(name: str, y: np.ndarray, noise: float, minibatch: int, length: Length) -> Target:
    precision, mean = len(y) / noise**2, y.astype(np.float64).mean()
    energy = lambda sites, mean: 0.5 * precision * (sites["a"] ** 2 - mean) ** 2
    mode = float(np.sqrt(mean))
    grid = mode * np.linspace(-3, 3, 60_001)
    energies = energy({"a": grid}, mean) + 0.5 * (grid - 0.3) ** 2
    mass, barrier, top = mass_and_barrier(energies, grid > 0, grid, (-mode, mode))
    return Target(
        name,
        _root_prior,
        partial(_square, noise),
        float32(y),
        minibatch,
        energy,
        float32(mean),
        "sufficient statistics",
        lambda x: x["a"] > 0,
        mass,
        barrier,
        {"a": grid[top]},
        length,
    )


def sign(rows: int = 100_000, minibatch: int = 500, length: Length = USUAL) -> Target:
    """The data determine the square of the parameter."""
    y = np.sqrt(24 / rows) + np.random.default_rng(1).standard_normal(rows)
    return _root("sign", y, 1.0, minibatch, length)


def amplitude(rows: int, minibatch: int, length: Length = USUAL) -> Target:
    """The same, with noisier rows the more there are, so that the posterior stays as it is."""
    noise = 3.5 * np.sqrt(rows / 40)
    error = np.asarray(random.normal(random.key(1), (rows,)), np.float64)
    y = 1.5**2 + noise * (error - error.mean())
    return _root(f"amplitude, N = {rows:,}", y, noise, minibatch, length)


# ------------------------------------------------------------------------------ a mixture

#: the mass of the first component
_SHARE = 0.3
#: bins of the rows for the exact energy
_BINS = 1000


def _mixture_prior() -> dict:
    normal = dist.Normal(0, 1)
    return {"m": numpyro.sample("m", normal), "D": numpyro.sample("D", normal)}


def _mixture(sites: dict) -> dist.Distribution:
    m, gap = sites["m"], sites["D"]
    centres = jnp.stack([m + (1 - _SHARE) * gap, m - _SHARE * gap], -1)
    weights = dist.Categorical(probs=jnp.array([_SHARE, 1 - _SHARE]))
    return dist.MixtureSameFamily(weights, dist.Normal(centres, 1.0))


def _mixture_energy(sites: dict, counts: jax.Array, y: jax.Array) -> jax.Array:
    # Relative to one normal: what is left per row is small enough for float32.
    return -jnp.sum(counts * (_mixture(sites).log_prob(y) - dist.Normal(0, 1).log_prob(y)))


def weak_mixture(rows: int = 100_000, minibatch: int = 500, length: Length = USUAL) -> Target:
    """Two components less than a standard deviation apart: which one is the larger?"""
    g = np.random.default_rng(2)
    gap = np.sqrt(2 * np.sqrt(12 / rows) / (_SHARE * (1 - _SHARE)))
    first = g.random(rows) < _SHARE
    y = np.where(first, (1 - _SHARE) * gap, -_SHARE * gap) + g.standard_normal(rows)
    edges = np.linspace(y.min(), y.max(), _BINS + 1)
    statistics = float32(*in_cells(y[:, None], np.digitize(y, edges)))
    centre, spread = y.mean(), 6 / np.sqrt(rows)
    axes = np.linspace(centre - spread, centre + spread, 21), gap * np.linspace(-2, 2, 161)
    m, gaps = (axis.ravel() for axis in np.meshgrid(*axes))
    squares = lambda point: 0.5 * (point["m"] ** 2 + point["D"] ** 2)
    points = dict(zip("mD", float32(m, gaps)))
    energies = on_points(_mixture_energy, squares, points, statistics)
    mass, barrier, top = mass_and_barrier(energies, gaps > 0, gaps, (-gap, gap))
    return Target(
        "weak mixture",
        _mixture_prior,
        _mixture,
        float32(y),
        minibatch,
        _mixture_energy,
        statistics,
        f"{_BINS:,} bins of rows",
        lambda x: x["D"] > 0,
        mass,
        barrier,
        {"m": m[top], "D": gaps[top]},
        length,
    )
