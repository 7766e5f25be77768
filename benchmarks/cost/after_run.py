"""What is done after a run: how long it takes, beside ArviZ's table, and its memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC

from benchmarks.cost.memory import tree_bytes
from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.processes import alone
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import seconds_of
from numpyro_contour import SGLD, ContourSGLD, diagnose, summary, to_inference_data
from numpyro_contour.runs.finished_run import FinishedRun

CHAINS, DRAWS, COORDINATES = 4, 20_000, 100
ROUNDS = 5
ARVIZS = "`az.summary(idata)`"
KINDS = {
    "ContourSGLD, a model": (ContourSGLD, True),
    "ContourSGLD, a potential function": (ContourSGLD, False),
    "SGLD, a model": (SGLD, True),
}


class Found(NamedTuple):
    """What one function took."""

    seconds: float
    #: largest memory of NumPy's arrays during the call, beyond that before, in bytes
    peak: int


def model(coordinates: int) -> None:
    """Independent normals as one site."""
    numpyro.sample("x", dist.Normal(0, 1).expand([coordinates]).to_event(1))


def finished(kind: str, draws: int, coordinates: int, **of_kernel: Any) -> tuple[MCMC, float]:
    """A run, and the seconds that it took, with compiling."""
    kernel, of_model = KINDS[kind]
    mcmc = runs.driver(
        kernel(model, **of_kernel)
        if of_model
        else kernel(potential_fn=lambda x: x @ x / 2, **of_kernel),
        *(250, draws, CHAINS),
    )
    start = {} if of_model else {"init_params": jnp.zeros((CHAINS, coordinates))}
    data = (coordinates,) if of_model else ()

    def run() -> Any:
        mcmc.run(jax.random.key(0), *data, **start)
        return mcmc.last_state

    with runs.quiet():
        return mcmc, seconds_of(run)


def peak_of(function: Callable[[], Any]) -> int:
    """The largest memory of NumPy's arrays during a call, beyond that before it."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def measured(
    kind: str, draws: int, coordinates: int, rounds: int, of_kernel: dict
) -> tuple[float, int, dict[str, Found]]:
    """Seconds of the run, bytes of its draws, and what each function took."""
    mcmc, seconds = finished(kind, draws, coordinates, **of_kernel)

    def anew(function: Callable[[Any], Any]) -> Callable[[], Any]:
        def first() -> None:
            FinishedRun.of(mcmc).computed.clear()
            function(mcmc)

        return first

    with runs.quiet():
        idata = to_inference_data(mcmc)
        functions: dict[str, Callable[[], Any]] = {
            ARVIZS: lambda: az.summary(idata),
            "`summary(idata)`": lambda: summary(idata),
            "`summary(mcmc)`": lambda: summary(mcmc),
            "`to_inference_data(mcmc)`": lambda: to_inference_data(mcmc),
            "`diagnose(idata)`": lambda: diagnose(idata),
            "`to_inference_data(mcmc)`, the first call": anew(to_inference_data),
            "`summary(mcmc)`, the first call": anew(summary),
        }
        times: dict[str, list[float]] = {name: [] for name in functions}
        for _ in range(rounds):
            for name, function in functions.items():
                times[name].append(seconds_of(function))
        found = {
            name: Found(float(np.median(times[name])), peak_of(function))
            for name, function in functions.items()
        }
    return seconds, tree_bytes(mcmc.get_samples(group_by_chain=True)), found


def main(experiment: Experiment) -> str:
    """The section of the page."""
    draws = experiment.choose(DRAWS, 200)
    coordinates = experiment.choose(COORDINATES, 5)
    rounds = experiment.choose(ROUNDS, 1)
    rows = []
    for kind in experiment.choose(tuple(KINDS), tuple(KINDS)[:1]):
        seconds, of_draws, found = alone(
            *(measured, kind, draws, coordinates, rounds),
            experiment.choose({}, {"num_steps": 2}),
        )
        rows += [
            [
                *(kind, name, f"{took.seconds:.2f}"),
                f"{took.seconds / found[ARVIZS].seconds:.2f}",
                f"{took.seconds / seconds:.3f}",
                f"{took.peak / 2**20:,.0f}",
                f"{took.peak / of_draws:.1f}",
            ]
            for name, took in found.items()
        ]
    header = [
        *("run", "function", "seconds", f"times {ARVIZS}", "times the run"),
        *("peak, MiB", "times the draws"),
    ]
    return (
        f"## After the run\n\nThe runs have {CHAINS} chains of {draws:,} draws in {coordinates} "
        "dimensions. They are independent normals, as one site of a model or as a potential "
        "function, with nothing given. `idata` comes from `to_inference_data(mcmc)`. Seconds are "
        f"medians of {rounds} rounds in which the functions take turns. A first call compiles the "
        "gradients over all data, evaluates them and makes the report on the run; later calls find "
        "all this. The peak is the largest "
        "memory of NumPy's arrays during a call, in addition to what there was before, beside the "
        "memory of the draws alone.\n\n" + markdown_table(header, rows)
    )
