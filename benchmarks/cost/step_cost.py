"""The cost of a step, relative to a bare loop of value and gradient and to blackjax, in one run.

The cost of a step is the slope of the time over the length of the run, so it excludes set-up. The
methods take turns, and medians over the rounds are compared.
"""

from __future__ import annotations

import contextlib
import io

import jax
import numpy as np
from jax import random
from numpyro.infer import MCMC

from benchmarks.cost.methods import Case, logistic, network
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.runs import quiet
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import ROUNDS, seconds_of, step_costs
from numpyro_contour import SGLD, ContourSGLD, EnergyPartition


def _table(case: Case, steps: int, rounds: int) -> list[list[str]]:
    methods = {
        "bare loop": case.bare(),
        "ContourSGLD": case.kernel(),
        "SGLD": case.kernel(SGLD),
        "blackjax.csgld": case.blackjax(),
    }
    costs = step_costs(methods, steps, rounds)
    ours = costs["ContourSGLD"]
    return [
        [
            name,
            f"{np.median(cost):.1f}",
            f"{np.median(cost / costs['bare loop']):.2f}",
            f"{np.median(cost / ours):.2f}",
        ]
        for name, cost in costs.items()
    ]


def second_run(rows: int) -> str:
    """Seconds of the first and of later runs of the same MCMC object, with one draw."""
    model, data = logistic(rows, 50)
    kernel = ContourSGLD(
        model, step_size=1e-6, minibatch_size=512, partition=EnergyPartition(2e4, 9e4, 128)
    )
    mcmc = MCMC(kernel, num_warmup=0, num_samples=1, progress_bar=True)

    def once(seed: int) -> dict[str, jax.Array]:
        with contextlib.redirect_stderr(io.StringIO()), quiet():
            mcmc.run(random.key(seed), *data)
        return mcmc.get_samples()

    times = [seconds_of(lambda seed=seed: once(seed)) for seed in range(5)]
    return (
        f"A run of one draw for logistic regression at N = {rows:,} takes {times[0]:.2f} s the "
        f"first time and {np.median(times[1:]):.2f} s later (median of {len(times) - 1}).\n"
    )


def main(experiment: Experiment) -> str:
    """The section of the page."""
    rounds = experiment.choose(ROUNDS, 2)
    header = ["method", "us a step", "times the bare loop", "times ContourSGLD"]
    text = (
        "## Cost of a step\n\nThe bare loop draws rows with `random.randint`, gathers them and "
        "computes the value and the gradient. Figures are medians of "
        f"{rounds} interleaved rounds.\n\n"
    )
    cases = {
        "Logistic regression, N = 100,000, d = 50, n = 512": (
            lambda: Case(*logistic(100_000, 50), minibatch=512, step_size=1e-6),
            2000,
        ),
        "Logistic regression, N = 10,000, d = 10, n = 64": (
            lambda: Case(*logistic(10_000, 10), minibatch=64, step_size=1e-5),
            experiment.choose(10_000, 1000),
        ),
        "Network of 100 hidden units, N = 10,000, d = 10, n = 1,000": (
            lambda: Case(*network(10_000, 10, 100), minibatch=1000, step_size=1e-6),
            1000,
        ),
    }
    for name in experiment.choose(cases, list(cases)[1:2]):
        case, steps = cases[name]
        text += f"### {name}\n\n" + markdown_table(header, _table(case(), steps, rounds)) + "\n"

    sizes = experiment.choose((10_000, 100_000, 1_000_000), (10_000,))
    growing = {
        size: Case(*logistic(size, 10), minibatch=64, step_size=0.1 / size) for size in sizes
    }
    costs = step_costs(
        {
            f"{name} {size}": getattr(case, method)()
            for size, case in growing.items()
            for name, method in (("bare", "bare"), ("ours", "kernel"))
        },
        experiment.choose(5000, 1000),
        rounds,
    )
    rows = [
        [
            f"{size:,}",
            f"{np.median(costs[f'ours {size}']):.1f}",
            f"{np.median(costs[f'ours {size}'] / costs['ours 10000']):.2f}",
            f"{np.median(costs[f'bare {size}'] / costs['bare 10000']):.2f}",
        ]
        for size in sizes
    ]
    text += "### Rows of data, d = 10, n = 64\n\n" + markdown_table(
        ["N", "ContourSGLD, us a step", "times N = 10,000", "bare loop, times N = 10,000"], rows
    )
    text += (
        "\nThe growth comes from reading 64 rows of an array that no cache can hold, at 0.1 us per "
        "row. The bare loop pays for it as well; a model with more work per row hides it.\n"
    )
    return text + "\n### A second run\n\n" + second_run(experiment.choose(100_000, 1000))
