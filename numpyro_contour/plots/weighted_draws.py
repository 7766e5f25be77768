"""Weighted draws in the plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numpyro_contour import checks
from numpyro_contour.plots.shared import Figsize, one_axes
from numpyro_contour.statistics.estimates import quantiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: quantiles of the weight between which the axes show everything
_INSIDE = (0.001, 0.999)


def plot_weighted_draws(
    samples: Any, weights: Any, ax: Axes | None = None, figsize: Figsize = None
) -> Axes:
    """Draws in two dimensions, each with an area proportional to its importance weight.

    Args:
        samples: positions, (..., 2).
        weights: importance weights of at least 0, (...,): the exponentials of the log weights of
            `weighted_samples`.
        ax: matplotlib axes. None (default) for new ones.
        figsize: width and height of a new figure in inches. None (default) for matplotlib's.

    Returns:
        The axes; at most 0.1 % of the weight lies beyond each of their limits.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: the shapes do not fit, or no weight is above 0.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from numpyro_contour.plots import plot_weighted_draws
        >>> ax = plot_weighted_draws([[0.0, 1.0], [2.0, 3.0]], [1.0, 3.0], Figure().subplots())
        >>> areas = ax.collections[0].get_sizes()
        >>> print(areas[1] / areas[0])
        3.0
    """
    positions, weight = np.asarray(samples, np.float64), np.asarray(weights, np.float64)
    if positions.ndim < 2 or positions.shape[-1] != 2:
        raise checks.fail("samples", positions.shape, "positions of shape (..., 2)")
    if weight.shape != positions.shape[:-1]:
        raise checks.fail("weights", weight.shape, f"weights of the shape {positions.shape[:-1]}")
    if not (np.all(weight >= 0) and weight.sum() > 0):
        raise ValueError("`weights` takes numbers of at least 0 and not only zeros.")
    ax = one_axes(ax, figsize)
    ax.scatter(positions[..., 0], positions[..., 1], s=areas(weight), alpha=0.3, linewidths=0)
    ax.set_aspect("equal")
    # Draws of next to no weight are too small to be seen, however far out they are.
    ends = [
        quantiles(x, weight.reshape(1, -1), _INSIDE)
        for x in np.moveaxis(positions.reshape(1, -1, 2), 2, 0)
    ]
    margin = 0.1 * max(np.ptp(end) for end in ends) or 0.5
    ax.set_xlim(ends[0][0] - margin, ends[0][1] + margin)
    ax.set_ylim(ends[1][0] - margin, ends[1][1] + margin)
    ax.set_xlabel("x(1)")
    ax.set_ylabel("x(2)")
    return ax


def areas(weights: np.ndarray) -> np.ndarray:
    """Areas of markers in square points: with a mean of 4, thousands of draws stay distinct."""
    return 4 * weights.ravel() / weights.mean()
