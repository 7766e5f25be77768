"""The demo: nine modes in two dimensions, then a Bayesian neural network on real data.

`make demo`, or `python -m numpyro_contour --output DIR`.
"""

from __future__ import annotations

import argparse
import textwrap
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jax import random
from numpyro.infer import MCMC
from numpyro.infer.mcmc import MCMCKernel

from numpyro_contour import (
    SGLD,
    ContourSGLD,
    Report,
    diagnose,
    expectation,
    predictive,
    summary,
    to_inference_data,
    weighted_samples,
)
from numpyro_contour.examples import concrete, nine_modes
from numpyro_contour.examples.datasets import Split, load, split_and_standardise
from numpyro_contour.examples.demo_figures import save_figure, save_warmup
from numpyro_contour.runs.energies_over_all_rows import full_energies
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.statistics.weights import kish_share


class Job(NamedTuple):
    """The length of a run, the same for both samplers."""

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


NINE_MODES = Job(chains=8, warmup=100, draws=1000, num_steps=50)
CONCRETE = Job(chains=4, warmup=90, draws=160, num_steps=200)
QUICK_NINE_MODES = Job(chains=4, warmup=100, draws=500, num_steps=50)
QUICK_CONCRETE = Job(chains=2, warmup=40, draws=40, num_steps=50)


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


def run_nine_modes(job: Job, key: jax.Array) -> dict[str, Result]:
    """SGLD and ContourSGLD on the nine modes, from the same random positions in the square."""
    key_start, key_run = random.split(key)
    start = random.uniform(key_start, (job.chains, 2), minval=-2.0, maxval=2.0)
    target: dict[str, Any] = {
        "potential_fn": nine_modes.potential,
        "energy": nine_modes.noisy_energy(variance=0.1),
    }
    return {
        kernel.__name__: run(kernel(**target, num_steps=job.num_steps), job, key_run, start=start)
        for kernel in (SGLD, ContourSGLD)
    }


def run_concrete(job: Job, key: jax.Array, split: Split) -> dict[str, Result]:
    """SGLD and ContourSGLD on the Bayesian neural network, with nothing given except the model."""
    data = jnp.asarray(split.X_train), jnp.asarray(split.y_train)
    return {
        kernel.__name__: run(kernel(concrete.model, num_steps=job.num_steps), job, key, *data)
        for kernel in (SGLD, ContourSGLD)
    }


def minibatch_noise(result: Result, split: Split) -> float:
    """The sd, in nats, of the minibatch potential energy where the first chain ended."""
    data = jnp.asarray(split.X_train), jnp.asarray(split.y_train)
    run = FinishedRun.of(result.mcmc)
    potential = run.potential(data, {})
    position = jax.tree.map(lambda x: x[0], run.state.position)
    estimate = jax.jit(jax.vmap(potential.minibatch, in_axes=(0, None)))
    return float(estimate(random.split(random.key(0), 500), position).std())


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


def describe_nine_modes(job: Job, results: dict[str, Result]) -> str:
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
    lines = [
        "Nine modes in two dimensions, noisy potential energies and gradients (variance 0.1)",
        f"{job.chains} chains of {job.gradients:,} gradients each; the probability of each mode:",
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
        "effective share of draws: " + _pairs(results, _kish(results), ".2f"),
        "seconds with compilation: " + _pairs(results, _seconds(results), ".1f"),
        describe_warmup(results["ContourSGLD"].mcmc),
    ]
    return "\n".join(lines)


def describe_concrete(
    job: Job, results: dict[str, Result], split: Split, predictions: dict[str, concrete.Predictions]
) -> str:
    """Held-out error of both samplers and of a linear regression, coverage and energies."""
    observed = split.y_mean + split.y_sd * split.y_test
    contour = FinishedRun.of(results["ContourSGLD"].mcmc)
    energy = full_energies(contour).energy + contour.energy_offsets[:, None]
    anchors = np.asarray(contour.anchors.in_use)
    multiplier = float(contour.fields["gradient_multiplier"].mean())
    bins = len(np.unique(contour.per_draw("energy_bin")))
    error = [concrete.rmse(p.mean, observed) for p in predictions.values()]
    covered = [concrete.coverage(p, observed) for p in predictions.values()]
    linear = concrete.rmse(concrete.linear_regression(split), observed)
    rows = len(split.y_train)
    noise = minibatch_noise(results["ContourSGLD"], split)
    num_bins = contour.settings["num_bins"]
    return "\n".join(
        [
            "Strength of concrete: a Bayesian neural network, one hidden layer of "
            f"{concrete.HIDDEN} units",
            f"{rows} rows in minibatches of {concrete.MINIBATCH}, {len(observed)} rows held out; "
            f"{job.chains} chains of {job.gradients:,} gradients each",
            "",
            "held-out RMSE (MPa):      "
            + _pairs(results, error, ".2f")
            + f"   linear regression {linear:.2f}",
            "cover of 90 % intervals:  " + _pairs(results, covered, ".3f"),
            "effective share of draws: " + _pairs(results, _kish(results), ".2f"),
            "seconds with compilation: " + _pairs(results, _seconds(results), ".1f"),
            describe_warmup(results["ContourSGLD"].mcmc),
            "",
            f"Draws of ContourSGLD: potential energy over all data {energy.mean():.0f} nats, sd "
            f"{energy.std():.0f}; the run saw them in {bins} of {num_bins}",
            f"bins, since a minibatch alone moves the energy by {noise:.0f} nats (sd). The control "
            f"variate is in use in {int(anchors.sum())} of",
            f"{len(anchors)} chains: a network's energies are no expansion at one point, and where "
            "that is noisier it is given up.",
            "That hides barriers of a few nats: the gradient multiplier is "
            f"{multiplier:.3f} on average,",
            "and both samplers explore alike. The gain is in the nine modes.",
        ]
    )


def describe_file(idata: Any) -> str:
    """The noise according to the file of weighted draws, computed with the weights."""
    noise = expectation(idata, "noise_sd")
    table = summary(idata, ["noise", "noise_sd"])
    with pd.option_context("display.width", 100, "display.max_columns", None):
        text = str(table)
    return (
        f"Read again from the file, by `summary` and `expectation` with weights:\n\n{text}\n\n"
        f"The sd of the noise is {noise.mean:.3f} +- {noise.mcse:.3f} of the target's sd."
    )


def describe_report(report: Report) -> str:
    """The headline of a report, and its faults in full."""
    faults = [
        textwrap.fill(f"- {v.check}: {v.text}", 98, subsequent_indent="  ") for v in report.faults
    ]
    return "\n".join([f"diagnose: {report.headline}", *faults])


def _pairs(results: dict[str, Result], values: Sequence[float], form: str) -> str:
    return "   ".join(f"{name} {value:{form}}" for name, value in zip(results, values))


def _kish(results: dict[str, Result]) -> list[float]:
    return [kish_share(result.log_weights) for result in results.values()]


def _seconds(results: dict[str, Result]) -> list[float]:
    return [result.seconds for result in results.values()]


def main(argv: Sequence[str] | None = None) -> None:
    """Run the demo.

    Args:
        argv: command line arguments. None (default) for those of the process.
    """
    parser = argparse.ArgumentParser(prog="numpyro_contour", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for files")
    parser.add_argument("--seed", type=int, default=0, help="seed of the chains and of the split")
    parser.add_argument("--quick", action="store_true", help="short runs, to see that it works")
    arguments = parser.parse_args(argv)
    began = time.perf_counter()
    nine_job = QUICK_NINE_MODES if arguments.quick else NINE_MODES
    concrete_job = QUICK_CONCRETE if arguments.quick else CONCRETE
    key_nine, key_concrete, key_noise = random.split(random.key(arguments.seed), 3)

    nine = run_nine_modes(nine_job, key_nine)
    print(describe_nine_modes(nine_job, nine), end="\n\n")
    nine_idata = to_inference_data(nine["ContourSGLD"].mcmc)
    print(diagnose(nine_idata), end="\n\n", flush=True)

    split = split_and_standardise(load("concrete"), seed=arguments.seed)
    network = run_concrete(concrete_job, key_concrete, split)
    x_test = jnp.asarray(split.X_test)
    drawn = {name: predictive(r.mcmc, key_noise, x_test) for name, r in network.items()}
    predictions = {
        name: concrete.predict(drawn[name], result.log_weights, split)
        for name, result in network.items()
    }
    print(describe_concrete(concrete_job, network, split, predictions), end="\n\n", flush=True)

    arguments.output.mkdir(parents=True, exist_ok=True)
    data_file, figure_file = arguments.output / "concrete.nc", arguments.output / "demo.png"
    with warnings.catch_warnings():
        # The warnings say what is wrong with such a short run; the report below says all of it.
        warnings.filterwarnings("ignore", "This run cannot be trusted", UserWarning)
        idata = to_inference_data(
            network["ContourSGLD"].mcmc,
            predictions={"y": drawn["ContourSGLD"]["y"]},
            dims={"y": ["rows"]},
        )
    idata.to_netcdf(data_file)
    again = az.from_netcdf(data_file)
    print(describe_file(again), end="\n\n")
    print(describe_report(diagnose(again)))
    print(
        "(The weights of a network are not identified: what its chains agree on are predictions.)"
    )
    print()
    save_figure(
        figure_file,
        (nine["ContourSGLD"].samples, nine["ContourSGLD"].weights),
        (nine_idata, again),
        split,
        predictions["ContourSGLD"],
    )
    warmup_file = arguments.output / "warmup.png"
    save_warmup(warmup_file, nine_idata)
    print(
        f"Wrote {data_file}, {figure_file} and {warmup_file} after "
        f"{time.perf_counter() - began:.0f} seconds."
    )
