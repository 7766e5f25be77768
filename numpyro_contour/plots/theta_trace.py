"""Theta over the draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from numpyro_contour import checks
from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.plots.shared import (
    Figsize,
    bin_edges,
    contour_evidence,
    draw_numbers,
    legend_beside,
    one_axes,
    spread,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LEAST_SHARE = 1e-3
_BINS = 6


def plot_theta_trace(
    data: Any, bins: Sequence[int] | None = None, ax: Axes | None = None, figsize: Figsize = None
) -> Axes:
    """Theta of some energy bins over the draws; theta is learnt when its lines are level and agree.

    Args:
        data: what `to_inference_data` returns, or an `MCMC` with a contour kernel, after `run`;
            theta must have been collected.
        bins: numbers of bins, from 0. None (default) for six, evenly spaced among those whose last
            theta, averaged over chains, is at least 0.001.
        ax: matplotlib axes. None (default) for new ones.
        figsize: width and height of a new figure in inches. None (default) for 8 by 4.

    Returns:
        The axes: one colour per bin, one thin line per chain, theta on a log scale against the
        number of the draw. The legend gives the ends of the bins in nats. If the partitions of the
        chains differ, these are the means of their ends, and the theta of each chain is spread onto
        them, so that lines of one colour are for the same energies.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: `data` is not a run of this package, has no theta or did not collect it, or a
            bin does not exist.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from matplotlib.figure import Figure
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition
        >>> from numpyro_contour.plots import plot_theta_trace
        >>> kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=100, num_samples=100, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> ax = plot_theta_trace(mcmc, bins=[0, 3], ax=Figure().subplots())
        >>> len(ax.lines)
        2
    """
    evidence = contour_evidence(data)
    if "log_theta" not in evidence.stats:
        takes = "a run whose theta was collected, by the kernel and by `to_inference_data`"
        raise checks.fail("data", "`collect_theta=False`", takes)
    last = evidence.per_chain("energy_partition", "theta")
    assert last is not None
    chosen = _default_bins(last) if bins is None else _checked_bins(bins, last.shape[1])
    dim = evidence.stats["log_theta"].transpose("chain", ..., "bin").dims[1]
    ax = one_axes(ax, figsize or (8.0, 4.0))
    from matplotlib import colormaps

    colours = colormaps["viridis"](np.linspace(0.0, 0.85, len(chosen)))
    draws = draw_numbers(evidence.stats, str(dim))
    names, title = bin_names(bin_edges(evidence), chosen)
    theta = _theta_of(evidence, chosen)
    for place, (colour, name) in enumerate(zip(colours, names)):
        for chain, values in enumerate(theta[..., place]):
            ax.plot(draws, values, color=colour, lw=0.8, label="" if chain else name)
    ax.set_yscale("log")
    ax.set_xlabel("draw")
    ax.set_ylabel("theta (probability of the bin)")
    legend_beside(ax, title=title)
    return ax


def _theta_of(evidence: Evidence, bins: np.ndarray) -> np.ndarray:
    """Theta of some bins, (chains, draws, bins): of the mean bins if the partitions differ."""
    log_theta, edges = evidence.log_theta, bin_edges(evidence)
    assert log_theta is not None
    if np.all(edges == edges[0]):
        return np.exp(log_theta[..., bins].astype(np.float64))
    mean = edges.mean(axis=0)
    theta = (np.exp(of_chain.astype(np.float64)) for of_chain in log_theta)
    return np.stack([spread(x, own, mean)[:, bins] for x, own in zip(theta, edges)])


def bin_names(edges: np.ndarray, chosen: np.ndarray) -> tuple[list[str], str]:
    """Names of bins for a legend and its title: the energies of their ends.

    If the partitions of the chains differ, the means of the ends are given.
    """
    same = np.all(edges == edges[0])
    mean = edges.mean(axis=0)
    digits = max(0, 1 - int(np.floor(np.log10(mean[1] - mean[0]))))
    ends = [(mean[place], mean[place + 1]) for place in chosen]
    names = [f"{low:.{digits}f} to {high:.{digits}f}" for low, high in ends]
    return names, "bin (nats)" if same else "bin (nats,\nmean ends)"


def _default_bins(last: np.ndarray) -> np.ndarray:
    """Bins evenly spaced among those whose theta is not negligible."""
    matter = np.flatnonzero(last.mean(axis=0) >= _LEAST_SHARE)
    return matter[np.unique(np.linspace(0, len(matter) - 1, _BINS).round().astype(int))]


def _checked_bins(bins: Sequence[int], number: int) -> np.ndarray:
    chosen = np.asarray(bins)
    integers = chosen.ndim == 1 and chosen.size > 0 and chosen.dtype.kind in "iu"
    if not integers or chosen.min() < 0 or chosen.max() >= number:
        raise checks.fail("bins", bins, f"numbers of bins from 0 to {number - 1}")
    return chosen
