"""A figure of the ranks: how far their distribution functions are from the diagonal."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.calibration.envelopes import PLACES, envelope, p_value, shares_below

COLUMNS = 3
#: colours of the quantities that leave their envelope; of others as many as are needed
OUTSIDE = ("tab:red", "tab:orange", "tab:purple", "tab:brown", "tab:pink", "tab:olive", "tab:cyan")


def overview(shown: dict[str, dict[str, list[int]]]) -> Figure:
    """A panel for each model, with the ranks of its quantities by name."""
    rows = -(-len(shown) // COLUMNS)
    figure, axes = plt.subplots(
        rows, COLUMNS, figsize=(10.5, 2.5 * rows), sharex=True, layout="constrained", squeeze=False
    )
    for ax in axes.flat[len(shown) :]:
        ax.set_axis_off()
    for n, (title, ranks) in enumerate(shown.items()):
        panel(axes.flat[n], title, ranks)
        axes.flat[n].tick_params(labelbottom=n >= len(shown) - COLUMNS)
    figure.supxlabel("rank / 100", fontsize=10)
    figure.supylabel("share of ranks below, minus what it should be", fontsize=10)
    return figure


def panel(ax: Axes, title: str, ranks: dict[str, list[int]]) -> None:
    """The quantities of one model over their envelope; those that leave it have a name."""
    number = len(next(iter(ranks.values())))
    low, high = envelope(number)
    ax.fill_between(PLACES, low - PLACES, high - PLACES, color="0.85", lw=0)
    ax.axhline(0, color="0.6", lw=0.6)
    colours = iter(OUTSIDE)
    most = 0.17
    for name, found in ranks.items():
        away = shares_below(found) - PLACES
        most = max(most, 1.1 * np.abs(away).max())
        if p_value(found) < 0.05:
            ax.plot(PLACES, away, color=next(colours, "k"), lw=1.4, label=name)
        else:
            ax.plot(PLACES, away, color="tab:blue", lw=0.8, alpha=0.7)
    ax.set_title(f"{title} ({number})", fontsize=10)
    ax.set(xlim=(0, 1), ylim=(-most, most))
    ax.tick_params(labelsize=8)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(fontsize=7, ncols=2, loc="lower left", framealpha=0.6, borderpad=0.2)
