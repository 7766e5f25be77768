"""What both halves of the demo share: the length of a run, the run, and what is said of it."""

from __future__ import annotations

import textwrap
import time
from typing import Any, NamedTuple

import jax
import numpy as np
from numpyro.infer import MCMC
from numpyro.infer.mcmc import MCMCKernel

from numpyro_contour import Report, weighted_samples
from numpyro_contour.runs.finished_run import FinishedRun


class Job(NamedTuple):
    """The length of a run, the same for all samplers of a table."""

    chains: int
    #: draws per chain before collection, and collected draws
    warmup: int
    draws: int
    #: steps per draw; each step takes one gradient
    num_steps: int

    @property
    def gradients(self) -> int:
        """Gradients per chain."""
        return (self.warmup + self.draws) * self.num_steps


class Result(NamedTuple):
    """A finished run."""

    mcmc: MCMC
    samples: Any
    #: log importance weights, (chains, draws), of mean 1 in each chain
    log_weights: np.ndarray
    #: seconds, including compilation
    seconds: float

    @property
    def weights(self) -> np.ndarray:
        """The importance weights, (chains, draws)."""
        return np.exp(self.log_weights)


def run(
    kernel: MCMCKernel, job: Job, key: jax.Array, *data: jax.Array, start: Any = None
) -> Result:
    """Run a kernel, from the given unconstrained starting points if there are any."""
    began = time.perf_counter()
    mcmc = MCMC(
        kernel,
        num_warmup=job.warmup,
        num_samples=job.draws,
        num_chains=job.chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(key, *data, init_params=start)
    samples, log_weights = weighted_samples(mcmc)
    return Result(mcmc, samples, log_weights, time.perf_counter() - began)


def describe_warmup(mcmc: MCMC) -> str:
    """The settings that the warm-up of `ContourSGLD` found, as means over chains."""
    run = FinishedRun.of(mcmc)
    state = run.state
    lower = float(np.mean(np.asarray(state.partition.lower) + run.energy_offsets))
    width = float(np.mean(state.partition.width))
    return (
        f"ContourSGLD found in warm-up: step size {float(np.mean(state.step_size)):.2g} "
        f"(preconditioned), bins of {width:.2g} nats from {lower:.1f} nats up"
    )


def describe_report(report: Report) -> str:
    """The headline of a report, and its faults in full."""
    faults = [
        textwrap.fill(f"- {v.check}: {v.text}", 98, subsequent_indent="  ") for v in report.faults
    ]
    return "\n".join([f"diagnose: {report.headline}", *faults])
