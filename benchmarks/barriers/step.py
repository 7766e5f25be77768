"""The cost of a step of a climb, compared with plain ContourSGLD and a bare loop of gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from benchmarks.barriers.label_switching import data, model
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import ROUNDS, by_steps, step_costs
from numpyro_contour import ContourSGLD
from numpyro_contour.models.model_potential import ModelPotential

#: draws of the warm-up (the smallest number that a barrier allows), and steps of each draw
WARMUP, NUM_STEPS = 50, 100


def bare(y: np.ndarray) -> Callable[[int], None]:
    """Descent by `jax.value_and_grad` and nothing else."""
    potential = ModelPotential.of(model, (y,), {}, None)
    start = {"mu": np.array([-2.7, 2.8]), "sigma": np.zeros(2), "weight": np.array(0.5)}
    start = jax.tree.map(lambda x: jax.numpy.asarray(x, float), start)

    def loop(steps: int) -> tuple:
        def body(position: Any, _: None) -> tuple:
            energy, gradient = jax.value_and_grad(potential.full)(position)
            return jax.tree.map(lambda x, g: x - 1e-5 * g, position, gradient), energy

        return jax.lax.scan(body, start, length=steps)

    compiled = jax.jit(loop, static_argnums=0)
    return lambda steps: jax.block_until_ready(compiled(steps))


def main(experiment: Experiment) -> str:
    """The section of the page."""
    y = data()
    climbing = ContourSGLD(model, num_steps=NUM_STEPS, barrier=400.0)
    driven = {"num_warmup": WARMUP}
    methods = {
        "bare loop": bare(y),
        "ContourSGLD": by_steps(ContourSGLD(model, num_steps=NUM_STEPS), NUM_STEPS, y, **driven),
        "ContourSGLD(barrier=400)": by_steps(climbing, NUM_STEPS, y, **driven),
    }
    steps, rounds = experiment.choose((50_000, ROUNDS), (200, 2))
    costs = step_costs(methods, steps, rounds)
    base = costs["bare loop"]
    rows = [
        [name, f"{np.median(cost):.1f}", f"{np.median(cost / base):.2f}"]
        for name, cost in costs.items()
    ]
    columns = ["method", "microseconds a step", "times the bare loop"]
    return (
        "## What a step costs\n\n"
        "One chain runs on the 1,000 rows of the two normals; warm-up is not counted. Figures are "
        f"medians of {rounds} rounds in which the methods take turns, and ratios are taken within "
        "rounds.\n\n"
        f"{markdown_table(columns, rows)}\n"
    )
