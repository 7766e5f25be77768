"""ArviZ's table of a posterior, and NumPyro's, with the weights counted."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import arviz as az
import numpy as np
import xarray as xr
from numpyro.infer import MCMC

from numpyro_contour import checks, diagnostics
from numpyro_contour.checks import warn_user
from numpyro_contour.output.equal_weights import weights_of
from numpyro_contour.output.resample import added_later, resample, weighted_groups, where_to_add
from numpyro_contour.output.weighted_samples import Chains, chosen_places, weighted_samples
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.warmup_group import noise_text
from numpyro_contour.statistics import errors
from numpyro_contour.statistics.arviz_versions import from_datasets, summary_table, tail_levels
from numpyro_contour.statistics.blocks import Block, in_blocks
from numpyro_contour.statistics.estimates import checked, checked_prob, mad
from numpyro_contour.statistics.scalars import label as label_of

if TYPE_CHECKING:
    import pandas as pd

#: of the scalars of a block, (scalars,)
Statistic = Callable[[Block], np.ndarray]


def summary(
    data: Any, var_names: Any = None, *, chains: Chains | None = None, **arguments: Any
) -> pd.DataFrame | xr.Dataset:
    r"""`az.summary` with weights: the same arguments, the same columns, the same rounding.

    Means, standard deviations, medians, intervals, Monte Carlo errors, effective sample sizes and
    R-hat are those of `numpyro_contour.diagnostics`. What has no weighted form there, functions of
    one's own (`stat_funcs`) and circular statistics (`circ_var_names`) of arviz 0.23, is computed
    by ArviZ from systematically resampled draws. On equal weights the table is ArviZ's own.

    Args:
        data: what `to_inference_data` returns, an `MCMC` with a kernel of this package, or the
            folder of a stored run.
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
        ValueError: there are no weights, an argument is unknown, or a variable was added to
            `posterior` and not to `weighted_posterior`; `az.summary` may raise others.

    Warns:
        UserWarning: a chain without any weight was left out, or such a variable.

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
    _tell_of_added(added_later(data, group), group, var_names)
    weights = weights_of(groups)
    table = _layout(groups, var_names, arguments)
    circular = arguments.get("circ_var_names") or ()
    for name, column in table.data_vars.items():
        draws = _selected(groups[group][name], arguments.get("coords"))
        values = draws.transpose("chain", "draw", ...).values
        chosen = {
            label: statistic
            for label in map(str, column.coords[column.dims[0]].values)
            if (statistic := _statistic(label, arguments)) is not None
            and (name not in circular or _is_diagnostic(label))
        }
        found = _of_all(tuple(chosen.values()), values, weights, arguments.get("skipna", False))
        for label, numbers in zip(chosen, found):
            column.loc[{column.dims[0]: label}] = numbers
    return summary_table(table, arguments)


def _tell_of_added(added: list[str], group: str, var_names: Any) -> None:
    """Refuse a named variable without weights; warn of one that is missing from a full table."""
    names = np.atleast_1d([] if var_names is None else var_names).tolist()
    named = [name for name in added if name in names]
    if named:
        raise ValueError(f"`var_names` takes no {where_to_add(named, group)}")
    left_out = [name for name in added if f"~{name}" not in names]
    if left_out and all(str(name).startswith("~") for name in names):
        warn_user(f"Left out: {where_to_add(left_out, group)}")


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
        "mean": lambda block: block.mean,
        "sd": lambda block: block.sd,
        "median": lambda block: block.median,
        "mad": mad,
        "mcse_mean": errors.mcse,
        "mcse_sd": lambda block: errors.mcse(block, "sd"),
        "mcse_median": lambda block: errors.mcse(block, "median"),
        "ess_bulk": errors.ess,
        "ess_tail": lambda block: errors.ess(block, "tail", tail_levels()),
        "ess_mean": lambda block: errors.ess(block, "mean"),
        "ess_median": lambda block: errors.ess(block, "median", (0.5,)),
        "r_hat": errors.rhat,
    }
    if interval := re.fullmatch(r"(hdi|eti)(_.*%|\d+_[lu]b)", label):
        return _interval(interval[1], label, arguments)
    return plain.get(label)


def _interval(kind: str, label: str, arguments: dict) -> Statistic:
    """One end of an interval: "hdi_3%" and "eti89_lb" are lower ends."""
    given = arguments.get("hdi_prob") or arguments.get("ci_prob")
    prob = checked_prob(az.rcParams["stats.ci_prob"] if given is None else given)
    lower = label.endswith("_lb") or (label.endswith("%") and float(label[4:-1]) < 50)
    if kind == "hdi":
        return lambda block: block.ranked.narrowest(prob)[:, 0 if lower else 1]
    level = np.array(0.5 * (1 - prob if lower else 1 + prob))
    return lambda block: block.ranked.quantiles(level)


def _of_all(
    statistics: tuple[Statistic, ...], x: np.ndarray, weights: np.ndarray, skipna: bool
) -> np.ndarray:
    """The statistics of all scalars of draws (chains, draws, ...), (statistics, ...)."""
    if not statistics:
        return np.empty((0, *x.shape[2:]))
    of_block = lambda block: np.stack([statistic(block) for statistic in statistics], -1)
    if not skipna:
        return np.moveaxis(in_blocks(of_block, x, weights), -1, 0)
    # All as one chain: a chain counts by the weight of the draws that it has left, each scalar's
    # own.
    columns = x.reshape(1, weights.size, -1)
    results = []
    for i in range(columns.shape[2]):
        missing = np.isnan(columns[..., i])
        left = np.where(missing, 0.0, weights.reshape(1, -1))
        kept = np.where(missing, 0.0, columns[..., i])
        results.append(of_block(Block(kept[..., None], left / left.mean()))[0])
    return np.reshape(results, (*x.shape[2:], len(statistics))).transpose(-1, *range(x.ndim - 2))


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
    ends = (f"{50 * (1 - prob):.1f}%", f"{50 * (1 + prob):.1f}%")
    columns = ("mean", "std", "median", *ends, "n_eff", "r_hat")
    print("\n" + " " * width + "".join(f" {name:>9}" for name in columns))
    for name, x in named.items():
        statistics = in_blocks(functools.partial(_numpyros, prob=prob), *checked(x, log_weights))
        for label, row in zip(_labels(name, x), statistics.reshape(-1, len(columns))):
            print(f"{label:>{width}}" + "".join(f" {value:>9.2f}" for value in row))
    if run.mode_list is not None:
        print(_of_jumps(run))
        return
    print(
        f"\nWeights: effective share (Kish) {diagnostics.kish_share(log_weights):.2f}, "
        f"Pareto k {diagnostics.pareto_khat(log_weights):.2f}"
    )
    steps = int(run.settings["num_steps"])
    print(f"Each draw stands for {steps:,} {'step' if steps == 1 else 'steps'} (`num_steps`).")
    noise = noise_text(run)
    if noise is not None:
        print(noise)


def _of_jumps(run: FinishedRun) -> str:
    """What `ModeJumping` has to say below its table, which has no weights."""
    lines = []
    if "diverging" in run.fields:
        lines.append(f"Number of divergences: {int(run.per_draw('diverging').sum())}")
    mode = run.per_draw("mode")
    changes = (np.diff(mode, axis=1) != 0).mean() if mode.shape[1] > 1 else 0.0
    assert run.mode_list is not None
    number = len(run.mode_list)
    modes = "1 mode is known." if number == 1 else f"{number} modes are known."
    if number > 1:
        modes += f" Chains change theirs in {changes:.0%} of the draws."
    return "\n".join([*lines, modes])


def _numpyros(block: Block, prob: float) -> np.ndarray:
    """The columns of NumPyro's table, (scalars, columns)."""
    ends = block.ranked.narrowest(prob).T
    plain = (block.mean, block.sd, block.median, *ends)
    return np.stack([*plain, errors.ess(block, "mean"), errors.rhat(block)], -1)


def _labels(name: str, x: np.ndarray) -> list[str]:
    """The rows of a variable, as NumPyro names them."""
    return [label_of(name, place, ",") for place in np.ndindex(x.shape[2:])]
