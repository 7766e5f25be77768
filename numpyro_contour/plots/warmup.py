"""The stages of the warm-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from numpyro_contour import checks
from numpyro_contour.plots.shared import Figsize, given_axes, legend_inside, new_axes
from numpyro_contour.runs.finished_run import FinishedRun, is_mcmc
from numpyro_contour.runs.warmup_group import warmup_dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_warmup(data: Any, axes: Any = None, figsize: Figsize = None) -> np.ndarray:
    """What each stage of the warm-up found: potential energy, step size and acceptance.

    A warm-up that worked has a level energy after the descent, a step size that no longer changes
    after the windows of tuning, an acceptance near the one that is aimed at (dashed) and a lower
    edge of the partition just below the energies.

    Args:
        data: what `to_inference_data` returns, or an `MCMC` with a kernel that had something to
            find, after `run`.
        axes: three matplotlib axes. None (default) for those of a new figure.
        figsize: width and height of a new figure in inches. None (default) for 8 by 6.

    Returns:
        The three axes, (3,): mean potential energy with its standard deviation and, for contour
        kernels, the lower edge of the partition; step size; mean acceptance statistic. One line per
        chain.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: `data` has no warm-up that found anything, or there are not three axes.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from matplotlib.figure import Figure
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import SGLD
        >>> from numpyro_contour.plots import plot_warmup
        >>> mcmc = MCMC(SGLD(potential_fn=lambda x: x**2 / 2), num_warmup=100, num_samples=100,
        ...             progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> axes = plot_warmup(mcmc, axes=Figure().subplots(3, 1))
        >>> axes[0].get_ylabel()
        'energy (nats)'
    """
    group = _warmup(data)
    if axes is None:
        axes = new_axes(3, 1, figsize or (8.0, 6.0), sharex=True)
    axes = given_axes(axes, 3)
    draw_energies(axes[0], group)
    stages = np.arange(group.sizes["stage"])
    for chain in range(group.sizes["chain"]):
        label = "" if chain else "chains"
        axes[1].plot(stages, group["step_size"].isel(chain=chain), "C0.-", lw=1, label=label)
        axes[2].plot(stages, group["acceptance"].isel(chain=chain), "C0.-", lw=1, label=label)
    axes[1].set_ylabel("step size")
    _plain_logarithms(axes[1])
    axes[2].set_ylabel("acceptance")
    axes[2].axhline(group.attrs["target_acceptance"], color="0.4", lw=1, ls="--", label="aim")
    legend_inside(axes[2])
    name_stages(axes[2], group)
    return axes


def draw_energies(ax: Axes, group: xr.Dataset) -> None:
    """Potential energies of the stages, and the lower edge if there is one."""
    number = group.sizes["chain"]
    for chain in range(number):
        at = group.isel(chain=chain)
        # Side by side, since the bars of chains that agree would lie on each other.
        beside = np.arange(group.sizes["stage"]) + 0.4 * ((chain + 0.5) / number - 0.5)
        names = ("", "") if chain else ("chains, ± 1 sd", "lower edge")
        style: dict[str, Any] = {"fmt": ".-", "color": "C0", "lw": 0.6, "elinewidth": 1, "ms": 4}
        ax.errorbar(beside, at["energy"], at["energy_sd"], label=names[0], **style)
        if "lower_edge" in at:
            ax.plot(beside, at["lower_edge"], "C1_", mew=1.5, label=names[1])
    legend_inside(ax)
    ax.set_ylabel("energy (nats)")


def _plain_logarithms(ax: Axes) -> None:
    """A logarithmic axis whose numbers are 0.1, 0.2, 0.5 and so on, not powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    ax.set_yscale("log")
    low, high = ax.get_ylim()
    few = (1, 2, 5) if high < 300 * low else (1,)
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 4, 6) if high < 10 * low else few))
    ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def name_stages(ax: Axes, group: xr.Dataset) -> None:
    """The names of the stages along the axis."""
    names = [str(name) for name in group["stage"].values]
    ax.set_xticks(np.arange(len(names)), names, rotation=30, ha="right", rotation_mode="anchor")


def _warmup(data: Any) -> xr.Dataset:
    """The group `warmup` of a run or of an InferenceData."""
    group: Any = None
    if is_mcmc(data):
        group = warmup_dataset(FinishedRun.of(data))
    elif "warmup" in getattr(data, "children", data):
        group = data["warmup"]
        group = group.to_dataset() if isinstance(group, xr.DataTree) else group
    if group is None:
        takes = "a run whose warm-up had something to find"
        raise checks.fail("data", type(data).__name__, takes)
    return group
