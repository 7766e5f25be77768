"""Helpers for several figures: axes, legends and the groups of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from numpyro_contour import checks
from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.output.resample import groups_of_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Figsize = tuple[float, float] | None

SMALL_LEGEND: dict[str, Any] = {
    "frameon": False,
    "fontsize": "small",
    "title_fontsize": "small",
    "handlelength": 1.4,
    "columnspacing": 1.0,
}


# Ten colours that readers with any colour vision tell apart.
# Source: Petroff (2021), "Accessible color sequences for data visualization".
_TEN = (
    "#3f90da",
    "#ffa90e",
    "#bd1f01",
    "#94a4a2",
    "#832db6",
    "#a96b59",
    "#e76300",
    "#b9ac70",
    "#717581",
    "#92dadd",
)


def mode_colours(number: int) -> list[Any]:
    """A colour for each of up to 20 modes; up to ten for readers with any colour vision."""
    from matplotlib import colormaps
    from matplotlib.colors import to_rgb

    if number <= len(_TEN):
        return [to_rgb(name) for name in _TEN[:number]]
    return list(colormaps["tab20"].colors[:number])  # type: ignore[attr-defined]


# ------------------------------------------------------------------------------------------- axes


def new_axes(rows: int, columns: int, figsize: Figsize, **options: Any) -> np.ndarray:
    """The axes of a new pyplot figure, (rows, columns)."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        text = "Plots need matplotlib: `pip install numpyro_contour[plots]`."
        raise ImportError(text) from None
    options = {"layout": "constrained", "figsize": figsize} | options
    return plt.subplots(rows, columns, squeeze=False, **options)[1]


def one_axes(ax: Axes | None, figsize: Figsize) -> Axes:
    """The axes that were given, or new ones."""
    return new_axes(1, 1, figsize)[0, 0] if ax is None else ax


def given_axes(axes: Any, number: int) -> np.ndarray:
    """The axes that were given, (number,).

    Raises:
        ValueError: there is another number of axes.
    """
    array = np.asarray(axes, dtype=object)
    if array.size != number:
        takes = "a matplotlib axes" if number == 1 else f"{number} matplotlib axes"
        raise checks.fail("axes", array.shape, takes)
    return array.ravel()


def grid_axes(axes: Any, number: int, columns: int, figsize: Figsize) -> np.ndarray:
    """The requested number of axes, (number,): those given, or the first ones of a grid."""
    if axes is not None:
        return given_axes(axes, number)
    columns = min(columns, number)
    rows = -(-number // columns)
    made = new_axes(rows, columns, figsize or (4.2 * columns + 0.6, 3.0 * rows + 0.4)).ravel()
    for unused in made[number:]:
        unused.remove()
    return made[:number]


def legend_inside(ax: Axes, headroom: float = 0.15, **options: Any) -> None:
    """A legend in one row within the axes, in new headroom above their upper limit."""
    low, high = ax.get_ylim()
    if ax.get_yscale() == "log":
        ax.set_ylim(low, high * (high / low) ** headroom)
    else:
        ax.set_ylim(low, high + headroom * (high - low))
    place = {"loc": "upper center", "ncols": len(ax.get_legend_handles_labels()[1])}
    ax.legend(**place | SMALL_LEGEND | options)


def legend_beside(ax: Axes, **options: Any) -> None:
    """A legend to the right of the axes."""
    place = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
    ax.legend(**place | SMALL_LEGEND | options)


# ---------------------------------------------------------------------------------------- the run


def contour_evidence(data: Any) -> Evidence:
    """The groups of a run that has theta.

    Raises:
        ValueError: the run has no theta.
    """
    evidence = Evidence(groups_of_run(data))
    if not evidence.is_contour:
        kernel = evidence.settings.get("kernel", type(data).__name__)
        takes = "a run of a contour kernel, with a group 'energy_partition'"
        raise checks.fail("data", f"{kernel} without one", takes)
    return evidence


def bin_edges(evidence: Evidence) -> np.ndarray:
    """Edges of each chain's energy bins in nats, (chains, bins + 1)."""
    lower = evidence.per_chain("energy_partition", "lower_edge")
    assert lower is not None
    return np.concatenate([lower, evidence.upper[:, None]], axis=1)


def draw_numbers(stats: xr.Dataset, dim: str = "draw") -> np.ndarray:
    """The numbers of the draws, as they are labelled."""
    return stats[dim].values


def spread(masses: np.ndarray, edges: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """The mass of each of other bins, if mass is spread evenly within the bins that it is given in.

    What lies outside the other bins counts to the first and to the last of them, as with the bins
    of a partition, so no mass is lost.

    Args:
        masses: mass of each bin, (..., bins).
        edges: their edges in nats, (bins + 1,).
        onto: edges of the other bins in nats, (others + 1,).

    Returns:
        Mass of each of the other bins, (..., others).
    """
    inner = onto[1:-1]
    width = np.diff(edges)
    # The share of each bin that lies below each of the inner edges.
    below = np.clip((inner[:, None] - edges[:-1]) / width, 0.0, 1.0)
    ends = np.zeros((1, len(width))), np.ones((1, len(width)))
    shares = np.diff(np.concatenate([ends[0], below, ends[1]]), axis=0)
    return masses @ shares.T


def common_edges(edges: np.ndarray) -> np.ndarray:
    """Edges of even bins from the lowest to the highest energy of all partitions.

    Args:
        edges: edges of each chain's bins in nats, (chains, bins + 1).

    Returns:
        Edges, those of the chains if they are the same, or else those of bins as wide as the
        chains' in the median.
    """
    if np.all(edges == edges[0]):
        return edges[0]
    low, high = edges.min(), edges.max()
    number = round((high - low) / float(np.median(np.diff(edges))))
    return np.linspace(low, high, number + 1)


def joined_edges(edges: np.ndarray, visits: np.ndarray, least: float) -> np.ndarray:
    """Edges of bins with enough visits each: neighbours are joined, from the left, until they have.

    Args:
        edges: edges of the bins, (bins + 1,).
        visits: visits of each bin, (bins,), not all of them 0.
        least: how many visits are enough.

    Returns:
        Some of the edges, from the left of the first to the right of the last visited bin. Bins at
        the right end that do not have enough together are joined to the last one that has.
    """
    visited = np.flatnonzero(visits > 0)
    chosen, held = [visited[0]], 0.0
    for i in range(visited[0], visited[-1] + 1):
        held += visits[i]
        if held >= least:
            chosen.append(i + 1)
            held = 0.0
    if len(chosen) == 1:
        chosen.append(visited[-1] + 1)
    chosen[-1] = visited[-1] + 1
    return edges[chosen]
