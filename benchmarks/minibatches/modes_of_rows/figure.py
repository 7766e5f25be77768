"""The energy along a run with its noise as a band, by one anchor and by several."""

from __future__ import annotations

from unittest.mock import patch

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from benchmarks.minibatches.modes_of_rows.runs import CHAINS, Outcome, on_minibatches
from benchmarks.minibatches.modes_of_rows.target import Target
from numpyro_contour.energies import anchors

#: draws that are shown
_SHOWN = 300


def with_one_anchor(target: Target, chains: int = CHAINS) -> Outcome:
    """The run on minibatches with a single slot for anchors."""
    with patch.object(anchors, "_SLOTS", 1):
        return on_minibatches(target, chains)


def bands(target: Target, runs: dict[str, Outcome]) -> Figure:
    """A row for each run: the energies of the first chain, and a standard deviation of noise."""
    plt.switch_backend("Agg")
    figure, axes = plt.subplots(len(runs), 1, figsize=(8.5, 5), sharex=True, layout="constrained")
    lowest = min(run.energy.min() for run in runs.values())
    for ax, (name, run) in zip(axes, runs.items()):
        energy, noise = run.energy[0, :_SHOWN] - lowest, run.noise[0, :_SHOWN]
        draws = np.arange(len(energy))
        inside = run.inside[0, :_SHOWN]
        ax.fill_between(draws, energy - noise, energy + noise, color="0.8", lw=0, label="noise")
        for side, colour, label in ((inside, "C0", "one mode"), (~inside, "C3", "the other")):
            ax.plot(draws[side], energy[side], ".", ms=4, color=colour, label=label)
        ax.axhline(target.barrier, ls="--", lw=0.8, color="k", label="height of the barrier")
        ax.set(title=name, ylabel="energy (nats)")
    handles = axes[0].get_legend_handles_labels()[0]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    axes[-1].set_xlabel("draw")
    return figure
