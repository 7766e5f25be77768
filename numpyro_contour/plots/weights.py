"""How uneven the weights are."""

from __future__ import annotations

from typing import Any

import numpy as np

from numpyro_contour.output.resample import weighted_groups
from numpyro_contour.plots.shared import SMALL_LEGEND, Figsize, grid_axes
from numpyro_contour.statistics.tails import pareto_khat
from numpyro_contour.statistics.weights import kish_share, normalise

# Draws of less weight than this lie outside the axes: any number of them counts for nothing.
_LIGHTEST = 1e-4


def plot_weights(data: Any, axes: Any = None, figsize: Figsize = None) -> np.ndarray:
    r"""The weights of the draws, heaviest first, and their cumulative share of the total.

    .. math:: L(k / n) = \sum_{i \le k} w_{(i)} \Big/ \sum_i w_i, \qquad
              w_{(1)} \ge w_{(2)} \ge \dots \ge w_{(n)}

    On the diagonal all weights are equal. A curve that rises steeply shows that few draws carry
    most of the weight. The legend shows this too, by the Kish share and the Pareto k-hat of all
    chains.

    Args:
        data: what `to_inference_data` returns, or an `MCMC` with a kernel of this package, after
            `run`.
        axes: two matplotlib axes. None (default) for those of a new figure.
        figsize: width and height of a new figure in inches. None (default) for 9 by 3.4.

    Returns:
        The two axes, (2,), against the share of the draws, heaviest first: weights of mean 1 in
        each chain, on a log scale down to 1e-4; and L. Thin lines are single chains, and
        the thick line is for all of them.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: there are no weights, a chain has none above 0, or there are not two axes.

    Source: Lorenz (1905), with the order reversed; Kish (1965); Vehtari et al. (2024).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from matplotlib.figure import Figure
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition
        >>> from numpyro_contour.plots import plot_weights
        >>> kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=100, num_samples=100, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> axes = plot_weights(mcmc, axes=Figure().subplots(1, 2))
        >>> axes[1].get_ylabel()
        'share of the weight'
    """
    log_weight = weighted_groups(data)["sample_stats"]["log_weight"].transpose("chain", "draw")
    log_weights, weights = normalise(log_weight.values).log_weights, normalise(log_weight).weights
    axes = grid_axes(axes, 2, 2, figsize or (9.0, 3.4))
    single = len(weights) == 1
    if not single:
        for chain, values in enumerate(weights):
            _curves(axes, values, color="C0", lw=0.7, alpha=0.6, label="" if chain else "chains")
    _curves(axes, weights.ravel(), color="C0", lw=2.0, label="chain" if single else "all chains")
    reference = {"color": "black", "lw": 0.8, "ls": "--", "label": "equal weights"}
    axes[0].axhline(1.0, **reference)
    axes[1].plot([0.0, 1.0], [0.0, 1.0], **reference)
    axes[0].set_yscale("log")
    axes[0].set_ylim(bottom=max(axes[0].get_ylim()[0], _LIGHTEST))
    axes[0].set_ylabel("weight (mean 1)")
    axes[1].set_ylabel("share of the weight")
    for ax in axes:
        ax.set_xlim(0.0, 1.0)
        ax.set_xlabel("share of the draws, heaviest first")
    axes[1].set_ylim(0.0, 1.02)
    khat = pareto_khat(log_weights)
    tail = f"{khat:.2f}" if np.isfinite(khat) else "none"
    title = f"Kish share {kish_share(log_weights):.2f}\nPareto k-hat {tail}"
    axes[1].legend(loc="lower right", title=title, alignment="left", **SMALL_LEGEND)
    return axes


def _curves(axes: np.ndarray, weights: np.ndarray, **style: Any) -> None:
    """Sorted weights and their cumulative share."""
    falling = np.sort(weights)[::-1]
    number = len(falling)
    above = falling[falling > 0]
    axes[0].plot(np.arange(1, len(above) + 1) / number, above, **style)
    reached = np.append(0.0, np.cumsum(falling)) / falling.sum()
    axes[1].plot(np.arange(number + 1) / number, reached, **style)
