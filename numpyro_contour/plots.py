"""Figures of a run. Needs matplotlib: `pip install numpyro_contour[plots]`.

Each function draws on the axes that it is given, or on those of a new pyplot figure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from numpyro_contour import checks
from numpyro_contour.full_energies import energy_offsets
from numpyro_contour.runs import kernel_of
from numpyro_contour.warmup_report import warmup_dataset

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_energy_histogram(run: Any, ax: Axes | None = None) -> Axes:
    r"""How often each energy bin was visited, beside its estimated probability theta.

    .. math:: h_i = \frac1C \sum_c \frac{n_{ci}}{\sum_j n_{cj}}, \qquad
              \bar\theta_i = \frac1C \sum_c \theta_c(i)

    with :math:`n_{ci}` the visits of chain c to bin i since its start, warm-up included. Where
    the two part, the contour run flattened the density. Chains whose partitions differ are drawn
    one by one.

    Args:
        run: a `numpyro.infer.MCMC` with a contour kernel, after `run`; or its `last_state`.
        ax: matplotlib axes. None (default) for new ones.

    Returns:
        The axes: shares of visits filled and theta as a line, on a log scale, against the
        potential energy in nats.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: `run` has not been run, or its kernel has no theta.

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
    edges, visits, theta = _energy_histogram(run)
    ax = _axes(ax)
    for i in range(len(edges)):
        first = i == 0
        ax.stairs(
            visits[i], edges[i], fill=True, color="C0", alpha=0.35, label="visits" if first else ""
        )
        ax.stairs(
            theta[i], edges[i], baseline=None, color="C1", label="theta" if first else "", lw=1.5
        )
    # Theta of bins that were never visited only says how long ago the run began.
    lowest = min(visits[visits > 0].min(), theta[visits > 0].min())
    ax.set_yscale("log")
    ax.set_ylim(lowest / 3, 1.0)
    left, right = edges.min(), edges[:, 1:][visits > 0].max()
    ax.set_xlim(left - 0.02 * (right - left), right + 0.02 * (right - left))
    ax.set_xlabel("potential energy (nats)")
    ax.set_ylabel("share of the bin")
    ax.legend()
    return ax


def plot_warmup(run: Any, axes: Any = None) -> Any:
    """What each stage of the warm-up found: potential energy, step size and acceptance.

    A warm-up that worked has a level energy after the descent, a step size that no longer changes
    after the windows of tuning, an acceptance near 0.9 and a lower edge of the partition just
    below the energies.

    Args:
        run: a `numpyro.infer.MCMC` with a kernel that had something to find, after `run`; or what
            `to_inference_data` made of it.
        axes: three matplotlib axes. None (default) for those of a new figure.

    Returns:
        The three axes: mean potential energy with its standard deviation and, for contour kernels,
        the lower edge of the partition; step size; mean acceptance statistic. One line a chain.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: `run` has no warm-up in which anything was found, or there are not three axes.

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
    group = _warmup(run)
    if axes is None:
        from matplotlib import pyplot as plt

        axes = plt.subplots(3, 1, sharex=True, layout="constrained")[1]
    if np.shape(axes) != (3,):
        raise checks.fail("axes", np.shape(axes), "three matplotlib axes")
    stages = np.arange(group.sizes["stage"])
    for chain in range(group.sizes["chain"]):
        at = group.isel(chain=chain)
        axes[0].errorbar(stages, at["energy"], at["energy_sd"], color="C0", lw=1, capsize=2)
        if "lower_edge" in at:
            axes[0].plot(stages, at["lower_edge"], "C1_", label="" if chain else "lower edge")
        axes[1].plot(stages, at["step_size"], "C0.-", lw=1)
        axes[2].plot(stages, at["acceptance"], "C0.-", lw=1)
    if "lower_edge" in group:
        axes[0].legend()
    axes[0].set_ylabel("energy (nats)")
    axes[1].set_ylabel("step size")
    axes[1].set_yscale("log")
    axes[2].set_ylabel("acceptance")
    axes[2].axhline(0.9, color="0.7", lw=1, ls="--")
    axes[2].set_xticks(stages, [str(name) for name in group["stage"].values], rotation=30)
    return axes


def _warmup(run: Any) -> Any:
    """The group `warmup` of a run or of an InferenceData."""
    group: Any = None
    if hasattr(run, "last_state"):
        kernel_of(run)
        group = warmup_dataset(run)
    elif "warmup" in getattr(run, "children", run):
        group = run["warmup"]
    if group is None:
        raise checks.fail("run", type(run).__name__, "a run whose warm-up had something to find")
    return group


def plot_predictions(
    observed: Any,
    predicted: Any,
    lower: Any,
    upper: Any,
    unit: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Predictions with their intervals against what was observed.

    Args:
        observed: observations, (rows,).
        predicted: predictive means, (rows,), in the unit of the observations.
        lower: lower ends of the predictive intervals, (rows,).
        upper: upper ends of the predictive intervals, (rows,).
        unit: unit for the labels. None (default) for none.
        ax: matplotlib axes. None (default) for new ones.

    Returns:
        The axes; rows whose interval misses the observation stand out.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: the shapes differ, or a lower end is above its upper end.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from numpyro_contour.plots import plot_predictions
        >>> ax = plot_predictions([1.0, 2.0], [1.1, 1.7], [0.5, 1.2], [1.6, 2.3], unit="MPa",
        ...                       ax=Figure().subplots())
        >>> ax.get_xlabel()
        'observed (MPa)'
    """
    y = np.asarray(observed, np.float64)
    if y.ndim != 1:
        raise checks.fail("observed", y.shape, "an array of shape (rows,)")
    ends = {"predicted": predicted, "lower": lower, "upper": upper}
    arrays = {name: np.asarray(value, np.float64) for name, value in ends.items()}
    for name, array in arrays.items():
        if array.shape != y.shape:
            raise checks.fail(name, array.shape, f"an array of the shape of `observed`, {y.shape}")
    if not np.all(arrays["lower"] <= arrays["upper"]):
        raise ValueError("`lower` takes values of at most those of `upper`, but some are above.")
    ax = _axes(ax)
    inside = (arrays["lower"] <= y) & (y <= arrays["upper"])
    for rows, colour, label in ((inside, "C0", "interval holds it"), (~inside, "C3", "misses it")):
        ax.vlines(y[rows], arrays["lower"][rows], arrays["upper"][rows], colors=colour, alpha=0.5)
        ax.plot(y[rows], arrays["predicted"][rows], ".", color=colour, label=label)
    ax.axline((y.mean(), y.mean()), slope=1, color="black", lw=0.8)
    suffix = f" ({unit})" if unit else ""
    ax.set_xlabel("observed" + suffix)
    ax.set_ylabel("predicted" + suffix)
    ax.legend()
    return ax


def plot_weighted_draws(samples: Any, weights: Any, ax: Axes | None = None) -> Axes:
    """Draws in two dimensions, each with an area in proportion to its importance weight.

    Args:
        samples: positions, (..., 2).
        weights: importance weights of at least 0, (...,): the exponentials of the log weights of
            `weighted_samples`.
        ax: matplotlib axes. None (default) for new ones.

    Returns:
        The axes.

    Raises:
        ImportError: matplotlib is not installed.
        ValueError: the shapes do not fit, or no weight is above 0.

    Example:
        >>> from matplotlib.figure import Figure
        >>> from numpyro_contour.plots import plot_weighted_draws
        >>> ax = plot_weighted_draws([[0.0, 1.0], [2.0, 3.0]], [1.0, 3.0], Figure().subplots())
        >>> areas = ax.collections[0].get_sizes()
        >>> print(areas[1] / areas[0])
        3.0
    """
    positions, weight = np.asarray(samples, np.float64), np.asarray(weights, np.float64)
    if positions.ndim < 2 or positions.shape[-1] != 2:
        raise checks.fail("samples", positions.shape, "positions of shape (..., 2)")
    if weight.shape != positions.shape[:-1]:
        raise checks.fail("weights", weight.shape, f"weights of the shape {positions.shape[:-1]}")
    if not (np.all(weight >= 0) and weight.sum() > 0):
        raise ValueError("`weights` takes numbers of at least 0 and not only zeros.")
    ax = _axes(ax)
    # A mean area of 4 square points leaves thousands of draws apart.
    area = 4 * weight.ravel() / weight.mean()
    ax.scatter(positions[..., 0], positions[..., 1], s=area, alpha=0.3, linewidths=0)
    ax.set_aspect("equal")
    ax.set_xlabel("x(1)")
    ax.set_ylabel("x(2)")
    return ax


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Plots need matplotlib: `pip install numpyro_contour[plots]`.") from None
    return plt.subplots()[1]


def _energy_histogram(run: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges, shares of visits and theta: one row, or one a chain where the partitions differ."""
    state = getattr(run, "last_state", run)
    if state is None:
        raise ValueError("`run` takes an MCMC after `run`, but it has not been run.")
    if not (hasattr(state, "log_theta") and hasattr(state, "partition")):
        raise ValueError(
            "`run` takes an MCMC with a contour kernel or its last state, "
            f"but got {type(state).__name__}."
        )
    edges = np.atleast_2d(np.asarray(state.partition.edges, np.float64))
    edges = edges + energy_offsets(state)[:, None]
    theta = np.exp(np.atleast_2d(np.asarray(state.log_theta, np.float64)))
    counts = np.atleast_2d(np.asarray(state.sampler.theta.bin_counts, np.float64))
    if counts.sum(axis=1).min() == 0:
        raise ValueError("`run` takes a state after at least one step, but it has none.")
    visits = counts / counts.sum(axis=1, keepdims=True)
    if np.all(edges == edges[0]):
        return edges[:1], visits.mean(axis=0, keepdims=True), theta.mean(axis=0, keepdims=True)
    return edges, visits, theta
