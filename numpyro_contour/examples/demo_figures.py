"""The figures of the demo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpyro_contour.examples import concrete
from numpyro_contour.examples.datasets import Split
from numpyro_contour.plots import (
    plot_energy_histogram,
    plot_predictions,
    plot_warmup,
    plot_weighted_draws,
)


def save_figure(
    path: Path,
    draws: tuple[Any, Any],
    energies: tuple[Any, Any],
    split: Split,
    predictions: concrete.Predictions,
) -> None:
    """Draw the run: nine modes above, concrete below.

    Args:
        path: file of the figure.
        draws: draws of the nine modes, and their weights.
        energies: the InferenceData of nine modes and of concrete.
        split: the data of concrete.
        predictions: predictions of the held-out rows of concrete.
    """
    # A separate Figure, not pyplot's, so that files are the same with and without a display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 9), layout="constrained")
    axes = figure.subplots(2, 2)
    plot_weighted_draws(*draws, ax=axes[0, 0])
    axes[0, 0].set_title("Nine modes: draws, area by weight")
    plot_energy_histogram(energies[0], ax=axes[0, 1]).set_title("Nine modes: potential energy")
    plot_energy_histogram(energies[1], ax=axes[1, 0]).set_title("Concrete: potential energy")
    plot_predictions(
        split.y_mean + split.y_sd * split.y_test, *predictions, unit="MPa", ax=axes[1, 1]
    ).set_title("Concrete: held-out rows, 90 % intervals")
    figure.savefig(path, dpi=120)


def save_warmup(path: Path, nine: Any) -> None:
    """Draw what the warm-up on the nine modes found."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    plot_warmup(nine, axes=figure.subplots(3, 1, sharex=True))
    figure.savefig(path, dpi=120)
