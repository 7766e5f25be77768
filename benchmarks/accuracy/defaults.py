"""Runs with nothing given: what the warm-up finds, compared with exact answers or with NUTS."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpyro.infer import MCMC

from benchmarks.accuracy.known_targets import Target, targets
from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from numpyro_contour import SGLD, ContourSGLD

#: targets of the quick form
QUICK = ("mix1", "gauss20d")


def run(
    target: Target, make_kernel: Callable = ContourSGLD, chains: int | None = None, **arguments: Any
) -> MCMC:
    """A run with nothing given except the target."""
    chains = target.chains if chains is None else chains
    kernel = make_kernel(
        target.model, potential_fn=target.potential, num_steps=target.num_steps, **arguments
    )
    return runs.run(
        kernel,
        target.warmup // target.num_steps,
        target.steps // target.num_steps,
        chains,
        *target.data,
        init_params=None if target.start is None else target.start(chains),
    )


def figures_of(target: Target, mcmc: MCMC) -> dict[str, float]:
    """The errors of a run."""
    return target.errors(*runs.draws_of(mcmc))


def main(experiment: Experiment) -> str:
    """The section of the page."""
    rows = []
    for name, target in targets().items():
        if experiment.quick:
            if name not in QUICK:
                continue
            target = replace(target, steps=1000, warmup=1000, chains=4)
        begin = time.perf_counter()
        mcmc = run(target)
        found = figures_of(target, mcmc)
        seconds = time.perf_counter() - begin
        if target.beside_sgld is not None:
            figure = target.beside_sgld
            sgld = figures_of(target, run(target, SGLD))[figure]
            found[f"{figure} over SGLD's"] = found[figure] / sgld
        step_size = np.asarray(mcmc.last_state.step_size).mean()
        rows.append(
            [
                name,
                f"{target.steps:,} + {target.warmup:,}",
                str(target.chains),
                ", ".join(f"{figure} {value:.3f}" for figure, value in found.items()),
                f"{step_size:.2f}",
                f"{seconds:.0f}",
            ]
        )
        print(*rows[-1], sep=" | ", flush=True)
    return (
        "## Nothing given: what the warm-up finds\n\n"
        "`ContourSGLD` is given no argument except `num_steps=10`. Errors of means are in "
        "posterior standard deviations, relative to NUTS, whose own error is about 0.02.\n\n"
        + markdown_table(
            ["target", "steps + warm-up", "chains", "figures", "step size", "seconds"], rows
        )
    )
