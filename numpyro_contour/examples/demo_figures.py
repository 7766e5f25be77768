"""The figures of the demo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from numpyro_contour import expectation
from numpyro_contour.examples import phase_retrieval
from numpyro_contour.examples.demo_runs import Result
from numpyro_contour.plots import plot_energy_histogram, plot_warmup, plot_weighted_draws

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
