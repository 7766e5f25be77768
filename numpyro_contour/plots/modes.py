"""The modes that a run knows: where they are, their masses, and the jumps between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from numpyro_contour import checks
from numpyro_contour.output.resample import groups_of_run
from numpyro_contour.plots.shared import (
    Figsize,
    given_axes,
    legend_beside,
    legend_inside,
    mode_colours,
    new_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COORDINATES = 6
# Modes of less mass are left out, and so many have colours of their own.
_LEAST, _MOST = 1e-3, 20
# Sizes in points of the numbers of jumps; they are left out where they would be smaller.
_SMALLEST, _LARGEST = 5.0, 9.0


def plot_modes(
    data: Any,
    coordinates: Sequence[str] | None = None,
    axes: Any = None,
    figsize: Figsize = None,
) -> np.ndarray:
    """Where the modes of a run are, how much mass each has, and the jumps made between them.

    Modes of less than a thousandth of the mass by all three ways are left out.

    Args:
        data: what `to_inference_data` returns, or an `MCMC` with a kernel of this package, after
            `run`, that knows two modes or more.
        coordinates: names of unconstrained coordinates, as the group `modes` has them. None
            (default) for the first six.
        axes: three matplotlib axes. None (default) for those of a new figure.
        figsize: width and height of a new figure in inches. None (default) for 14 by 4.

    Returns:
        The three axes, (3,): the bottom of each mode, with a standard deviation of its normal to
        both sides, by coordinate, or in the plane of two; the mass of each mode with two standard
        errors to both sides, by the weighted draws, by each chain (small), by bridge sampling and
        by the normal; the share of the tries to jump that were made, from rows to columns, with
        their number where it can be read.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: the run knows no modes, a coordinate does not exist, or there are not three
            axes.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from matplotlib.figure import Figure
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD
        >>> from numpyro_contour.plots import plot_modes
        >>> kernel = ContourSGLD(potential_fn=lambda x: 2 * (jnp.abs(x) - 3) ** 2, num_steps=20)
        >>> mcmc = MCMC(kernel, num_warmup=200, num_samples=200, num_chains=4,
        ...             chain_method="vectorized", progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array([-2.0, -1.0, 1.0, 2.0]))
        >>> axes = plot_modes(mcmc, axes=Figure().subplots(1, 3))
        >>> axes[2].get_images()[0].get_array().shape
        (2, 2)
    """
    group = groups_of_run(data).get("modes")
    if group is None:
        takes = "a run whose chains can jump, and know two modes or more"
        raise checks.fail("data", "a run without a group 'modes'", takes)
    names = _chosen(group, coordinates)
    shown = _shown(group)
    if axes is None:
        grid = {"width_ratios": (1.2, 1.2, 1)}
        axes = new_axes(1, 3, figsize or (14.0, 4.0), **grid)[0]
    places, masses, jumps = axes = given_axes(axes, 3)
    _draw_places(places, group.isel(mode=shown), names)
    _draw_masses(masses, group.isel(mode=shown))
    _draw_jumps(jumps, group, shown)
    return axes


def _chosen(group: xr.Dataset, coordinates: Sequence[str] | None) -> list[str]:
    known = [str(name) for name in group["coordinate"].values]
    if coordinates is None:
        return known[:_COORDINATES]
    names = [coordinates] if isinstance(coordinates, str) else list(coordinates)
    if not names or not set(names) <= set(known):
        raise checks.fail("coordinates", coordinates, f"None or some of {known}")
    return names


def _shown(group: xr.Dataset) -> np.ndarray:
    """The numbers of the modes that are drawn."""
    ways = [group[name].values for name in _MASSES if name in group]
    largest = np.nan_to_num(np.stack(ways)).max(0)
    shown = np.flatnonzero(largest >= _LEAST)
    return np.sort(shown[np.argsort(-largest[shown], kind="stable")][:_MOST])


#: where masses are, their errors, their names, and how they are drawn
_MASSES: dict[str, tuple[str | None, str, dict[str, Any]]] = {
    "mass": ("mass_mcse", "weighted draws", {"fmt": "o", "ms": 6}),
    "mass_by_bridge": ("mass_by_bridge_mcse", "bridge sampling", {"fmt": "s", "ms": 5}),
    "mass_by_normal": (None, "normal at the bottom", {"fmt": "x", "ms": 6}),
}


def _draw_places(ax: Axes, group: xr.Dataset, names: list[str]) -> None:
    """The bottoms with a standard deviation to both sides: in a plane, or over coordinates."""
    number = group.sizes["mode"]
    colours = mode_colours(number)
    of_names = group.sel(coordinate=names)
    means, sds = (of_names[n].transpose("mode", "coordinate").values for n in ("mean", "sd"))
    if len(names) == 2:
        for mean, sd, label, colour in zip(means, sds, group["mode"].values, colours):
            style = {"fmt": "o", "ms": 4, "lw": 2, "color": colour, "label": str(label)}
            ax.errorbar(*mean[:, None], *sd[::-1, None], **style)
        ax.set_xlabel(names[0])
        ax.set_ylabel(f"{names[1]} (bottom, ± 1 sd)")
        legend_beside(ax, title="mode")
        return
    at = np.arange(len(names))
    for place, (mean, sd, label) in enumerate(zip(means, sds, group["mode"].values)):
        # Side by side, since modes often share the values of some coordinates.
        beside = at + 0.5 * ((place + 0.5) / number - 0.5)
        style = {"fmt": "o", "ms": 4, "lw": 2, "color": colours[place], "label": str(label)}
        ax.errorbar(beside, mean, sd, **style)
    ax.set_xticks(at, names, rotation=30 if len(names) > 3 else 0)
    ax.set_ylabel("bottom, ± 1 sd of its normal")
    legend_beside(ax, title="mode")


def _draw_masses(ax: Axes, group: xr.Dataset) -> None:
    at = np.arange(group.sizes["mode"])
    of_chains = group["mass_by_chain"].transpose("chain", "mode").values
    for chain, values in enumerate(of_chains):
        ax.plot(at - 0.2, values, ".", color="0.5", ms=4, label="" if chain else "each chain")
    used = [name for name in _MASSES if name in group]
    for place, name in enumerate(used):
        error, label, style = _MASSES[name]
        errors = None if error is None else 2 * group[error].values
        ax.errorbar(at + 0.2 * place, group[name].values, errors, ls="", label=label, **style)
    ax.set_xticks(at, [str(mode) for mode in group["mode"].values])
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("mode")
    ax.set_ylabel("mass, ± 2 standard errors")
    legend_inside(ax, headroom=0.4, ncols=1)


def _draw_jumps(ax: Axes, group: xr.Dataset, shown: np.ndarray) -> None:
    tried, made = (
        group[name].transpose("chain", "from_mode", "to_mode").values.sum(0)[np.ix_(shown, shown)]
        for name in ("jumps_tried", "jumps_made")
    )
    share = np.divide(made, tried, out=np.full(made.shape, np.nan), where=tried > 0)
    image = ax.imshow(share, vmin=0.0, vmax=1.0, cmap="viridis")
    size = _size_in_cells(ax, len(shown), len(f"{made.max()}"))
    for (row, column), number in np.ndenumerate(made):
        if tried[row, column] and size >= _SMALLEST:
            colour = "white" if share[row, column] < 0.6 else "black"
            ax.text(column, row, f"{number}", ha="center", va="center", color=colour, fontsize=size)
    labels = [str(mode) for mode in group["mode"].values[shown]]
    ax.set_xticks(range(len(shown)), labels)
    ax.set_yticks(range(len(shown)), labels)
    ax.set_xlabel("to mode")
    ax.set_ylabel("from mode")
    ax.figure.colorbar(image, ax=ax, label="share of tries made", shrink=0.8)


def _size_in_cells(ax: Axes, number: int, digits: int) -> float:
    """The size of letters, in points, of which so many digits fit into one of so many columns."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    box = ax.get_position()
    width, height = figure.get_size_inches() * (box.width, box.height)
    # A digit is some 0.6 as wide as it is high, and there is room around the number.
    return min(_LARGEST, 72 * min(width, height) / number / (0.6 * digits + 0.6))
