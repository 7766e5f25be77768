"""Figure 4 of CSGLD (supplement D.2): the bizarre peaks of 1/6 N(-6, 1) + 5/6 N(4, 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import brentq
from scipy.signal import find_peaks

from benchmarks.papers.mixture.exact import (
    OUR_PSI,
    PAPERS_PSI,
    ZETA,
    bins_of,
    energy,
    exact_theta,
    flattened_energy,
)
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from numpyro_contour import EnergyPartition
from numpyro_contour.core.flattening.psi import Flattening

MASS = 5 / 6
RANGE = 50.0
#: peaks lower than this, in nats, are not counted
LEAST = 0.02
PAPERS, OURS = "the paper's", "ours"
SHAPES = {PAPERS: (PAPERS_PSI, "tab:orange"), OURS: (OUR_PSI, "tab:blue")}


def partition_of(width: float) -> EnergyPartition:
    """A partition whose first bin is the lowest one that holds any energy."""
    lowest = float(energy(np.array(4.0), MASS))
    lower = width * math.floor(lowest / width)
    return EnergyPartition(lower, lower + RANGE, round(RANGE / width))


def shared_energy() -> float:
    """The energy of the local minimum at -6."""
    return float(energy(np.array(-6.0), MASS))


def twins() -> tuple[float, float]:
    """The positions on both sides of 4 that have the energy of the local minimum at -6."""

    def above(x: float) -> float:
        return float(energy(np.array(x), MASS)) - shared_energy()

    return brentq(above, 0.0, 4.0), brentq(above, 4.0, 8.0)


@dataclass(frozen=True)
class Peaks:
    """Local maxima of a flattened energy, from the lesser mode's far side to the greater's."""

    x: np.ndarray
    #: their energies before flattening
    energy: np.ndarray
    #: how far each stands above the flattened energy around it
    height: np.ndarray

    def around_the_greater(self) -> Peaks:
        """The peaks to the right of 4."""
        right = self.x > 4.01
        return Peaks(self.x[right], self.energy[right], self.height[right])

    def nearest(self) -> int:
        """The peak whose energy is closest to that of the local minimum at -6."""
        return int(np.abs(self.energy - shared_energy()).argmin())


def line(points: int) -> np.ndarray:
    """Positions in the range of the figure."""
    return np.linspace(-11.0, 9.0, points)


def peaks(x: np.ndarray, width: float, psi: Flattening) -> Peaks:
    """The peaks of the flattened energy beside the barrier between the modes."""
    partition = partition_of(width)
    flat = flattened_energy(x, exact_theta(partition, MASS), partition, psi, MASS)
    at, found = find_peaks(flat, prominence=LEAST)
    energies = energy(x[at], MASS)
    low = energies < shared_energy() + 3
    return Peaks(x[at][low], energies[low], found["prominences"][low])


def _flattened_panel(ax: Axes, x: np.ndarray, width: float) -> None:
    partition = partition_of(width)
    theta = exact_theta(partition, MASS)
    for name, (psi, colour) in SHAPES.items():
        flat = flattened_energy(x, theta, partition, psi, MASS)
        flat = flat - flat[np.abs(x - 4).argmin()]
        ax.plot(x, flat, color=colour, label=f"Psi {name}")
        found = peaks(x, width, psi)
        ax.plot(found.x, np.interp(found.x, x, flat), "v", color=colour, markersize=5)
    for place in (*twins(), -6.0):
        ax.axvline(place, color="k", linestyle=":", linewidth=0.8)
    ax.set(ylabel="energy (nats above x = 4)", title=f"flattened, bins of {width:g} nats")
    ax.legend(frameon=False, fontsize="small", loc="upper center")
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.2 * (high - low))


def figure_4(widths: tuple[float, ...], points: int) -> Figure:
    """The energy and the levels that share a bin, and the flattened energy."""
    columns = 1 + len(widths)
    size = (8, 3.2 * columns)
    figure, axes = plt.subplots(columns, 1, figsize=size, layout="constrained", sharex=True)
    x = line(points)
    ax = axes[0]
    ax.plot(x, energy(x, MASS), color="k")
    partition = partition_of(widths[0])
    own = int(bins_of(np.array(shared_energy()), partition))
    edges = np.asarray(partition.edges)
    for edge in edges[edges < 15]:
        ax.axhline(edge, color="0.9", linewidth=0.6, zorder=0)
    ax.axhspan(edges[own], edges[own + 1], color="tab:green", alpha=0.25, lw=0, label="its bin")
    ax.axhline(shared_energy(), color="tab:green", label="energy of x = -6")
    places = np.array([-6.0, *twins()])
    ax.plot(places, energy(places, MASS), "o", color="tab:green", label="share it")
    ax.set(ylabel="energy (nats)", title="energy", ylim=(0, 17))
    ax.legend(frameon=False, fontsize="small", loc="upper center", ncols=3)
    for ax, width in zip(axes[1:], widths):
        _flattened_panel(ax, x, width)
    axes[-1].set_xlabel("x")
    return figure


def rows_of(widths: tuple[float, ...], points: int) -> list[list[str]]:
    """The table of the peaks to the right of 4."""
    rows = []
    for width in widths:
        partition = partition_of(width)
        own = int(bins_of(np.array(shared_energy()), partition))
        low, high = (float(partition.lower + partition.width * k) for k in (own, own + 1))
        for name, (psi, _) in SHAPES.items():
            found = peaks(line(points), width, psi).around_the_greater()
            cells = [f"{width:g}", name, f"{low:.2f} to {high:.2f}"]
            if not len(found.x):
                rows.append([*cells, "none", "", "", ""])
                continue
            best = found.nearest()
            rows.append(
                [
                    *cells,
                    f"{found.x[best]:.3f}",
                    f"{found.energy[best]:.3f}",
                    f"{found.energy[best] - shared_energy():.3f}",
                    f"{found.height[best]:.2f}",
                ]
            )
    return rows


def in_words(widths: tuple[float, ...], points: int) -> str:
    """How well the paper's explanation fits."""
    first, last = (
        {
            name: peaks(line(points), width, psi).around_the_greater()
            for name, (psi, _) in SHAPES.items()
        }
        for width in (widths[0], widths[-1])
    )

    def away(found: dict[str, Peaks], name: str) -> str:
        one = found[name]
        if not len(one.x):
            return "none"
        return f"{one.energy[one.nearest()] - shared_energy():.2f}"

    left, right = twins()
    return (
        f"The local minimum at -6 has the energy {shared_energy():.3f}. The positions x = "
        f"{left:.3f} and x = {right:.3f}, on both sides of the mode at 4 (whose energy is "
        f"{energy(np.array(4.0), MASS):.3f}), have the same energy. Psi depends on energies alone. "
        "From this energy on, the smaller mode adds its mass, most of it just above its minimum, "
        "where the energy hardly changes with x. There log theta falls more slowly, or rises, and "
        "then falls faster. Where it falls by more than 1 / zeta per nat, the multiplier is "
        "negative, so that the flattened energy goes down as the energy goes up. This makes a "
        "peak at the same energy in both modes, although x is not a stationary point there.\n\n"
        "Psi is linear between the edges of bins, so a peak can only be at an edge. The paper's "
        f"peak is {away(first, PAPERS)} nats away from the shared energy with bins of width "
        f"{widths[0]:g}, and {away(last, PAPERS)} with bins of width {widths[-1]:g}; ours is "
        f"{away(first, OURS)} and {away(last, OURS)} nats away. Up to that, the paper's "
        "explanation holds: its Psi has log theta of a bin at the upper edge, one bin higher than "
        "ours.\n"
    )


def main(experiment: Experiment) -> str:
    """The section of the page."""
    plt.switch_backend("Agg")
    widths = experiment.choose((1.0, 0.1), (1.0, 0.25))
    points = experiment.choose(20_001, 4_001)
    listed = experiment.choose((1.0, 0.5, 0.25, 0.1), widths)
    drawn = experiment.save(figure_4(widths, points), "csgld_figure_4", "Figure 4 of CSGLD")
    plt.close("all")
    header = ["bin width", "Psi", "bin of U(-6)", "x of the peak", "its energy"]
    header += ["minus U(-6)", "height in nats"]
    return (
        "## The bizarre peaks (CSGLD, supplement D.2, Figure 4)\n\n"
        f"The target is 1/6 N(-6, 1) + 5/6 N(4, 1), flattened by the exact theta with zeta "
        f"{ZETA:g}.\n\n"
        + drawn
        + "\n"
        + in_words(widths, points)
        + "\nThe peak to the right of 4 whose energy is closest to that of -6:\n\n"
        + markdown_table(header, rows_of(listed, points))
    )
