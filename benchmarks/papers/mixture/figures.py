"""Figures 1 and 2 of CSGLD."""

from __future__ import annotations

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from benchmarks.papers.mixture.exact import (
    OUR_PSI,
    PAPERS_PSI,
    PARTITION,
    ZETA,
    exact_theta,
    flattened_energy,
)
from benchmarks.papers.mixture.runs import STEP_SIZE, Path, Results


def figure_1(results: list[Results], times: np.ndarray) -> Figure:
    """The flattened energy, theta, and the error over iterations."""
    figure, grid = plt.subplots(2, 2, figsize=(9.5, 7.5), layout="constrained")
    axes = grid.ravel()
    theta = exact_theta(PARTITION)
    x = np.linspace(-10.5, 8.5, 2001)
    colours = plt.get_cmap("viridis")
    for zeta in (0.0, 0.25, 0.5, 0.75, 1.0):
        flat = flattened_energy(x, theta, PARTITION, replace(PAPERS_PSI, zeta=zeta))
        axes[0].plot(x, flat - flat.min(), color=colours(0.9 * zeta), label=f"zeta {zeta:g}")
    flat = flattened_energy(x, theta, PARTITION, OUR_PSI)
    axes[0].plot(x, flat - flat.min(), "k:", label=f"{ZETA:g}, our Psi")
    axes[0].set(xlabel="x", ylabel="energy (nats)", title="(a) energy of the flattened density")
    axes[0].set_ylim(-0.5, 16)
    axes[0].legend(frameon=False, fontsize="small", ncols=2)

    edges = np.asarray(PARTITION.edges)
    axes[1].stairs(theta, edges, color="k", label="exact")
    learnt = [r for r in results if r.theta is not None and "theta" not in r.variant.settings]
    learnt = [r for r in learnt if r.variant.settings.get("partition") is PARTITION]
    for shift, result in zip((0.35, 0.65), learnt):
        mean, sd = result.theta.mean(0), result.theta.std(0, ddof=1)
        low = np.minimum(sd, 0.9 * mean)
        centre = edges[:-1] + shift
        style = {"fmt": ".", "color": result.variant.colour, "label": result.variant.name}
        axes[1].errorbar(centre, mean, (low, sd), **style)
    axes[1].set(
        yscale="log",
        xlim=(1, 19),
        ylim=(theta[17] / 30, 2),
        xlabel="energy (nats)",
        ylabel="theta",
        title="(b) probability of each bin",
    )
    axes[1].legend(frameon=False, fontsize="small")

    for result in results:
        errors = np.abs(result.errors(times))
        mean, sd = errors.mean(0), errors.std(0, ddof=1)
        variant = result.variant
        style = {"color": variant.colour, "linestyle": variant.line, "label": variant.name}
        axes[2].plot(times, mean, **style)
        low = np.maximum(mean - sd, 0.1 * mean)
        axes[2].fill_between(times, low, mean + sd, color=variant.colour, alpha=0.12, lw=0)
    axes[2].set(
        xscale="log",
        yscale="log",
        xlabel="iterations",
        ylabel="mean |error| of E[x]",
        title="(c) error, with the sd over runs",
    )
    axes[3].set_axis_off()
    handles = axes[2].get_legend_handles_labels()[0]
    axes[3].legend(handles=handles, loc="center left", frameon=False, title="(c)", alignment="left")
    return figure


def figure_2(sgld: Path, early: Path, late: Path) -> Figure:
    """Sample paths and learning rates of the first chain."""
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 6.5), layout="constrained")
    titles = ("(a) SGLD", "(b) early CSGLD", "(c) late CSGLD")
    for ax, stretch, title in zip(axes.flat, (sgld, early, late), titles):
        iterations, x, bouncy = stretch.iterations, stretch.x[0], stretch.multiplier[0] < 0
        ax.plot(iterations, x, color="0.6", linewidth=0.5)
        ax.plot(iterations[~bouncy], x[~bouncy], ".", color="tab:blue", markersize=2)
        if bouncy.any():
            name = "bouncy: multiplier below 0"
            ax.plot(iterations[bouncy], x[bouncy], ".", color="tab:red", markersize=4, label=name)
            ax.legend(loc="upper right", frameon=False, fontsize="small")
        ax.set(xlabel="iterations", ylabel="x", title=title, ylim=(-14, 14))
        ax.ticklabel_format(axis="x", style="plain", useOffset=False)
    ax = axes[1, 1]
    for stretch, colour, name in ((early, "tab:orange", "early"), (late, "tab:blue", "late")):
        rates = STEP_SIZE * stretch.multiplier[0]
        ax.plot(stretch.x[0], rates, ".", color=colour, markersize=3, label=name)
    low, high = ax.get_ylim()
    low = min(low, -0.02)
    ax.axhspan(low, 0, color="tab:red", alpha=0.1, lw=0)
    ax.axhline(STEP_SIZE, color="k", linestyle=":", linewidth=1, label="SGLD")
    ax.set(
        xlabel="x",
        ylabel="step size x multiplier",
        title="(d) learning rate; below 0: bouncy zone",
        ylim=(low, high + 0.15 * (high - low)),
    )
    ax.legend(frameon=False, fontsize="small", markerscale=3, ncols=3, loc="upper center")
    return figure
