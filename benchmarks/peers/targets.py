"""Posteriors with known answers, as functions of one vector."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import NUTS

from benchmarks.peers.importance import weighted_draws
from benchmarks.peers.known_answers import known_answers
from benchmarks.peers.target import Target, Truth, given, grid_truth
from benchmarks.shared import runs
from benchmarks.shared.models import mixture_data
from benchmarks.shared.targets import on_a_grid, two_normals
from numpyro_contour.examples import mixture, nine_modes
from numpyro_contour.examples.datasets import read_columns

#: autocorrelation of the residuals of monthly sunspot numbers after a fit of one sinusoid
AUTOCORRELATION = 0.9


# ------------------------------------------------------------------------------ densities


def _two_normals_truth(size: int, mass: float = 0.6, shift: float = 4.7) -> Truth:
    step = shift / math.sqrt(size)
    mean = (2 * mass - 1) * step
    sd = math.sqrt(1 + step**2 - mean**2)
    return Truth(np.array([1 - mass, mass]), np.full(size, mean), np.full(size, sd))


def _mixture_truth() -> Truth:
    mass = mixture.MASS
    variance = 1 + mass * (1 - mass) * 10.0**2
    return Truth(
        np.array([1 - mass, mass]), np.array([mixture.MEAN]), np.array([math.sqrt(variance)])
    )


def nine_mode(x: np.ndarray) -> np.ndarray:
    """The number of the nearest of the nine modes, counted row by row."""
    edges = 0.5 * (np.array(nine_modes.MODE_GRID[1:]) + np.array(nine_modes.MODE_GRID[:-1]))
    cells = np.searchsorted(edges, np.asarray(x))
    return 3 * cells[..., 0] + cells[..., 1]


# ------------------------------------------------------------------------------ posteriors


def two_components(rows: int, centre: float = 1.65) -> Callable:
    """Likelihood of two exchangeable components with known scale, half of the rows from each."""
    y = mixture_data(rows, centre)

    def log_likelihood(mu: jax.Array) -> jax.Array:
        each = -0.5 * (y[:, None] - mu) ** 2 - 0.5 * math.log(2 * math.pi)
        return jnp.sum(jax.nn.logsumexp(each, axis=1) - math.log(2))

    return log_likelihood


def of_two_components(rows: int) -> Target:
    """The posterior of the two components, with priors N(0, 5^2)."""
    mode = lambda x: (x[..., 0] < x[..., 1]).astype(int)
    line = np.linspace(-4.0, 4.0, 401)

    def truth() -> Truth:
        return grid_truth(target.potential, [line, line], mode, 2)

    target = Target(
        f"two components, {rows} rows", 2, two_components(rows), mode, truth, 100_000, scale=5.0
    )
    return target


@cache
def _velocities() -> np.ndarray:
    # NumPy, since a JAX array that is made while a function is traced must not outlive the trace.
    return read_columns("galaxies")["velocity_km_s"] / 1000.0


def galaxies_likelihood(x: jax.Array) -> jax.Array:
    """Three normals, means 20 + 5 x, log sds x / 2, weights softmax(x / 2), for 82 velocities."""
    y = jnp.asarray(_velocities())
    mu, log_sd, logits = 20.0 + 5.0 * x[:3], 0.5 * x[3:6], 0.5 * x[6:]
    log_w = jax.nn.log_softmax(logits)
    each = log_w - log_sd - 0.5 * ((y[:, None] - mu) / jnp.exp(log_sd)) ** 2
    return jnp.sum(jax.nn.logsumexp(each, axis=1)) - 0.5 * len(y) * math.log(2 * math.pi)


def order_of_three(x: np.ndarray) -> np.ndarray:
    """The order of the three means, as one of eight values, six of them possible."""
    first, second, third = x[..., 0], x[..., 1], x[..., 2]
    return 4 * (first < second) + 2 * (second < third) + (first < third)


#: the six values that `order_of_three` takes: two of eight are impossible
_ORDERS = np.array([0, 2, 3, 4, 5, 7])


def galaxy_mode(x: np.ndarray) -> np.ndarray:
    """Which of the six labellings, from 0."""
    return np.searchsorted(_ORDERS, order_of_three(x))


def draws_of_nuts(start: str, samples: int, chains: int = 8) -> np.ndarray:
    """Draws of NUTS from the target whose name has this prefix, (draws, size)."""
    target = next(target for target in targets() if target.name.startswith(start))
    start = target.starts(random.key(8), chains)
    nuts = runs.run(
        NUTS(potential_fn=target.potential), 1000, samples, chains, seed=9, init_params=start
    )
    return np.asarray(nuts.get_samples(), np.float64)


def _galaxies_truth() -> Truth:
    """The truth by importance sampling around draws of NUTS, with components in their order.

    Chains of NUTS hardly mix between the ways to divide the galaxies: 24 of 4,000 draws have an
    R-hat of 1.5. Figures that the components share are averaged over the labellings.
    """
    near = draws_of_nuts("galaxies", 500, chains=24).reshape(-1, 3, 3)
    near = np.take_along_axis(near, np.argsort(near[:, :1], 2), 2).reshape(-1, 9)
    target = next(target for target in targets() if target.name.startswith("galaxies"))
    x, weights = weighted_draws(target.potential, near)
    x, weights = x.reshape(-1, 3, 3), weights * (np.diff(x[:, :3]) > 0).all(1)
    weights /= weights.sum()
    means, squares = weights @ x.mean(2), weights @ (x**2).mean(2)
    return Truth(np.full(6, 1 / 6), np.repeat(means, 3), np.repeat(np.sqrt(squares - means**2), 3))


@cache
def _sunspots() -> tuple[np.ndarray, np.ndarray]:
    years, numbers = read_columns("sunspots_monthly").values()
    return years - years.mean(), numbers


def period_of(x: np.ndarray) -> np.ndarray:
    """The period in years."""
    return 10.5 * np.exp(0.1 * x)


def sunspots_likelihood(x: jax.Array) -> jax.Array:
    """One sinusoid and a level, integrated over flat priors, with AR(1) residuals."""
    t, y = (jnp.asarray(a) for a in _sunspots())
    angle = 2 * math.pi * t / (10.5 * jnp.exp(0.1 * x[0]))
    design = jnp.stack([jnp.ones_like(t), jnp.cos(angle), jnp.sin(angle)], 1)
    white = design[1:] - AUTOCORRELATION * design[:-1]
    z = y[1:] - AUTOCORRELATION * y[:-1]
    gram, moment = white.T @ white, white.T @ z
    root = jnp.linalg.cholesky(gram)
    explained = jnp.sum(jax.scipy.linalg.solve_triangular(root, moment, lower=True) ** 2)
    residual = jnp.sum(z**2) - explained
    return -0.5 * (len(z) - 3) * jnp.log(residual / len(z)) - jnp.sum(jnp.log(jnp.diag(root)))


@cache
def _period_grid() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A fine grid on the line, its probabilities, and the minima that divide the modes."""
    target = next(t for t in targets() if t.name.startswith("sunspots"))
    line = np.linspace(-4.0, 4.0, 8001)
    _, shares = on_a_grid(target.potential, [line])
    inside = np.flatnonzero((shares[1:-1] < shares[:-2]) & (shares[1:-1] <= shares[2:])) + 1
    return line, shares, line[inside]


def period_mode(x: np.ndarray) -> np.ndarray:
    """The interval between minima of the posterior that a position is in."""
    return np.searchsorted(_period_grid()[2], x[..., 0])


def _sunspots_truth() -> Truth:
    line, shares, edges = _period_grid()
    masses = np.bincount(np.searchsorted(edges, line), shares, minlength=len(edges) + 1)
    mean = shares @ line
    return Truth(masses, np.array([mean]), np.array([math.sqrt(shares @ (line - mean) ** 2)]))


# ------------------------------------------------------------------------------ easy ones


def _one_mode(x: np.ndarray) -> np.ndarray:
    return np.zeros(x.shape[:-1], int)


def _schools(x: jax.Array) -> jax.Array:
    """Eight schools, non-centred: level, log scale and effects in units of their prior sds."""
    y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    rate = 5.0 * x[0] + jnp.exp(1.5 + x[1]) * x[2:]
    return -0.5 * jnp.sum(((y - rate) / sigma) ** 2)


def _schools_truth() -> Truth:
    x = draws_of_nuts("eight", 20_000)
    return Truth(np.ones(1), x.mean(0), x.std(0))


@cache
def targets() -> tuple[Target, ...]:
    """All targets."""
    side = lambda x: (x.sum(-1) > 0).astype(int)
    line = np.linspace(-4.0, 4.0, 801)
    made = [
        given(
            "mixture, 1-d",
            1,
            lambda x: -mixture.potential(x[0]),
            lambda x: (x[..., 0] > mixture.DIVIDE).astype(int),
            _mixture_truth,
            100_000,
        ),
        given(
            "nine modes, 2-d",
            2,
            lambda x: -nine_modes.potential(x),
            nine_mode,
            lambda: grid_truth(nine_modes.potential, [line, line], nine_mode, 9),
            100_000,
        ),
    ]
    for size, gradients in ((10, 100_000), (20, 100_000), (50, 400_000)):
        made.append(
            given(
                f"two modes, {size}-d",
                size,
                lambda x, size=size: -two_normals(size)(x),
                side,
                lambda size=size: _two_normals_truth(size),
                gradients,
            )
        )
    made += [of_two_components(rows) for rows in (20, 30, 50)]
    made += [
        Target("galaxies, 9-d", 9, galaxies_likelihood, galaxy_mode, _galaxies_truth, 50_000, 1.0),
        Target("sunspots, 1-d", 1, sunspots_likelihood, period_mode, _sunspots_truth, 10_000, 1.0),
        given(
            "normal, 20-d",
            20,
            lambda x: -0.5 * jnp.sum(x**2),
            _one_mode,
            lambda: Truth(np.ones(1), np.zeros(20), np.ones(20)),
            100_000,
        ),
        Target("eight schools, 10-d", 10, _schools, _one_mode, _schools_truth, 50_000, 1.0),
    ]
    easy = {"normal, 20-d", "eight schools, 10-d"}
    made = [Target(**{**vars(target), "multimodal": target.name not in easy}) for target in made]
    return (*made, *known_answers())
