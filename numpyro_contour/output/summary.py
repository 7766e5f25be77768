"""ArviZ's table of a posterior, and NumPyro's, with the weights counted."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import arviz as az
import numpy as np
import xarray as xr
from numpyro.infer import MCMC

from numpyro_contour import checks, diagnostics
from numpyro_contour.output.chosen_chains import Chains, chosen_places
from numpyro_contour.output.resample import resample, weighted_groups
from numpyro_contour.output.weighted_samples import weighted_samples
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.warmup_group import noise_text
from numpyro_contour.statistics.arviz_versions import from_datasets, summary_table, tail_levels
from numpyro_contour.statistics.estimates import checked_prob
from numpyro_contour.statistics.scalars import label as label_of
from numpyro_contour.statistics.weights import normalise

Statistic = Callable[[np.ndarray, np.ndarray], np.ndarray]


def summary(
    data: Any, var_names: Any = None, *, chains: Chains | None = None, **arguments: Any
) -> Any:
    r"""`az.summary` with weights: the same arguments, the same columns, the same rounding.

    Means, standard deviations, medians, intervals, Monte Carlo errors, effective sample sizes and
    R-hat are those of `numpyro_contour.diagnostics`. What has no weighted form there, functions of
    one's own (`stat_funcs`) and circular statistics (`circ_var_names`) of arviz 0.23, is computed
    by ArviZ from systematically resampled draws. On equal weights the table is ArviZ's own.

    Args:
        data: what `to_inference_data` returns, or an `MCMC` with a kernel of this package.
        var_names: names of variables, one or several, as `az.summary` takes them. None (default)
            for all.
        chains: numbers of the chains to take, one or several. None (default) for all that have any
            weight.
        **arguments: those of `az.summary` of the ArviZ that is installed: `filter_vars`, `group`,
            `coords`, `kind`, `fmt`, `round_to`, and `hdi_prob`, `stat_focus`, `stat_funcs`, ...
            (0.23) or `ci_prob`, `ci_kind`, ... (1.x). `group` takes any group with one draw for
            each posterior draw.

    Returns:
        A `pandas.DataFrame`, or an `xarray.Dataset` with `fmt="xarray"`.

    Raises:
        ValueError: there are no weights, or an argument is unknown; `az.summary` may raise others.

    Warns:
        UserWarning: a chain without any weight was left out.

    Source: as `weighted_mcse`, `weighted_ess` and `weighted_rhat`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition, summary
        >>> kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1, num_steps=10,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=200, num_samples=1000, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> table = summary(mcmc, kind="stats", round_to=3)
        >>> bool(abs(float(table.loc["z", "sd"]) - 1) < 0.15)
        True
    """
    checks.one_of("fmt", arguments.get("fmt", "wide"), ("wide", "long", "xarray"))
    groups, arguments = _of_chosen_draws(_groups(data, chains, arguments), arguments)
    group = arguments.get("group") or "posterior"
    if group not in groups or not {"chain", "draw"} <= set(groups[group].dims):
        known = [name for name, g in groups.items() if {"chain", "draw"} <= set(g.dims)]
        raise checks.fail("group", group, f"one of the groups of draws, {known}")
    log_weights = normalise(
        groups["sample_stats"]["log_weight"].transpose("chain", "draw")
    ).log_weights
    table = _layout(groups, var_names, arguments)
    circular = arguments.get("circ_var_names") or ()
    for name, column in table.data_vars.items():
        draws = _selected(groups[group][name], arguments.get("coords"))
        values = draws.transpose("chain", "draw", ...).values
        metric = column.dims[0]
        for label in column.coords[metric].values:
            statistic = _statistic(str(label), arguments)
            if statistic is None or (name in circular and not _is_diagnostic(str(label))):
                continue
            column.loc[{metric: label}] = statistic(values, log_weights)
    return summary_table(table, arguments)


def _groups(data: Any, chains: Chains | None, arguments: dict[str, Any]) -> dict[str, xr.Dataset]:
    """The groups of the chains that are counted; those that `coords` names count as named."""
    named = (arguments.get("coords") or {}).get("chain")
    if chains is None and named is not None and not isinstance(named, slice):
        chains = named
    return weighted_groups(data, chains)


def _of_chosen_draws(
    groups: dict[str, xr.Dataset], arguments: dict[str, Any]
) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    """The chains and draws that `coords` names, in all groups; what else it names is left."""
    coords = dict(arguments.get("coords") or {})
    chosen = {dim: coords.pop(dim) for dim in ("chain", "draw") if dim in coords}
    if not chosen:
        return groups, arguments
    chosen = {
        dim: [at] if np.ndim(at) == 0 and not isinstance(at, slice) else at
        for dim, at in chosen.items()
    }
    taken = {
        name: group.sel({dim: at for dim, at in chosen.items() if dim in group.dims})
        for name, group in groups.items()
        if not name.startswith("prior")
    }
    return taken, arguments | {"coords": coords or None}


def _layout(groups: dict[str, xr.Dataset], var_names: Any, arguments: dict) -> xr.Dataset:
    """ArviZ's table: its variables and columns, and the numbers that have no weighted form."""
    options = arguments | {"fmt": "xarray", "round_to": "none"}
    if any(arguments.get(name) for name in ("stat_funcs", "circ_var_names")) or (
        arguments.get("kind") == "mc_diagnostics"
    ):
        return az.summary(resample(from_datasets(groups), keep_chains=True), var_names, **options)
    # All columns will be replaced: four draws show which there are.
    few = {name: g.isel(draw=slice(4), missing_dims="ignore") for name, g in groups.items()}
    with np.errstate(divide="ignore", invalid="ignore"):
        return az.summary(from_datasets(few), var_names, **options)


def _selected(draws: xr.DataArray, coords: Any) -> xr.DataArray:
    return draws.sel({dim: at for dim, at in (coords or {}).items() if dim in draws.dims})


def _is_diagnostic(label: str) -> bool:
    return label.startswith(("ess_", "r_hat", "mcse_sd"))


def _statistic(label: str, arguments: dict) -> Statistic | None:
    """The weighted form of a column of ArviZ's table."""
    plain: dict[str, Statistic] = {
        "mean": diagnostics.weighted_mean,
        "sd": diagnostics.weighted_sd,
        "median": lambda x, w: diagnostics.weighted_quantile(x, w, 0.5),
        "mad": diagnostics.weighted_mad,
    }
    if label in plain:
        statistic = plain[label]
    elif interval := re.fullmatch(r"(hdi|eti)(_.*%|\d+_[lu]b)", label):
        statistic = _interval(interval[1], label, arguments)
    elif label in ("mcse_mean", "mcse_sd", "mcse_median"):
        return functools.partial(diagnostics.weighted_mcse, method=label.removeprefix("mcse_"))
    elif label == "ess_tail":
        return functools.partial(diagnostics.weighted_ess, method="tail", prob=tail_levels())
    elif label in ("ess_bulk", "ess_mean", "ess_median"):
        return functools.partial(diagnostics.weighted_ess, method=label.removeprefix("ess_"))
    elif label == "r_hat":
        return diagnostics.weighted_rhat
    else:
        return None
    return _without_nan(statistic) if arguments.get("skipna") else statistic


def _interval(kind: str, label: str, arguments: dict) -> Statistic:
    """One end of an interval: "hdi_3%" and "eti89_lb" are lower ends."""
    given = arguments.get("hdi_prob") or arguments.get("ci_prob")
    prob = az.rcParams["stats.ci_prob"] if given is None else given
    ends = diagnostics.weighted_hdi if kind == "hdi" else diagnostics.weighted_eti
    lower = label.endswith("_lb") or (label.endswith("%") and float(label[4:-1]) < 50)
    return lambda x, w: ends(x, w, prob)[..., 0 if lower else 1]


def _without_nan(statistic: Statistic) -> Statistic:
    """The statistic of the draws that are not NaN, each scalar variable with its own."""

    def skipping(x: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
        # All as one chain: a chain counts by the weight of the draws that it has left.
        pooled = log_weights.reshape(1, -1)
        columns = x.reshape(1, pooled.size, -1)
        missing = np.isnan(columns)
        kept = np.where(missing, 0.0, columns)
        results = [
            statistic(kept[..., i], np.where(missing[..., i], -np.inf, pooled))
            for i in range(columns.shape[2])
        ]
        return np.reshape(results, x.shape[2:])

    return skipping


def print_summary(
    mcmc: MCMC,
    prob: float = 0.9,
    exclude_deterministic: bool = True,
    *,
    chains: Chains | None = None,
) -> None:
    r"""The table of `mcmc.print_summary()`, with weights.

    Mean, standard deviation, median, the highest density interval, `n_eff` (the effective sample
    size for the mean) and R-hat of each latent variable, as `numpyro_contour.diagnostics` defines
    them, how even the weights are, and on minibatches how noisy energies and steps were.
    `mcmc.print_summary()` itself shows the flattened density.

    Args:
        mcmc: a `numpyro.infer.MCMC` with a kernel of this package, after `run`.
        prob: probability inside the interval, in (0, 1]. Defaults to 0.9.
        exclude_deterministic: whether to leave out deterministic sites. Defaults to True.
        chains: numbers of the chains to take, one or several. None (default) for all that have any
            weight.

    Raises:
        ValueError: as `weighted_samples`, or `prob` is out of its range, or there is no such chain,
            or no chain has any weight.

    Warns:
        UserWarning: as `weighted_samples`, and where a chain without any weight was left out.

    Source: `numpyro.diagnostics.print_summary` for the layout.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition, print_summary
        >>> kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1, num_steps=10,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=200, num_samples=1000, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> print_summary(mcmc)  # doctest: +ELLIPSIS
        <BLANKLINE>
                       mean       std    median      5.0%     95.0%     n_eff     r_hat
                 z  ...
        <BLANKLINE>
        Weights: effective share (Kish) ..., Pareto k ...
        Each draw stands for 10 steps (`num_steps`).
    """
    checks.boolean("exclude_deterministic", exclude_deterministic)
    prob = checked_prob(prob)
    log_weights = weighted_samples(mcmc)[1]
    run = FinishedRun.of(mcmc)
    kept = chosen_places(log_weights, chains)
    log_weights = log_weights[kept]
    named = {name: x[kept] for name, x in run.named_samples.items()}
    if exclude_deterministic and run.model is not None:
        named = {name: x for name, x in named.items() if name in run.like}
    width = max([10, *(len(label) for name, x in named.items() for label in _labels(name, x))])
    columns = ("mean", "std", "median", f"{50 * (1 - prob):.1f}%", f"{50 * (1 + prob):.1f}%")
    print("\n" + " " * width + "".join(f" {c:>9}" for c in (*columns, "n_eff", "r_hat")))
    for name, x in named.items():
        statistics = (
            diagnostics.weighted_mean(x, log_weights),
            diagnostics.weighted_sd(x, log_weights),
            diagnostics.weighted_quantile(x, log_weights, 0.5),
            *np.moveaxis(diagnostics.weighted_hdi(x, log_weights, prob), -1, 0),
            diagnostics.weighted_ess(x, log_weights, "mean"),
            diagnostics.weighted_rhat(x, log_weights),
        )
        rows = zip(_labels(name, x), *(np.ravel(values) for values in statistics))
        for label, *row in rows:
            print(f"{label:>{width}}" + "".join(f" {value:>9.2f}" for value in row))
    print(
        f"\nWeights: effective share (Kish) {diagnostics.kish_share(log_weights):.2f}, "
        f"Pareto k {diagnostics.pareto_khat(log_weights):.2f}"
    )
    steps = int(run.settings["num_steps"])
    print(f"Each draw stands for {steps:,} {'step' if steps == 1 else 'steps'} (`num_steps`).")
    noise = noise_text(run)
    if noise is not None:
        print(noise)


def _labels(name: str, x: np.ndarray) -> list[str]:
    """The rows of a variable, as NumPyro names them."""
    return [label_of(name, place, ",") for place in np.ndindex(x.shape[2:])]
