"""The first half of the demo: nine modes in two dimensions, whose masses are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import random
from numpyro.infer import NUTS

from numpyro_contour import SGLD, ContourSGLD, ModeJumping
from numpyro_contour.examples import nine_modes
from numpyro_contour.examples.demo_runs import Job, Result, describe_warmup, run
from numpyro_contour.statistics.weights import kish_share

JOB = Job(chains=8, warmup=100, draws=1000, num_steps=50)
QUICK_JOB = Job(chains=4, warmup=100, draws=500, num_steps=50)
JUMPING = "ModeJumping(NUTS)"


def run_all(job: Job, key: jax.Array) -> dict[str, Result]:
    """The kernels on the nine modes, from the same random positions in the square."""
    key_start, key_run = random.split(key)
    start = random.uniform(key_start, (job.chains, 2), minval=-2.0, maxval=2.0)
    target: dict[str, Any] = {
        "potential_fn": nine_modes.potential,
        "energy": nine_modes.noisy_energy(variance=0.1),
    }
    results = {
        kernel.__name__: run(kernel(**target, num_steps=job.num_steps), job, key_run, start=start)
        for kernel in (SGLD, ContourSGLD)
    }
    # Its energies have to be exact. It draws from the first step, and needs a longer warm-up of
    # far fewer gradients.
    jumping = ModeJumping(NUTS(potential_fn=nine_modes.potential))
    its_job = job._replace(warmup=job.draws)
    return results | {JUMPING: run(jumping, its_job, key_run, start=start)}


def describe(job: Job, results: dict[str, Result]) -> str:
    """The masses of the modes and the exact ones."""
    exact = nine_modes.exact_masses()
    masses = {"exact": exact} | {
        name: nine_modes.mode_masses(result.samples, result.weights)
        for name, result in results.items()
    }
    distances = [0.5 * np.abs(table - exact).sum() for table in masses.values()]
    chains = [
        np.mean(
            [
                0.5 * np.abs(nine_modes.mode_masses(x, w) - exact).sum()
                for x, w in zip(np.asarray(result.samples), result.weights)
            ]
        )
        for result in results.values()
    ]
    shares = [kish_share(result.log_weights) for result in results.values()]
    seconds = [result.seconds for result in results.values()]
    lines = [
        "Nine modes in two dimensions, noisy potential energies and gradients (variance 0.1)",
        f"{job.chains} chains of {job.gradients:,} gradients each; {JUMPING} has exact energies, "
        f"and makes {job.draws:,} draws;",
        "the probability of each mode:",
        "",
        "".join(f"{name:^26}" for name in masses),
    ]
    for row in range(3):
        lines.append(
            "".join(f"{' '.join(f'{p:.4f}' for p in table[row]):^26}" for table in masses.values())
        )
    lines += [
        "",
        "total variation from the exact masses",
        "  all chains together:    " + _pairs(results, distances[1:], ".3f"),
        "  mean of single chains:  " + _pairs(results, chains, ".3f"),
        "effective share of draws: " + _pairs(results, shares, ".2f"),
        "seconds with compilation: " + _pairs(results, seconds, ".1f"),
        describe_warmup(results["ContourSGLD"].mcmc),
    ]
    return "\n".join(lines)


def _pairs(results: dict[str, Result], values: Sequence[float], form: str) -> str:
    return "   ".join(f"{name} {value:{form}}" for name, value in zip(results, values))
