"""Weighted marginals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numpyro_contour.output.equal_weights import weights_of
from numpyro_contour.output.resample import weighted_groups
from numpyro_contour.plots.shared import Figsize, grid_axes, legend_inside
from numpyro_contour.statistics.estimates import quantiles
from numpyro_contour.statistics.scalars import Scalar, chosen_scalars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST = 40
_BINS = 80
#: share of the draws, and of the weight, that may lie beyond each end of the histogram
_BEYOND = 0.001


def plot_marginals(
    data: Any,
    var_names: str | Sequence[str] | None = None,
    coords: Mapping[str, Any] | None = None,
    bins: int | Sequence[float] = _BINS,
    axes: Any = None,
    figsize: Figsize = None,
) -> np.ndarray:
    r"""The posterior marginal of each scalar, as a histogram of the weighted draws.

    .. math:: \hat p(x) = \frac{1}{|B|} \frac{\sum_{cd} w_{cd} 1\{x_{cd} \in B\}}{\sum_{cd} w_{cd}}
              \quad \text{for x in the bin B}

    This is a histogram and not a smoothed density, so modes keep their widths and the gaps between
    them.

    Args:
        data: what `to_inference_data` returns, or an `MCMC` with a kernel of this package, after
            `run`.
        var_names: names of variables. None (default) for all.
        coords: coordinates to keep, `{dimension: values}`. None (default) for all.
        bins: number of bins, or their edges. A number of bins covers a range that leaves out at
            most 0.1 % of the draws and of the weight on each side. Defaults to 80 bins.
        axes: one matplotlib axes per scalar. None (default) for those of a new figure.
        figsize: width and height of a new figure in inches. None (default) for about 4 by 3 per
            scalar, three in a row.

    Returns:
        The axes, (scalars,), density in the inverse of the scalar's unit: flattened draws in
        grey, weighted draws of all chains as a thick line, those of each chain as a thin line.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: there are no weights, a variable or coordinate does not exist, there are
            more than 40 scalars, or the number of axes is not that of the scalars.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from matplotlib.figure import Figure
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition
        >>> from numpyro_contour.plots import plot_marginals
        >>> kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=100, num_samples=100, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> (ax,) = plot_marginals(mcmc, axes=Figure().subplots())
        >>> ax.get_xlabel()
        'z'
    """
    groups = weighted_groups(data)
    weights = weights_of(groups)
    chosen = chosen_scalars(groups["posterior"], var_names, coords, 1, _MOST)
    axes = grid_axes(axes, len(chosen), 3, figsize)
    draw_marginals(axes, chosen, weights, bins)
    return axes


def draw_marginals(
    axes: np.ndarray,
    chosen: list[Scalar],
    weights: np.ndarray,
    bins: int | Sequence[float] = _BINS,
) -> None:
    """Each scalar on its axes, with names and one legend."""
    for ax, scalar in zip(axes, chosen):
        draw_marginal(ax, scalar, weights, bins)
        ax.set_xlabel(scalar.label)
        ax.set_ylabel("density")
    legend_inside(axes[0])


def draw_marginal(
    ax: Axes, scalar: Scalar, weights: np.ndarray, bins: int | Sequence[float] = _BINS
) -> None:
    """Histograms of one scalar: flattened, of all chains, and of each."""
    values = scalar.values
    edges = np.histogram_bin_edges(values, bins, display_range(values, weights))
    flattened, pooled = (density(values, w, edges) for w in (np.ones_like(weights), weights))
    ax.stairs(flattened, edges, fill=True, color="0.85", label="flattened")
    if len(values) > 1:
        style: dict[str, Any] = {"color": "C0", "lw": 0.6, "alpha": 0.6}
        for chain, (x, w) in enumerate(zip(values, weights)):
            ax.stairs(density(x, w, edges), edges, label="" if chain else "chains", **style)
    ax.stairs(pooled, edges, color="C0", lw=1.8, label="weighted")
    ax.set_ylim(bottom=0.0)


def display_range(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The range that holds nearly all of the draws and of the weight."""
    levels = (_BEYOND, 1.0 - _BEYOND)
    ends = np.stack([quantiles(values, w, levels) for w in (np.ones_like(weights), weights)])
    return float(ends[:, 0].min()), float(ends[:, 1].max())


def density(values: np.ndarray, weights: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Share of the total weight in each bin over its width; the total includes draws outside."""
    masses = np.histogram(values, edges, weights=weights)[0]
    return masses / weights.sum() / np.diff(edges)
