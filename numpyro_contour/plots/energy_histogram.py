"""Visits to the energy bins, compared with theta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.plots.shared import (
    Figsize,
    bin_edges,
    common_edges,
    contour_evidence,
    joined_edges,
    legend_inside,
    one_axes,
    spread,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Visits of a chain, in the mean, below which bins are joined.
_LEAST_VISITS = 5.0
# The axis ends so many times below the rarest visits: theta may fall by a factor of e a nat.
_ROOM = 1e3


def plot_energy_histogram(data: Any, ax: Axes | None = None, figsize: Figsize = None) -> Axes:
    r"""How often energies were visited, compared with their estimated probability theta.

    .. math:: h_B = \frac{1}{|B|\,C} \sum_{i \in B, c} \frac{n_{ci}}{\sum_j n_{cj}}, \qquad
              \bar\theta_B = \frac{1}{|B|\,C} \sum_{i \in B, c} \theta_c(i), \qquad
              f_B = \frac{1}{|B|\,C} \sum_{i \in B, c} \frac{\theta_c(i)^{1 - \zeta}}
                    {\sum_{j: n_{cj} > 0} \theta_c(j)^{1 - \zeta}}

    with :math:`n_{ci}` the visits of chain c to bin i since its partition was set, including
    the end of the warm-up, and sums over bins that the chain visited. Where visits and theta
    differ, the contour run flattened the density.
    The curve f is the flattened density that the chain should visit if its last theta were right:
    visits that follow f confirm theta, and visits that stay near theta show that theta is not
    learnt yet. With
    `random_field="scalable"`, whose theta tends to :math:`\text{mass}^{1/\zeta}`, f is flat.

    A drawn bin B joins neighbours until a chain has five visits to it in the mean, so bins are wide
    where visits are few. If partitions of the chains differ, their bins are first spread onto
    common ones.

    Args:
        data: what `to_inference_data` returns, or an `MCMC` with a contour kernel, after `run`.
        ax: matplotlib axes. None (default) for new ones.
        figsize: width and height of a new figure in inches. None (default) for matplotlib's.

    Returns:
        The axes: visits filled, theta as a line and f as a dashed line, means of the chains, as
        shares per nat on a log scale, against the potential energy in nats. Bands reach from the
        lowest to the highest chain. The axis ends a factor of 1,000 below the rarest visits, where
        theta may leave it.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: `data` is not a run of this package, or it has no theta.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from matplotlib.figure import Figure
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition
        >>> from numpyro_contour.plots import plot_energy_histogram
        >>> kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=100, num_samples=100, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> ax = plot_energy_histogram(mcmc, ax=Figure().subplots())
        >>> ax.get_xlabel()
        'potential energy (nats)'
    """
    edges, *masses = _histograms(contour_evidence(data))
    visits, theta, flattened = (of_chains / np.diff(edges) for of_chains in masses)
    ax = one_axes(ax, figsize)
    style: dict[str, Any] = {"baseline": None, "lw": 1.5}
    ax.stairs(visits.mean(0), edges, fill=True, color="C0", alpha=0.25, label="visits")
    ax.stairs(visits.mean(0), edges, color="C0", **style | {"lw": 1.0})
    _band(ax, visits, edges, "C0")
    ax.stairs(theta.mean(0), edges, color="C1", label="theta", **style)
    _band(ax, theta, edges, "C1")
    ax.stairs(flattened.mean(0), edges, color="0.2", ls="--", label="flattened theta", **style)
    if len(visits) > 1:
        ax.fill_between([], [], color="0.5", alpha=0.4, lw=0, label="range of the chains")
    ax.set_yscale("log")
    means = np.stack([x.mean(0) for x in (visits, flattened, theta)])
    ax.set_ylim(means[:2][means[:2] > 0].min() / _ROOM, 1.5 * means.max())
    margin = 0.02 * (edges[-1] - edges[0])
    ax.set_xlim(edges[0] - margin, edges[-1] + margin)
    ax.set_xlabel("potential energy (nats)")
    ax.set_ylabel("share per nat")
    legend_inside(ax, headroom=0.22, ncols=2)
    return ax


def _band(ax: Axes, of_chains: np.ndarray, edges: np.ndarray, colour: str) -> None:
    """From the lowest to the highest chain."""
    if len(of_chains) > 1:
        style: dict[str, Any] = {"fill": True, "color": colour, "alpha": 0.4, "lw": 0}
        ax.stairs(of_chains.max(0), edges, baseline=of_chains.min(0), **style)


def _histograms(evidence: Evidence) -> tuple[np.ndarray, ...]:
    """Edges of the bins that are drawn, and visits, theta and flattened theta, (chains, bins).

    Each is a share of the whole of its chain.
    """
    edges = bin_edges(evidence)
    counts, theta = (evidence.per_chain("energy_partition", name) for name in ("visits", "theta"))
    assert counts is not None
    assert theta is not None
    seen = counts > 0
    even = evidence.settings.get("random_field") == "scalable"
    power = 0.0 if even else 1.0 - float(evidence.settings["zeta"])
    flattened = np.where(seen, theta**power, 0.0)
    flattened /= flattened.sum(axis=1, keepdims=True)
    fine = common_edges(edges)
    total = sum(spread(n, of_chain, fine) for n, of_chain in zip(counts, edges))
    joined = joined_edges(fine, np.asarray(total), _LEAST_VISITS * len(counts))
    shares = counts / counts.sum(axis=1, keepdims=True)
    # Theta of bins that a chain never visited only shows how long ago the run began.
    masses = (shares, np.where(seen, theta, 0.0), flattened)
    drawn = (np.stack([spread(m, e, joined) for m, e in zip(x, edges)]) for x in masses)
    return (joined, *drawn)
