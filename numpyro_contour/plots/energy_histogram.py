"""Visits to the energy bins, compared with theta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.plots.shared import (
    Figsize,
    bin_edges,
    contour_evidence,
    legend_inside,
    one_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_energy_histogram(data: Any, ax: Axes | None = None, figsize: Figsize = None) -> Axes:
    r"""How often each energy bin was visited, compared with its estimated probability theta.

    .. math:: h_i = \frac1C \sum_c \frac{n_{ci}}{\sum_j n_{cj}}, \qquad
              \bar\theta_i = \frac1C \sum_c \theta_c(i), \qquad
              f_i = \frac1C \sum_c \frac{\theta_c(i)^{1 - \zeta}}
                    {\sum_{j: n_{cj} > 0} \theta_c(j)^{1 - \zeta}}

    with :math:`n_{ci}` the visits of chain c to bin i since its partition was set, including
    the end of the warm-up. Where visits and theta differ, the contour run flattened the density.
    The curve f is the flattened density that the chain should visit if its last theta were right:
    visits that follow f confirm theta, and visits that stay near theta show that theta is not
    learnt yet. With
    `random_field="scalable"`, whose theta tends to :math:`\text{mass}^{1/\zeta}`, f is flat.
    Chains with different partitions are drawn one by one.

    Args:
        data: what `to_inference_data` returns, or an `MCMC` with a contour kernel, after `run`.
        ax: matplotlib axes. None (default) for new ones.
        figsize: width and height of a new figure in inches. None (default) for matplotlib's.

    Returns:
        The axes: shares of visits filled, theta as a line and f as a dashed line, both only for
        visited bins, on a log scale, against the potential energy in nats.

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
    edges, visits, theta, flattened = _histograms(contour_evidence(data))
    ax = one_axes(ax, figsize)
    # Theta of bins that were never visited only shows how long ago the run began.
    seen = visits > 0
    alpha, width = (0.35, 1.5) if len(edges) == 1 else (0.2, 0.8)
    style: dict[str, Any]
    for i in range(len(edges)):
        names = ("", "", "") if i else ("visits", "theta", "flattened theta")
        style = {"fill": True, "color": "C0", "alpha": alpha}
        ax.stairs(visits[i], edges[i], label=names[0], **style)
        style = {"baseline": None, "lw": width, "color": "C1", "zorder": 2}
        ax.stairs(np.where(seen[i], theta[i], np.nan), edges[i], label=names[1], **style)
        style = {"baseline": None, "lw": 0.8, "ls": "--", "color": "0.2", "zorder": 2.5}
        ax.stairs(np.where(seen[i], flattened[i], np.nan), edges[i], label=names[2], **style)
    ax.set_yscale("log")
    ax.set_ylim(min(x[seen].min() for x in (visits, theta, flattened)) / 3, 1.0)
    left, right = edges.min(), edges[:, 1:][seen].max()
    ax.set_xlim(left - 0.02 * (right - left), right + 0.02 * (right - left))
    ax.set_xlabel("potential energy (nats)")
    ax.set_ylabel("share of the bin")
    legend_inside(ax)
    return ax


def _histograms(evidence: Evidence) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Edges, visits, theta, flattened theta: one row, or one per chain if partitions differ."""
    edges = bin_edges(evidence)
    counts, theta = (evidence.per_chain("energy_partition", name) for name in ("visits", "theta"))
    assert counts is not None
    assert theta is not None
    visits = counts / counts.sum(axis=1, keepdims=True)
    even = evidence.settings.get("random_field") == "scalable"
    power = 0.0 if even else 1.0 - float(evidence.settings["zeta"])
    flattened = np.where(counts > 0, theta**power, 0.0)
    flattened /= flattened.sum(axis=1, keepdims=True)
    if np.all(edges == edges[0]):
        means = (x.mean(axis=0, keepdims=True) for x in (visits, theta, flattened))
        return (edges[:1], *means)
    return edges, visits, theta, flattened
