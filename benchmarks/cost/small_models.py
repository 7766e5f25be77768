"""The cost of a step on small models, with all data in each step, beside a bare loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from numpyro.infer.util import initialize_model

import numpyro_contour
from benchmarks.cost.first_run import case
from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import ROUNDS

MODELS = "eight schools", "logistic 1,000 x 8", "mixture of 100 rows"
#: numbers of chains, each with the kernels that are measured with it, None for all
CHAINS: dict[int, tuple[str, ...] | None] = {4: None, 16: ("SGLD", "ContourSGLD")}
#: kernels by the name of their row, with what they are given
KERNELS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGLD": ("SGLD", {}),
    "ContourSGLD": ("ContourSGLD", {}),
    "ContourSGLD, no jumps": ("ContourSGLD", {"jumps": False, "num_steps": 50}),
    "ContourSGHMC, adjusted": ("ContourSGHMC", {"adjusted": True}),
}
WARMUP, STEPS = 200, 50
#: steps of a loop that is timed
TIMED = 20_000


def bare(model: Callable, args: tuple, chains: int) -> Callable[[], Any]:
    """A loop of steps that have a gradient, an energy and normal noise, and nothing else."""
    keys = random.split(random.key(0), chains)
    start, potential, *_ = initialize_model(keys, model, model_args=args, dynamic_args=True)
    z, unravel = jax.flatten_util.ravel_pytree(jax.tree.map(lambda x: x[0], start.z))
    z = jax.vmap(lambda x: jax.flatten_util.ravel_pytree(x)[0])(start.z)

    def chain(key: jax.Array, z: jax.Array, args: tuple) -> tuple[jax.Array, jax.Array]:
        energy = lambda x: potential(*args)(unravel(x))

        def step(number: Any, carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            x, _ = carry
            u, slope = jax.value_and_grad(energy)(x)
            noise = random.normal(random.fold_in(key, number), x.shape)
            return x - 1e-6 * slope + 1e-3 * noise, u

        return lax.fori_loop(0, TIMED, step, (z, jnp.zeros(())))

    made = jax.jit(jax.vmap(chain, (0, 0, None)))
    return lambda: made(keys, z, args)


def of_kernel(model: Callable, args: tuple, chains: int, name: str) -> Callable[[], Any]:
    """Draws of a kernel after its warm-up, each of `STEPS` steps."""
    of, given = KERNELS[name]
    kernel = getattr(numpyro_contour, of)(model, **given)
    mcmc = runs.run(kernel, WARMUP, 1, chains, *args)
    state = mcmc.last_state
    length = state.warmup.draw_length
    if length:  # not where the kernel was given its steps
        number = jnp.full_like(length.number, STEPS)
        warmup = state.warmup._replace(draw_length=length._replace(number=number))
        state = state._replace(warmup=warmup)

    def draws(state: Any, args: tuple) -> Any:
        sample = lambda _, state: kernel.sample(state, args, {})
        return lax.fori_loop(0, TIMED // STEPS, sample, state)

    made = jax.jit(draws)
    return lambda: made(state, args)


def costs(name: str, chains: int, methods: tuple[str, ...], rounds: int) -> dict[str, np.ndarray]:
    """Microseconds of a step of all chains, by method, (rounds,)."""
    model, args = case(name)
    args = tuple(map(jnp.asarray, args))
    loops = {"bare loop": bare(model, args, chains)}
    loops |= {method: of_kernel(model, args, chains, method) for method in methods}
    found: dict[str, list[float]] = {method: [] for method in loops}
    for loop in loops.values():
        jax.block_until_ready(loop())
    for _ in range(rounds):
        for method, loop in loops.items():
            began = time.perf_counter()
            jax.block_until_ready(loop())
            found[method].append(1e6 * (time.perf_counter() - began) / TIMED)
    return {method: np.array(values) for method, values in found.items()}


def main(experiment: Experiment) -> str:
    """The section of the page."""
    models = experiment.choose(MODELS, MODELS[:1])
    chains = experiment.choose(CHAINS, {4: ("SGLD",)})
    rounds = experiment.choose(ROUNDS, 1)
    table = []
    for name in models:
        for number, methods in chains.items():
            found = costs(name, number, methods or tuple(KERNELS), rounds)
            for method, values in found.items():
                ratio = np.median(values / found["bare loop"])
                table.append(
                    [name, str(number), method, f"{np.median(values):.1f}", f"{ratio:.2f}"]
                )
                print(*table[-1], sep=" | ", flush=True)
    header = ["model", "chains", "method", "us a step", "times the bare loop"]
    return (
        "## A step on small models\n\nAll data are in each step. The bare loop computes the "
        "energy, its gradient and normal noise for all chains, and keeps nothing. The kernels "
        f"have been through a warm-up of {WARMUP} draws with their defaults; a draw is then "
        f"{STEPS} steps, and the time is that of `sample` in one compiled loop of {TIMED:,} "
        f"steps. Figures are medians of {rounds} rounds in which the methods take turns, and "
        "ratios are taken within rounds.\n\n" + markdown_table(header, table)
    )
