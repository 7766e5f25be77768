"""Pairs of scalars, and weighted draws in the plane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numpyro_contour import checks
from numpyro_contour.output.equal_weights import weights_of
from numpyro_contour.output.resample import weighted_groups
from numpyro_contour.plots.marginals import display_range, draw_marginal
from numpyro_contour.plots.shared import SMALL_LEGEND, Figsize, new_axes, one_axes
from numpyro_contour.statistics.estimates import quantiles
from numpyro_contour.statistics.scalars import chosen_scalars

_FEWEST, _MOST = 2, 6


def plot_pair(
    data: Any,
    var_names: str | Sequence[str] | None = None,
    coords: Mapping[str, Any] | None = None,
    axes: Any = None,
    figsize: Figsize = None,
) -> np.ndarray:
    """Each pair of scalars, as draws with areas proportional to their weights.

    Args:
        data: what `to_inference_data` returns, or an `MCMC` with a kernel of this package, after
            `run`.
        var_names: names of variables with two to six scalars in all. None (default) for all.
        coords: coordinates to keep, `{dimension: values}`. None (default) for all.
        axes: matplotlib axes, (scalars, scalars), of which those above the diagonal are hidden.
            None (default) for those of a new figure.
        figsize: width and height of a new figure in inches. None (default) for about 2.4 per
            scalar.

    Returns:
        The axes, (scalars, scalars): on the diagonal the marginals, as in `plot_marginals`, and
        below it the draws of all chains, with flattened draws as grey points behind them. At most
        0.1 % of the draws and of the weight lie beyond each limit.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: there are no weights, a variable or coordinate does not exist, there are not
            two to six scalars, or the axes have another shape.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from matplotlib.figure import Figure
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition
        >>> from numpyro_contour.plots import plot_pair
        >>> kernel = ContourSGLD(potential_fn=lambda x: x @ x / 2, step_size=0.1,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=100, num_samples=100, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.zeros(2))
        >>> axes = plot_pair(mcmc, axes=Figure().subplots(2, 2))
        >>> axes[1, 0].get_xlabel(), axes[1, 0].get_ylabel()
        ('z[0]', 'z[1]')
    """
    groups = weighted_groups(data)
    weights = weights_of(groups)
    chosen = chosen_scalars(groups["posterior"], var_names, coords, _FEWEST, _MOST)
    number = len(chosen)
    if axes is None:
        side = 2.4 * number + 0.6
        axes = new_axes(number, number, figsize or (side, side))
    axes = np.asarray(axes, dtype=object)
    if axes.shape != (number, number):
        raise checks.fail("axes", axes.shape, f"matplotlib axes ({number}, {number})")
    for row, y in enumerate(chosen):
        for column, x in enumerate(chosen):
            ax = axes[row, column]
            if column > row:
                ax.set_visible(False)
                continue
            if column == row:
                draw_marginal(ax, x, weights)
            else:
                flat = x.values.ravel(), y.values.ravel()
                ax.scatter(*flat, s=2, color="0.8", linewidths=0)
                ax.scatter(*flat, s=areas(weights), color="C0", alpha=0.3, linewidths=0)
                ax.set_ylim(*_limits(y.values, weights))
            ax.set_xlim(*_limits(x.values, weights))
    _name(axes, [scalar.label for scalar in chosen])
    # The legend takes the place of the hidden axes.
    legend = axes[0, 0].legend(loc="upper left", bbox_to_anchor=(1.05, 1.0), **SMALL_LEGEND)
    legend.set_in_layout(False)
    return axes


def _limits(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    low, high = display_range(values, weights)
    margin = 0.04 * (high - low) or 0.5
    return low - margin, high + margin


def _name(axes: np.ndarray, labels: list[str]) -> None:
    """Names and numbers along the left and lower edges; the diagonal has densities instead."""
    last = len(labels) - 1
    for row in range(len(labels)):
        for column in range(row + 1):
            ax = axes[row, column]
            ax.tick_params(labelbottom=row == last, labelleft=column == 0 and row > 0)
            if row == last:
                ax.set_xlabel(labels[column])
            if column == 0 and row > 0:
                ax.set_ylabel(labels[row])
        axes[row, row].tick_params(left=False, labelleft=False)
    axes[0, 0].set_ylabel("density")


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
