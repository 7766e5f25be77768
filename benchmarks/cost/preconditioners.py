"""The cost of a step by the dimension and the form of the preconditioner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import ROUNDS, step_costs
from numpyro_contour.core.arrays.factors import LowRank
from numpyro_contour.core.diffusions import langevin, whitened
from numpyro_contour.core.samplers.plain import plain
from numpyro_contour.core.samplers.window import run_window
from numpyro_contour.schedules import Constant
from numpyro_contour.warmup.stages.whitening import MOST_DENSE, rank_of

#: rows of the data, all of which a step sees
ROWS = 512
STEPS_A_DRAW = 1000
SIZES = (10, 50, 200, 1000)
FORMS = ("diag", "low-rank", "dense")


def logistic_energy(columns: int) -> Callable:
    """The potential energy of a logistic regression, a function of its weights."""
    x = random.normal(random.key(0), (ROWS, columns))
    y = random.bernoulli(random.key(1), jax.nn.sigmoid(x[:, 0])).astype(x.dtype)

    def energy(w: jax.Array) -> jax.Array:
        logits = x @ w
        return jnp.sum(jax.nn.softplus(logits) - y * logits) + 0.5 * jnp.sum(w**2)

    return energy


def bare(energy: Callable, size: int, window: int) -> Callable[[int], None]:
    """Langevin steps of `jax.value_and_grad` and `jax.random.normal`, and nothing else."""

    def body(carry: tuple, _: None) -> tuple:
        key, x = carry
        key, own = random.split(key)
        value, gradient = jax.value_and_grad(energy)(x)
        return (key, x - 1e-4 * gradient + 1e-2 * random.normal(own, x.shape)), value

    return by_windows(
        lambda carry, _: jax.lax.scan(body, carry, length=window)[0],
        (random.key(0), jnp.zeros(size)),
        window,
    )


def preconditioned(energy: Callable, size: int, window: int, form: str) -> Callable[[int], None]:
    """Windows of a sampler of `SGLD` in the coordinates of a factor."""
    diffusion = langevin("averaged", jnp.ones(size))
    if form != "diag":
        diffusion = whitened(diffusion, factor_of(form, size))
    sampler = plain(diffusion, Constant(1e-4), Constant(1.0))

    def estimate(key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jax.value_and_grad(energy)(x)

    def draw(state: Any, number: jax.Array) -> Any:
        key = random.fold_in(random.key(1), number)
        return run_window(key, state, estimate, sampler, window, "reservoir")[0]

    return by_windows(draw, sampler.init(random.key(0), jnp.zeros(size), estimate), window)


def factor_of(form: str, size: int) -> jax.Array | LowRank:
    """A factor that changes little, as what it holds does not change its cost."""
    if form == "dense" or size <= MOST_DENSE:
        return jnp.eye(size) + 1e-3 * random.normal(random.key(2), (size, size)) / size
    rank = rank_of(size)
    directions = jnp.linalg.qr(random.normal(random.key(2), (size, rank)))[0]
    return LowRank(jnp.ones(size), directions, jnp.full(rank, 1.1))


def by_windows(draw: Callable, state: Any, window: int) -> Callable[[int], None]:
    """A compiled loop over windows, as a function of the number of steps."""

    @jax.jit
    def loop(state: Any, windows: int) -> Any:
        return jax.lax.fori_loop(0, windows, lambda number, state: draw(state, number), state)

    return lambda steps: jax.block_until_ready(loop(state, steps // window))


def main(experiment: Experiment) -> str:
    """The section of the page."""
    rounds, window = experiment.choose((ROUNDS, STEPS_A_DRAW), (2, 20))
    rows = []
    for size in experiment.choose(SIZES, SIZES[:1]):
        energy = logistic_energy(size)
        methods = {"bare": bare(energy, size, window)}
        methods |= {form: preconditioned(energy, size, window, form) for form in FORMS}
        found = step_costs(methods, window * (1 if size > 50 else 5), rounds)
        of_bare = found["bare"]
        rows.append(
            [f"{size:,}", f"{np.median(of_bare):.1f}"]
            + [f"{np.median(found[form]):.1f}" for form in FORMS]
            + [f"{np.median(found[form] / of_bare):.2f}" for form in FORMS]
        )
    header = ["d", "bare loop, us a step", *(f'"{form}", us' for form in FORMS)]
    header += [f'"{form}", times the bare loop' for form in FORMS]
    return (
        "## Preconditioners\n\nThis is a step of the sampler of `SGLD`, with its guard and its "
        f"draws that stand for {window:,} steps, on a logistic regression of {ROWS} rows, all of "
        "which a step sees. The bare loop is `x - e * gradient + noise` with "
        "`jax.value_and_grad` and `jax.random.normal`. Up to 16 coordinates a preconditioner of "
        f"low rank is dense. Figures are medians of {rounds} rounds in which the four take turns. "
        "Ratios are taken within "
        "rounds, and set-up is not counted.\n\n" + markdown_table(header, rows)
    )
