"""Targets of two and three columns: the period of a star, and a source that is driven past."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from benchmarks.minibatches.modes_of_rows.target import (
    USUAL,
    Length,
    Target,
    float32,
    in_cells,
    mass_and_barrier,
    on_points,
)

# ------------------------------------------------------------------------------ a period

#: the frequency, which ranges over FREQUENCIES, and the share of a day that is night
_FREQUENCY, _FREQUENCIES, _NIGHT = 1.31, (0.2, 3.2), 0.35
#: cells of time in a night for the exact energy
_CELLS = 64
#: how close to a frequency its mode is
_NEAR = 0.03


def _wave(sites: dict, t: jax.Array) -> jax.Array:
    phase = 2 * jnp.pi * sites["f"] * t
    return sites["a"] * jnp.cos(phase) + sites["b"] * jnp.sin(phase)


def _wave_energy(sites: dict, counts: jax.Array, t: jax.Array, y: jax.Array) -> jax.Array:
    """To first order in each cell; the second row of y has the products with time there."""
    wave, slope = jax.jvp(lambda t: _wave(sites, t), (t,), (jnp.ones_like(t),))
    return jnp.sum(0.5 * counts * wave**2 - y[0] * wave - y[1] * slope)


def period(rows: int = 100_000, minibatch: int = 500, length: Length = USUAL) -> Target:
    """A sinusoid of unknown frequency in rows of thirty nights: the frequency or its alias?"""
    g = np.random.default_rng(3)
    night = g.integers(0, 30, rows)
    hour = g.random(rows)
    t = night + _NIGHT * hour
    size = 2 * np.sqrt(16 / rows)
    y = size * np.cos(2 * np.pi * _FREQUENCY * t) + g.standard_normal(rows)

    def prior() -> dict:
        sites = {name: numpyro.sample(name, dist.Normal(0, size)) for name in "ab"}
        return sites | {"f": numpyro.sample("f", dist.Uniform(*_FREQUENCIES))}

    counts, time, *of_y = in_cells(np.stack([t, y, t * y], 1), night, np.floor(_CELLS * hour))
    sums = counts * np.stack([of_y[0], of_y[1] - time * of_y[0]])
    mass, barrier = _period_truth(counts, time, sums, size)
    return Target(
        "period",
        prior,
        lambda sites, t: dist.Normal(_wave(sites, t), 1),
        float32(t, y),
        minibatch,
        _wave_energy,
        float32(counts, time, sums),
        f"{len(counts):,} cells of time",
        lambda x: abs(x["f"] - _FREQUENCY) < _NEAR,
        mass,
        barrier,
        {"a": 0.0, "b": 0.0, "f": _FREQUENCY - 0.5},
        length,
    )


def _period_truth(
    counts: np.ndarray, t: np.ndarray, y: np.ndarray, size: float
) -> tuple[float, float]:
    """The two amplitudes in closed form, and a grid of frequencies."""
    grid = np.arange(*_FREQUENCIES, 1 / 1500)
    phase = 2 * np.pi * grid[:, None] * t
    waves = np.stack([np.cos(phase), np.sin(phase)], 1)
    precision = np.einsum("gac,gbc,c->gab", waves, waves, counts) + np.eye(2) / size**2
    turned = 2 * np.pi * grid[:, None, None] * np.stack([-waves[:, 1], waves[:, 0]], 1)
    slope = waves @ y[0] + turned @ y[1]
    gain = 0.5 * np.einsum("ga,ga->g", slope, np.linalg.solve(precision, slope[..., None])[..., 0])
    log_mass = gain - 0.5 * np.linalg.slogdet(precision)[1]
    masses = np.exp(log_mass - log_mass.max())
    # The way between two frequencies leads through an amplitude of 0, where the gain is 0.
    return float(masses[abs(grid - _FREQUENCY) < _NEAR].sum() / masses.sum()), float(gain.max())


# ------------------------------------------------------------------------------ a source

#: where the source is, its depth squared, and the height of the barrier that is aimed at
_X, _Y, _DEPTH, _HEIGHT = 0.4, 1.0, 0.16, 30
#: the side of a cell of the road
_CELL = 0.05


def _distance(x: jax.Array, y: jax.Array, u: jax.Array, v: jax.Array) -> jax.Array:
    return ((u - x) ** 2 + (v - y) ** 2 + _DEPTH) ** 0.5


def _drive_energy(
    sites: dict, precision: jax.Array, road: jax.Array, place: jax.Array, r: jax.Array
) -> jax.Array:
    """Squares of distances from moments; products with r to first order in each cell."""
    (rows, u, v), (x, y) = road, (sites["x"], sites["y"])
    squares = rows * (x**2 + y**2) - 2 * (u * x + v * y)
    d = _distance(x, y, *place)
    total, along_u, along_v = r
    known = _distance(_X, _Y, *place)
    products = total * (d - known) + (along_u * (place[0] - x) + along_v * (place[1] - y)) / d
    return precision * (0.5 * squares - jnp.sum(products))


def drive_by(rows: int = 100_000, minibatch: int = 500, length: Length = USUAL) -> Target:
    """Noisy distances from a winding road to a source: on which side of the road is it?"""
    g = np.random.default_rng(4)
    u = g.uniform(-3, 3, rows)
    v = 0.12 * np.sin(1.3 * u) + 0.05 * g.standard_normal(rows)
    d = _distance(_X, _Y, u, v)
    noise = np.sqrt(rows * np.mean((d - _distance(_X, 0.0, u, v)) ** 2) / _HEIGHT)
    r = d + noise * g.standard_normal(rows)

    cells = (np.floor(u / _CELL), np.floor(v / _CELL))
    counts, *means = in_cells(np.stack([u, v, r, r * u, r * v], 1), *cells)
    place, total = np.stack(means[:2]), counts * means[2]
    products = np.stack([total, *(counts * np.stack(means[3:]) - place * total)])
    road = np.array([1.0, u.mean(), v.mean()]) * rows
    statistics = float32(1 / noise**2, road, place, products)

    prior = dist.Normal(0, 3)
    squares = lambda point: 0.5 * (point["x"] ** 2 + point["y"] ** 2) / 9
    coarse = np.meshgrid(_X + np.linspace(-1.5, 1.5, 61), np.linspace(-2.5, 2.5, 101))
    x, y = (axis.ravel() for axis in coarse)
    points = dict(zip("xy", float32(x, y)))
    energies = on_points(_drive_energy, squares, points, statistics)
    mass, barrier, top = mass_and_barrier(energies, y > 0, y, (-_Y, _Y))
    return Target(
        "drive-by location",
        lambda: {name: numpyro.sample(name, prior) for name in "xy"},
        lambda sites, u, v: dist.Normal(_distance(sites["x"], sites["y"], u, v), noise),
        float32(u, v, r),
        minibatch,
        _drive_energy,
        statistics,
        f"moments and {len(counts):,} cells of the road",
        lambda x: x["y"] > 0,
        mass,
        barrier,
        {"x": x[top], "y": y[top]},
        length,
    )
