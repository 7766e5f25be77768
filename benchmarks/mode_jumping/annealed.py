"""Would jumps through an annealed path pay, between modes whose shapes differ?

Two modes of the same size whose coordinates are skewed to opposite sides, the logs of exponential
variables and their mirror images. An affine map leads from the bulk of one into the tails of the
other. On an annealed path (Neal 1996; Tjelmeland and Hegstad 2001) the state goes on from there by
leapfrog steps with a test of each, at densities that go from the map of the first mode to the
second, and the whole is accepted by the work that the change of the density has done.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from benchmarks.mode_jumping.kept import Kept
from benchmarks.shared.processes import alone
from benchmarks.shared.tables import markdown_table

SIZES, STEPS, LEAPFROGS, PATHS = (10, 30, 100, 200), 10, 2, 20_000
#: mean and standard deviation of the log of an exponential variable
MEAN, SD = -float(np.euler_gamma), math.pi / math.sqrt(6)


def skewed(z: jax.Array, side: float) -> jax.Array:
    """The potential energy of standardised coordinates that are skewed to one side."""
    x = side * (MEAN * side + SD * z)
    return jnp.sum(jnp.exp(x) - x)


def accepted(key: jax.Array, size: int, steps: int, step_size: float) -> tuple[Any, Any]:
    """Whether one try is accepted, through a path and by the map alone: the probabilities."""
    first, second = (lambda z: skewed(z, 1.0)), (lambda z: skewed(z, -1.0))
    between = lambda z, t: (1 - t) * first(z) + t * second(z)
    slope = jax.grad(between)
    key, key_start = random.split(key)
    start = (jnp.log(random.exponential(key_start, (size,))) - MEAN) / SD

    def one(carry: tuple, t: jax.Array) -> tuple[tuple, None]:
        z, work, last, key = carry
        work += (t - last) * (second(z) - first(z))
        key, key_momentum, key_test = random.split(key, 3)
        begin = random.normal(key_momentum, z.shape)

        def leap(_: int, carry: tuple) -> tuple:
            z, p = carry
            p -= 0.5 * step_size * slope(z, t)
            z += step_size * p
            return z, p - 0.5 * step_size * slope(z, t)

        end, p = lax.fori_loop(0, LEAPFROGS, leap, (z, begin))
        change = between(z, t) - between(end, t) + 0.5 * (begin @ begin - p @ p)
        made = jnp.log(random.uniform(key_test)) < change
        return (jnp.where(made, end, z), work, t, key), None

    carry = start, jnp.zeros(()), jnp.zeros(()), key
    (end, work, last, _), _ = lax.scan(one, carry, jnp.arange(1, steps) / steps)
    work += (1 - last) * (second(end) - first(end))
    plain = second(start) - first(start)
    return jnp.exp(-jnp.maximum(work, 0)), jnp.exp(-jnp.maximum(plain, 0))


def measure(size: int, paths: int) -> dict[str, Any]:
    """Shares of tries that are accepted."""
    step_size = 0.5 * (100 / size) ** 0.25
    run = jax.jit(jax.vmap(lambda key: accepted(key, size, STEPS, step_size)))
    path, plain = (np.asarray(x).mean() for x in run(random.split(random.key(0), paths)))
    return {"path": float(path), "map": float(plain)}


def fill(kept: Kept, quick: bool) -> None:
    """Measure the dimensions that are wanted."""
    for size in SIZES[: 1 if quick else None]:
        if kept.wants(f"{size}-d"):
            kept.put(f"{size}-d", alone(measure, size, 100 if quick else PATHS))


def text(rows: dict[str, dict[str, Any]]) -> str:
    """The text and its table."""
    # Each leapfrog step takes the gradients of both densities, but for those that it shares.
    cost = 2 * (STEPS - 1) * LEAPFROGS + 2
    lines = [
        [
            name,
            f"{row['map']:.2g}",
            f"{row['path']:.2g}",
            f"{row['map']:.2g}",
            f"{row['path'] / cost:.2g}",
        ]
        for name, row in rows.items()
    ]
    return (
        "### Would annealed paths pay?\n\nTwo modes whose coordinates are skewed to opposite sides "
        f"(logs of exponential variables, and their mirror images). A path has {STEPS} steps from "
        f"one density to the other, each with {LEAPFROGS} leapfrog steps and a test, and takes "
        f"{cost} gradients where the map takes one. Shares that are accepted, of tries and by "
        "gradients:\n\n"
        + markdown_table(
            ["dimension", "map", "path", "map, each gradient", "path, each gradient"], lines
        )
        + "\nPaths are not in the package: they are better only where neither is of much use, and "
        "their program takes a second more to compile in every first run.\n"
    )
