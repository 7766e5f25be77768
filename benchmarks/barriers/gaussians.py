"""Two normals in several dimensions, at the distance that gives the wanted barrier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.barriers.climbs import COLUMNS, climb, row
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table

MASS = 0.6
#: height of the barrier above the modes in nats, and dimensions
CASES = ((40, 5), (100, 5), (400, 5), (40, 20), (100, 20), (100, 50))
LENGTH = {"draws": 4000, "num_steps": 100}


def two_normals(height: float, size: int) -> tuple[Callable[[jax.Array], jax.Array], jax.Array]:
    """The potential energy of two standard normals of mass 0.6 and 0.4, and the first's mean."""
    mean = jnp.zeros(size).at[0].set((2 * height) ** 0.5)

    def potential(x: jax.Array) -> jax.Array:
        first = jnp.log(MASS) - 0.5 * jnp.sum((x - mean) ** 2)
        return -jnp.logaddexp(first, jnp.log(1 - MASS) - 0.5 * jnp.sum((x + mean) ** 2))

    return potential, mean


def at_first(draws: Any) -> np.ndarray:
    """Whether draws are nearer to the first normal."""
    return draws[..., 0] > 0


def main(experiment: Experiment) -> str:
    """The section of the page."""
    cases = experiment.choose(CASES, CASES[:1])
    length = experiment.choose(LENGTH, {"draws": 60, "num_steps": 20})
    rows, worst = [], 0.0
    for height, size in cases:
        potential, mean = two_normals(height, size)
        found = climb(at_first, potential_fn=potential, start=mean, barrier=float(height), **length)
        name = f"{height} nats, {size} dimensions"
        rows.append([*row(name, found), f"{abs(found.mass - MASS):.3f}"])
        if size == 5 and height <= 100:
            worst = max(worst, abs(found.mass - MASS))
    gradients = 2 * length["draws"] * length["num_steps"]
    return (
        "## Two normals in several dimensions\n\n"
        f"Two standard normals have mass {MASS} and {1 - MASS:.1f}, and all chains start in the "
        f"first. There are 4 chains of {gradients:,} gradients, and `barrier` is given the true "
        "height.\n\n"
        f"{markdown_table([*COLUMNS, 'TV, pooled'], rows)}\n"
        "The aim was a pooled total variation of at most 0.05 at 40 and at 100 nats in 5 "
        f"dimensions: it is at most {worst:.3f}.\n"
    )
