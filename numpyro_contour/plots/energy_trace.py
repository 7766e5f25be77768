"""Potential energies over the draws."""

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
    given_axes,
    legend_beside,
    new_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CHAINS = 4
_EDGES = 20
#: shares of the draws and of the windows that lie within the axes
_DRAWS_INSIDE, _WINDOWS_INSIDE = 0.995, 0.9


def plot_energy_trace(
    data: Any,
    chains: Sequence[int] | None = None,
    axes: Any = None,
    figsize: Figsize = None,
) -> np.ndarray:
    """The potential energy of the draws, chain by chain, to show how chains cross barriers.

    The band shows the window that a draw stands for, from the lowest to the highest energy that the
    run saw in it. Energies of the draws are exact where exact ones are known, so with minibatches
    they may leave the band. "Bouncy moves" are draws at which the gradient multiplier
    is negative: the chain is pushed uphill.

    Args:
        data: what `to_inference_data` returns, or an `MCMC` with a contour kernel, after `run`.
        chains: numbers of the chains to draw, from 0. None (default) for the first four.
        axes: one matplotlib axes per chain. None (default) for those of a new figure.
        figsize: width and height of a new figure in inches. None (default) for 8 by about 2 per
            chain.

    Returns:
        The axes, (chains,), potential energy in nats against the number of the draw: energies as
        a line, the band, edges of energy bins (only some of them if there are more than 20) as
        faint lines, bouncy moves as points, and the typical energy, which is the weighted median of
        all chains, as a dashed line. All axes have the same limits; the highest 10 % of windows and
        0.5 % of draws may lie outside them.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: `data` is not a run of this package, or has no theta; a chain does not exist; or
            the number of axes is not the number of chains.

    Source: Deng, Lin and Liang (2020) for bouncy moves.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from matplotlib.figure import Figure
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition
        >>> from numpyro_contour.plots import plot_energy_trace
        >>> kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=100, num_samples=100, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> (ax,) = plot_energy_trace(mcmc, axes=Figure().subplots())
        >>> len(ax.lines[0].get_ydata())
        100
    """
    evidence = contour_evidence(data)
    chosen = _checked_chains(chains, len(evidence.energy))
    if axes is None:
        height = 0.7 + 1.8 * len(chosen)
        figsize = figsize or (8.0, max(height, 3.0))
        drawn = new_axes(len(chosen), 1, figsize, sharex=True, sharey=True)[:, 0]
    else:
        drawn = given_axes(axes, len(chosen))
    low, high = _limits(evidence, chosen)
    for chain, ax in zip(chosen, drawn):
        _trace(evidence, chain, ax)
        _bins(evidence, chain, ax, low, high)
        ax.set_ylim(low, high)
        ax.set_ylabel(f"chain {chain}\nenergy (nats)")
    drawn[-1].set_xlabel("draw")
    legend_beside(drawn[0])
    return drawn


def _checked_chains(chains: Sequence[int] | None, number: int) -> np.ndarray:
    if chains is None:
        return np.arange(min(number, _CHAINS))
    chosen = np.asarray(chains)
    integers = chosen.ndim == 1 and chosen.size > 0 and chosen.dtype.kind in "iu"
    if not integers or chosen.min() < 0 or chosen.max() >= number:
        raise checks.fail("chains", chains, f"numbers of chains from 0 to {number - 1}")
    return chosen


def _trace(evidence: Evidence, chain: int, ax: Axes) -> None:
    """One chain on its axes."""
    draws, energy = draw_numbers(evidence.stats), evidence.energy[chain]
    low, high = (ends[chain] for ends in _windows(evidence))
    style: dict[str, Any]
    ax.plot(draws, energy, color="C0", lw=0.7, label="draws")
    # Opaque, so that the edges of the bins do not show through.
    ax.fill_between(draws, low, high, color="#d2e3f0", lw=0, label="windows")
    multiplier = evidence.per_draw("gradient_multiplier")
    if multiplier is not None:
        bouncy = multiplier[chain] < 0
        style = {"marker": "o", "ms": 2.5, "ls": "", "color": "C3", "zorder": 3}
        ax.plot(draws[bouncy], energy[bouncy], label="bouncy moves", **style)
    if evidence.weighed:
        style = {"color": "black", "lw": 1.0, "ls": "--"}
        ax.axhline(evidence.typical_energy, label="typical energy", **style)
    ax.set_xlim(draws[0], draws[-1])


def _windows(evidence: Evidence) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest energies in the windows of the draws, (chains, draws)."""
    low, high = (evidence.per_draw(f"{end}_energy") for end in ("lowest", "highest"))
    if low is None or high is None:
        return evidence.energy, evidence.energy
    return low.astype(np.float64), high.astype(np.float64)


def _limits(evidence: Evidence, chains: np.ndarray) -> tuple[float, float]:
    """Limits from the lowest energy up to where few draws and windows reach; peaks lie outside."""
    low, high = (ends[chains] for ends in _windows(evidence))
    energy = evidence.energy[chains]
    bottom = float(min(low.min(), energy.min()))
    tops = np.quantile(high, _WINDOWS_INSIDE), np.quantile(energy, _DRAWS_INSIDE)
    top = float(max(tops))
    margin = 0.05 * (top - bottom) or 0.5
    return bottom - margin, top + margin


def _bins(evidence: Evidence, chain: int, ax: Axes, low: float, high: float) -> None:
    """Edges of the bins within the limits, or only some of them if there are too many."""
    edges = bin_edges(evidence)[chain]
    edges = edges[(low <= edges) & (edges <= high)]
    stride = max(1, -(-len(edges) // _EDGES))
    draws = draw_numbers(evidence.stats)
    style: dict[str, Any] = {"colors": "0.85", "lw": 0.6, "zorder": 0}
    label = "bin edges" if stride == 1 else "some bin edges"
    ax.hlines(edges[::stride], draws[0], draws[-1], label=label, **style)
