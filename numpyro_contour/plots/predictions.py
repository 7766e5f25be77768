"""Predictions against observations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numpyro_contour import checks
from numpyro_contour.plots.shared import Figsize, one_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_predictions(
    observed: Any,
    predicted: Any,
    lower: Any,
    upper: Any,
    unit: str | None = None,
    ax: Axes | None = None,
    figsize: Figsize = None,
) -> Axes:
    """Predictions with their intervals against the observations.

    Args:
        observed: observations, (rows,).
        predicted: predictive means, (rows,), in the unit of the observations.
        lower: lower ends of the predictive intervals, (rows,).
        upper: upper ends of the predictive intervals, (rows,).
        unit: unit for the labels. None (default) for none.
        ax: matplotlib axes. None (default) for new ones.
        figsize: width and height of a new figure in inches. None (default) for matplotlib's.

    Returns:
        The axes; rows whose interval misses the observation stand out.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: the shapes differ, or a lower end is above its upper end.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from numpyro_contour.plots import plot_predictions
        >>> ax = plot_predictions([1.0, 2.0], [1.1, 1.7], [0.5, 1.2], [1.6, 2.3], unit="MPa",
        ...                       ax=Figure().subplots())
        >>> ax.get_xlabel()
        'observed (MPa)'
    """
    y = np.asarray(observed, np.float64)
    if y.ndim != 1:
        raise checks.fail("observed", y.shape, "an array of shape (rows,)")
    ends = {"predicted": predicted, "lower": lower, "upper": upper}
    arrays = {name: np.asarray(value, np.float64) for name, value in ends.items()}
    for name, array in arrays.items():
        if array.shape != y.shape:
            raise checks.fail(name, array.shape, f"an array of the shape of `observed`, {y.shape}")
    if not np.all(arrays["lower"] <= arrays["upper"]):
        raise ValueError("`lower` takes values of at most those of `upper`, but some are above.")
    ax = one_axes(ax, figsize)
    inside = (arrays["lower"] <= y) & (y <= arrays["upper"])
    for rows, colour, label in ((inside, "C0", "interval holds it"), (~inside, "C3", "misses it")):
        ax.vlines(y[rows], arrays["lower"][rows], arrays["upper"][rows], colors=colour, alpha=0.5)
        ax.plot(y[rows], arrays["predicted"][rows], ".", color=colour, label=label)
    ax.axline((y.mean(), y.mean()), slope=1, color="black", lw=0.8)
    suffix = f" ({unit})" if unit else ""
    ax.set_xlabel("observed" + suffix)
    ax.set_ylabel("predicted" + suffix)
    ax.legend()
    return ax
