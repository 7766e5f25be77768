"""An overview of a run."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.output.equal_weights import weights_of
from numpyro_contour.output.inference_data import to_inference_data
from numpyro_contour.output.resample import groups_of_run
from numpyro_contour.output.weighted_samples import report_on
from numpyro_contour.plots.energy_histogram import plot_energy_histogram
from numpyro_contour.plots.energy_trace import plot_energy_trace
from numpyro_contour.plots.marginals import draw_marginals
from numpyro_contour.plots.mode_occupancy import plot_mode_occupancy
from numpyro_contour.plots.shared import Figsize, grid_axes
from numpyro_contour.plots.theta_trace import plot_theta_trace
from numpyro_contour.plots.warmup import draw_energies, name_stages
from numpyro_contour.plots.weights import plot_weights
from numpyro_contour.runs.finished_run import is_mcmc
from numpyro_contour.statistics.scalars import first_scalars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 3
_MARGINALS = 3
# heights of a panel and of the title above all panels, in inches
_PANEL = (4.4, 3.0)
_TITLE = 0.4


def plot_dashboard(
    data: Any, modes: str | Callable | None = None, figsize: Figsize = None
) -> np.ndarray:
    """The figures that show at a glance whether a run went well, under the sentence of `diagnose`.

    The panels, as far as they apply, are `plot_energy_histogram`, `plot_theta_trace`,
    `plot_energy_trace` of the first chain, both axes of `plot_weights`, the energies of
    `plot_warmup`, and `plot_mode_occupancy` if `modes` is given, or else `plot_marginals` of the
    first three scalars.

    Args:
        data: what `to_inference_data` returns, or an `MCMC` with a kernel of this package, after
            `run`.
        modes: as in `plot_mode_occupancy`. None (default) for marginals.
        figsize: width and height of the figure in inches. None (default) for 4.4 by 3 per panel.

    Returns:
        The axes of the new figure, (panels,), three in a row.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: `data` is not a run of this package; also as in `plot_mode_occupancy`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> import matplotlib; matplotlib.use("Agg")
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition
        >>> from numpyro_contour.plots import plot_dashboard
        >>> kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=100, num_samples=100, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> axes = plot_dashboard(mcmc)
        >>> len(axes)
        6
        >>> matplotlib.pyplot.close(axes[0].figure)
    """
    if is_mcmc(data):
        data = to_inference_data(data)  # once for all panels
    groups = groups_of_run(data)
    panels = _panels(data, groups, modes)
    number = sum(count for count, _ in panels)
    rows, columns = -(-number // _COLUMNS), min(number, _COLUMNS)
    size = (_PANEL[0] * columns, _PANEL[1] * rows + _TITLE)
    axes = grid_axes(None, number, _COLUMNS, figsize or size)
    at = 0
    for count, draw in panels:
        draw(axes[at : at + count])
        at += count
    figure = axes[0].figure
    width = int(12 * figure.get_size_inches()[0])  # characters
    figure.suptitle(textwrap.fill(report_on(groups).headline, width))
    return axes


Panel = tuple[int, Callable[[np.ndarray], Any]]


def _panels(data: Any, groups: dict[str, xr.Dataset], modes: str | Callable | None) -> list[Panel]:
    """The panels that apply to this run: the number of axes of each, and its drawing function."""
    evidence = Evidence(groups)
    panels: list[Panel] = []
    if evidence.is_contour:
        panels.append((1, lambda axes: plot_energy_histogram(data, axes[0])))
        if "log_theta" in evidence.stats:
            panels.append((1, lambda axes: plot_theta_trace(data, ax=axes[0])))
        panels.append((1, lambda axes: plot_energy_trace(data, [0], axes)))
    if evidence.weighed and np.ptp(evidence.log_weights) > 0:
        panels.append((2, lambda axes: plot_weights(data, axes)))
    if "warmup" in groups:
        panels.append((1, lambda axes: _warmup_energies(axes[0], groups["warmup"])))
    if modes is not None:
        panels.append((2, lambda axes: plot_mode_occupancy(data, modes, axes)))
    elif evidence.weighed or not panels:
        first, weights = first_scalars(groups["posterior"], _MARGINALS), weights_of(groups)
        panels.append((len(first), lambda axes: draw_marginals(axes, first, weights)))
    return panels


def _warmup_energies(ax: Axes, group: xr.Dataset) -> None:
    draw_energies(ax, group)
    name_stages(ax, group)
