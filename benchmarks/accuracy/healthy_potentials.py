"""Runs that are long enough, on potential functions with exact answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from benchmarks.accuracy.healthy import Healthy, against, by_grid
from benchmarks.shared.posteriors import halves, of_nine, tv_of, two_draws
from benchmarks.shared.targets import spread_starts, two_normals
from numpyro_contour import (
    SGLD,
    ContourSGHMC,
    ContourSGLD,
    ContourSGNHT,
    CyclicalSGLD,
    EnergyPartition,
    ReplicaExchangeSGLD,
)
from numpyro_contour.examples import mixture, nine_modes

SCALES = np.logspace(-1, 1, 30)
CORNERS = np.array([[-2.5, -2.5], [-2.5, 2.5], [2.5, -2.5], [2.5, 2.5]])
SHARES = np.array([0.1, 0.2, 0.3, 0.4])
PRECISION = np.linalg.inv(np.array([[1.0, 0.9], [0.9, 1.0]]))


def normals(x: jax.Array) -> jax.Array:
    """Thirty normals with scales from 0.1 to 10."""
    return 0.5 * jnp.sum((x / SCALES) ** 2)


def uneven(x: jax.Array) -> jax.Array:
    """The mixture of section D.2 of the paper, 1/6 N(-6, 1) + 5/6 N(4, 1)."""
    left = jnp.log(1 / 6) - 0.5 * (x + 6) ** 2
    return -jnp.logaddexp(left, jnp.log(5 / 6) - 0.5 * (x - 4) ** 2)


def student(x: jax.Array) -> jax.Array:
    """Five independent Student t variables with ten degrees of freedom."""
    return -jnp.sum(dist.StudentT(10.0).log_prob(x))


def banana(x: jax.Array) -> jax.Array:
    """A normal coordinate, and another one centred at half of its square."""
    return 0.5 * x[0] ** 2 + 0.5 * ((x[1] - 0.5 * x[0] ** 2) / 0.7) ** 2


def double_well(x: jax.Array) -> jax.Array:
    """Wells at plus and minus 1; the left one is deeper, six nats below the barrier."""
    return 6 * (x[0] ** 2 - 1) ** 2 + 0.3 * x[0] + 0.5 * x[1] ** 2


def corners(x: jax.Array) -> jax.Array:
    """Unit normals at the corners of a square."""
    squares = jnp.sum((x - CORNERS) ** 2, -1)
    return -jax.nn.logsumexp(jnp.log(SHARES) - 0.5 * squares)


def ring(x: jax.Array) -> jax.Array:
    """A ring of radius 3."""
    return 0.5 * ((jnp.sqrt(jnp.sum(x**2) + 1e-6) - 3) / 0.4) ** 2


def of_corners(x: Any, weights: np.ndarray) -> np.ndarray:
    """The masses of the four quadrants, (chains, 4)."""
    quadrant = 2 * (x[..., 0] > 0) + (x[..., 1] > 0)
    return np.stack([(weights * (quadrant == q)).mean(1) for q in range(4)], -1)


def cooling(steps: int) -> Callable:
    """A temperature that falls from 4 to 1 over this many steps."""
    return lambda count: jnp.maximum(1.0, 4.0 - 3.0 * count / steps)


def potentials() -> list[Healthy]:
    """Runs on potential functions with exact answers."""
    line, plane = np.linspace(-8, 6, 8), np.zeros((8, 2))
    shift = 4.7 / np.sqrt(10)
    right = lambda x: x > mixture.DIVIDE
    return [
        Healthy(
            "two normals",
            ContourSGLD(potential_fn=mixture.potential, num_steps=100),
            against(by_grid(mixture.potential, -14, 12), halves(right, mixture.MASS)),
            start=line,
        ),
        Healthy(
            "nine modes",
            ContourSGHMC(potential_fn=nine_modes.potential, num_steps=200),
            against(
                by_grid(nine_modes.potential, -4, 4, 2),
                tv_of(of_nine, nine_modes.exact_masses().ravel()),
            ),
            start=plane,
        ),
        Healthy(
            "two modes, 10 dimensions",
            ContourSGLD(potential_fn=two_normals(10), num_steps=200),
            against(
                two_draws(np.full(10, 0.2 * shift), np.sqrt(1 + 0.96 * shift**2)),
                halves(lambda x: x.sum(-1) > 0, 0.6),
            ),
            start=spread_starts(-1.5, 1.5, 10)(8),
        ),
        Healthy(
            "30 normals",
            SGLD(potential_fn=normals, num_steps=20),
            against(two_draws(np.zeros(30), SCALES)),
            start=np.ones((8, 30)),
            warmup=500,
        ),
        Healthy(
            "uneven normals",
            ReplicaExchangeSGLD(potential_fn=uneven, num_steps=100),
            against(by_grid(uneven, -14, 12), halves(right, 5 / 6)),
            start=line,
        ),
        Healthy(
            "correlated pair",
            CyclicalSGLD(potential_fn=lambda x: 0.5 * x @ PRECISION @ x, num_steps=50),
            against(two_draws(np.zeros(2), np.ones(2))),
            start=plane,
        ),
        Healthy(
            "Student t",
            ContourSGLD(potential_fn=student, num_steps=50),
            against(two_draws(np.zeros(5), np.full(5, np.sqrt(10 / 8)))),
            start=np.ones((8, 5)),
        ),
        Healthy(
            "banana",
            ContourSGHMC(potential_fn=banana, num_steps=100),
            against(two_draws(np.array([0.0, 0.5]), np.array([1.0, 0.99**0.5]))),
            start=np.ones((8, 2)),
        ),
        Healthy(
            "double well",
            ContourSGLD(
                potential_fn=double_well,
                num_steps=100,
                step_size=0.01,
                partition=EnergyPartition(-0.3, 14.7, 60),
            ),
            against(by_grid(double_well, -5, 5, 2)),
            start=plane + np.array([1.0, 0.0]),
        ),
        Healthy(
            "four corners, cooled",
            ContourSGLD(potential_fn=corners, num_steps=100, temperature=cooling(40_000)),
            against(by_grid(corners, -8, 8, 2), tv_of(of_corners, SHARES)),
            start=plane,
        ),
        Healthy(
            "ring",
            ContourSGNHT(potential_fn=ring, num_steps=100),
            against(by_grid(ring, -7, 7, 2)),
            start=np.ones((8, 2)),
        ),
    ]
