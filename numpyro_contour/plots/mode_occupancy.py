"""The modes that the chains are in, and the weights of the modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

from numpyro_contour import checks
from numpyro_contour.output.equal_weights import weights_of
from numpyro_contour.output.resample import weighted_groups
from numpyro_contour.plots.shared import (
    Figsize,
    draw_numbers,
    given_axes,
    legend_beside,
    mode_colours,
    new_axes,
)

_MOST = 20


def plot_mode_occupancy(
    data: Any, modes: str | Callable, axes: Any = None, figsize: Figsize = None
) -> np.ndarray:
    r"""The share of each mode in the course of the run, and the mode that each chain was in.

    .. math:: s_{cm}(t) = \frac{\sum_{d \le t} w_{cd} 1\{m_{cd} = m\}}{\sum_{d \le t} w_{cd}},
              \qquad s_m(t) = \frac1C \sum_c s_{cm}(t)

    If all chains move between the modes, and the shares are level and agree, the run has mixed over
    these modes. The figure cannot show modes that `modes` does not know.

    Args:
        data: what `to_inference_data` returns, or an `MCMC` with a kernel of this package, after
            `run`.
        modes: a function of the posterior, an `xarray.Dataset` with dimensions (chain, draw, ...),
            that returns a label for each draw, an `xarray.DataArray` or an array (chains, draws)
            of integers or booleans; or the name of a variable that holds such labels.
        axes: two matplotlib axes. None (default) for those of a new figure.
        figsize: width and height of a new figure in inches. None (default) for 8 by 5.

    Returns:
        The two axes, (2,), against the number of the draw: weighted shares, a thin line per chain
        and a thick line for their mean once all chains have weight; and a row per chain in the
        colours of the modes, without weights.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: there are no weights, the variable does not exist, the labels are not integers
            or booleans (chains, draws) or are more than 20, or there are not two axes.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from matplotlib.figure import Figure
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition
        >>> from numpyro_contour.plots import plot_mode_occupancy
        >>> kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=100, num_samples=100, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> axes = plot_mode_occupancy(mcmc, lambda posterior: posterior["z"] > 0,
        ...                            axes=Figure().subplots(2, 1))
        >>> [text.get_text() for text in axes[0].get_legend().get_texts()]
        ['False', 'True']
    """
    groups = weighted_groups(data)
    weights = weights_of(groups)
    labels = _labels(groups["posterior"], modes, weights.shape)
    found, places = np.unique(labels, return_inverse=True)
    places = places.reshape(labels.shape)
    if len(found) > _MOST:
        raise checks.fail("modes", f"{len(found)} labels", f"at most {_MOST} labels")
    if axes is None:
        grid = {"sharex": True, "height_ratios": (2, 1)}
        above, below = axes = new_axes(2, 1, figsize or (8.0, 5.0), **grid)[:, 0]
    else:
        above, below = axes = given_axes(axes, 2)
        above.set_xlabel("draw")  # they may stand side by side
    from matplotlib.colors import ListedColormap

    colours = mode_colours(len(found))
    draws = draw_numbers(groups["posterior"])
    for mode, (label, colour) in enumerate(zip(found, colours)):
        shares = running_shares(places == mode, weights)
        above.plot(draws, shares.T, color=colour, lw=0.6, alpha=0.5)
        above.plot(draws, shares.mean(axis=0), color=colour, lw=2.0, label=str(label))
    above.set_ylim(-0.02, 1.02)
    above.set_ylabel("weighted share so far")
    legend_beside(above, title="mode")
    extent = (draws[0] - 0.5, draws[-1] + 0.5, len(places) - 0.5, -0.5)
    picture = {"cmap": ListedColormap(colours), "vmin": -0.5, "vmax": len(found) - 0.5}
    below.imshow(places, aspect="auto", interpolation="nearest", extent=extent, **picture)
    below.set_yticks(range(len(places)))
    below.set_ylabel("chain")
    for ax in (above, below):
        ax.set_xlim(*extent[:2])
    below.set_xlabel("draw")
    return axes


def running_shares(is_here: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The share of the weight so far in a mode, (chains, draws); NaN before any weight."""
    total = np.cumsum(weights, axis=1)
    here = np.cumsum(np.where(is_here, weights, 0.0), axis=1)
    return np.divide(here, total, out=np.full(total.shape, np.nan), where=total > 0)


def _labels(posterior: xr.Dataset, modes: str | Callable, shape: tuple[int, ...]) -> np.ndarray:
    """The mode of each draw, (chains, draws)."""
    if callable(modes):
        values = modes(posterior)
    elif modes in posterior:
        values = posterior[modes]
    else:
        takes = f"a function or one of the variables {list(posterior.data_vars)}"
        raise checks.fail("modes", modes, takes)
    if hasattr(values, "dims") and {"chain", "draw"} <= set(values.dims):
        values = values.transpose("chain", "draw", ...)
    array = np.asarray(values)
    if array.dtype.kind not in "biu" or array.shape != shape:
        takes = f"integer or boolean labels of the shape {shape} (chains, draws)"
        raise checks.fail("modes", f"{array.dtype} of shape {array.shape}", takes)
    return array
