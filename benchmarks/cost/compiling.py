"""How long the first draw takes, and how much of that is compiling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import random
from numpyro.infer import MCMC, NUTS

from benchmarks.cost.methods import Case, logistic
from benchmarks.cost.steps import QUICK, Setting
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import timed
from numpyro_contour import SGLD, ContourSGLD

#: steps of the draw
STEPS = 10
#: draws of warm-up when step size and partition are not given
WARMUP = 20
GIVEN = "ContourSGLD, step size and partition given"
#: methods of the quick form: those that compile fastest
QUICK_METHODS = (GIVEN, "blackjax.csgld, one compiled loop", "bare loop")
#: rows of the regression for NUTS, which uses all of them at each step
FULL_ROWS = 10_000


def first_draw(kernel: Any, data: tuple, warmup: int = 0) -> Callable[[], None]:
    """A run of one draw through NumPyro's driver."""

    def run() -> None:
        mcmc = MCMC(kernel(), num_warmup=warmup, num_samples=1, progress_bar=False)
        mcmc.run(random.key(0), *data)
        jax.block_until_ready(mcmc.get_samples())

    return run


def methods(setting: Setting, full_rows: int) -> dict[str, Callable[[], None]]:
    """The methods; each call makes a new kernel or loop."""
    model, data = logistic(setting.rows, setting.columns)
    step_size = 0.1 / setting.rows
    case = Case(model, data, setting.minibatch, step_size, setting.bins)
    sampled = {"minibatch_size": setting.minibatch, "num_steps": STEPS}
    given = {"step_size": step_size, "partition": case.partition}
    full_model, full_data = logistic(full_rows, setting.columns)
    return {
        GIVEN: first_draw(lambda: ContourSGLD(model, **sampled, **given), data),
        f"ContourSGLD, nothing given, {WARMUP} draws of warm-up": first_draw(
            lambda: ContourSGLD(model, **sampled), data, WARMUP
        ),
        "SGLD, step size given": first_draw(
            lambda: SGLD(model, step_size=step_size, **sampled), data
        ),
        f"NumPyro's NUTS, all of {full_rows:,} rows": first_draw(
            lambda: NUTS(full_model), full_data
        ),
        "blackjax.csgld, one compiled loop": lambda: case.blackjax()(STEPS),
        "bare loop": lambda: case.bare()(STEPS),
    }


def main(experiment: Experiment) -> str:
    """The section of the page."""
    setting = experiment.choose(Setting(), QUICK)
    chosen = methods(setting, experiment.choose(FULL_ROWS, QUICK.rows))
    if experiment.quick:
        chosen = {name: chosen[name] for name in QUICK_METHODS}
    rounds = experiment.choose(5, 1)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen}
    for _ in range(rounds):
        for name, method in chosen.items():
            jax.clear_caches()
            seconds[name].append(timed(method)[1:])
    rows = []
    for name, times in seconds.items():
        total, compiling = np.array(times).T
        rows.append(
            [
                name,
                f"{np.median(total):.2f}",
                f"{np.median(compiling):.2f}",
                f"{np.median(total - compiling):.2f}",
            ]
        )
    header = ["method", "seconds to the first draw", "compiling", "the rest"]
    return (
        f"## Compiling and the first draw\n\nThis is a logistic regression at {setting}. Each "
        f"method makes one draw, which takes {STEPS} steps except for NUTS, without warm-up unless "
        "stated. JAX's caches are emptied before each call, so that small functions compile again, "
        "as in a new process. Compiling includes tracing and lowering, as JAX reports them. "
        f"Figures are medians of {rounds} rounds in which the methods take turns.\n\n"
        + markdown_table(header, rows)
    )
