"""What both halves of the demo share: the length of a run, what is said of it, and figures."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpyro.infer import MCMC
from numpyro.infer.mcmc import MCMCKernel

from numpyro_contour import Report, expectation, weighted_samples
from numpyro_contour.examples import phase_retrieval
from numpyro_contour.plots import plot_energy_histogram, plot_warmup, plot_weighted_draws
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


COLOURS = {True: "#0072b2", False: "#d55e00"}


def save_figure(path: Path, nine: Result, nine_idata: Any, phases: Any) -> None:
    """Draw the runs: nine modes above, phase retrieval below.

    Args:
        path: file of the figure.
        nine: the run on the nine modes.
        nine_idata: its InferenceData.
        phases: the InferenceData of phase retrieval.
    """
    # A separate Figure, not pyplot's, so that files are the same with and without a display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 9), layout="constrained")
    axes = figure.subplots(2, 2)
    plot_weighted_draws(nine.samples, nine.weights, ax=axes[0, 0])
    axes[0, 0].set_title("Nine modes: draws, area by weight")
    plot_energy_histogram(nine_idata, ax=axes[0, 1]).set_title("Nine modes: potential energy")
    draw_modes(phases, axes[1, 0])
    draw_energy(phases, axes[1, 1])
    figure.savefig(path, dpi=120)


def draw_modes(idata: Any, ax: Any) -> None:
    """The draws of the signal along its own direction and across it, with the modes' masses."""
    direction = phase_retrieval.SIGNAL / np.linalg.norm(phase_retrieval.SIGNAL)
    # Across: a direction at a right angle to (2, 1, -1).
    basis = np.stack([direction, np.array([1.0, -1.0, 1.0]) / np.sqrt(3)], axis=-1)
    w = np.asarray(idata["weighted_posterior"]["w"])
    plot_weighted_draws(
        w @ basis, np.exp(np.asarray(idata["weighted_sample_stats"]["log_weight"])), ax=ax
    )
    of_mode = expectation(idata, lambda p: phase_retrieval.has_sign_of_signal(p["w"]))
    exact = phase_retrieval.exact_mass()
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.25 * (high - low))
    for own, mass, known in ((True, of_mode.mean, exact), (False, 1 - of_mode.mean, 1 - exact)):
        x = np.linalg.norm(phase_retrieval.SIGNAL) * (1 if own else -1)
        words = f"{mass:.2f} ± {of_mode.mcse:.2f}\n(exact {known:.3f})"
        ax.text(x, high, words, ha="center", va="bottom", color=COLOURS[own])
    ax.set(xlabel="w along the signal", ylabel="w across it")
    ax.set_title("Phase retrieval: draws and masses of the modes")


def draw_energy(idata: Any, ax: Any) -> None:
    """The energy of the draws of one chain over all rows, with the noise of a minibatch's."""
    energy = -np.asarray(idata["weighted_sample_stats"]["lp"])[0]
    energy = energy - energy.min()
    noise = np.asarray(idata["weighted_sample_stats"]["energy_noise"])[0]
    own = phase_retrieval.has_sign_of_signal(np.asarray(idata["weighted_posterior"]["w"])[0])
    draws = np.arange(len(energy))
    ax.fill_between(
        draws, energy - 2 * noise, energy + 2 * noise, color="0.75", label="± 2 sd of its noise"
    )
    ax.plot(draws, energy, color="0.4", lw=0.6)
    for mode, label in ((True, "mode at the signal"), (False, "other mode")):
        here = own == mode
        ax.plot(draws[here], energy[here], ".", color=COLOURS[mode], ms=5, label=label)
    ax.set(xlabel="draw of chain 0", ylabel="potential energy above the lowest (nats)")
    ax.set_title(f"Phase retrieval: energies, noise {np.median(noise):.2f} nats (median)")
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.1 * (high - low))
    ax.legend(
        frameon=False,
        fontsize="small",
        loc="upper center",
        ncols=3,
        handlelength=1.0,
        columnspacing=1.0,
    )


def save_warmup(path: Path, nine: Any) -> None:
    """Draw what the warm-up on the nine modes found."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    plot_warmup(nine, axes=figure.subplots(3, 1, sharex=True))
    figure.savefig(path, dpi=120)
