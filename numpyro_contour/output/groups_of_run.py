"""The groups of a finished run, of weighted draws, and the report on it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import arviz as az
import numpy as np
import numpyro
import xarray as xr

from numpyro_contour import checks
from numpyro_contour.checks import warn_user
from numpyro_contour.diagnosis.report import Report
from numpyro_contour.output.weighted_samples import report_on
from numpyro_contour.runs.curvature import curvature
from numpyro_contour.runs.draw_weights import weights_of_run
from numpyro_contour.runs.equipartition import equipartition
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.gradient_along_lines import gradient_along_lines
from numpyro_contour.runs.groups import attributes, model_of_observations, run_groups
from numpyro_contour.runs.log_likelihood import log_likelihoods
from numpyro_contour.runs.modes_group import modes_dataset, search_dataset
from numpyro_contour.statistics.arviz_versions import RunAdapter, to_datasets

Result = TypeVar("Result")


def groups_with_warning(
    run: FinishedRun,
    theta: str = "online",
    energy: str | None = None,
    collect_theta: bool | int = True,
    **more: Any,
) -> dict[str, xr.Dataset]:
    """All groups of a run, with weighted draws under the plain names.

    Args:
        run: a finished run.
        theta: as in `weighted_samples`.
        energy: as in `weighted_samples`.
        collect_theta: as in `to_inference_data`.
        **more: its other arguments.

    Raises:
        ValueError: as `to_inference_data`.

    Warns:
        UserWarning: as `to_inference_data`.
    """
    groups = groups_of(run, theta, energy, collect_theta, **more)
    # Other names of coordinates and a thinner theta make another report.
    plain = more.get("coords") is None and more.get("dims") is None and collect_theta is True
    report = report_of_run(run, groups, theta, energy) if plain else report_on(groups)
    if report.faults:
        warn_user(report.warning())
    return groups


def report_of_run(
    run: FinishedRun,
    groups: dict[str, xr.Dataset],
    theta: str = "online",
    energy: str | None = None,
) -> Report:
    """The report on a run, made once for it: on its groups with the default names and all theta."""
    return _once(run, ("report", theta, energy), lambda: report_on(groups))


def groups_of(
    run: FinishedRun,
    theta: str = "online",
    energy: str | None = None,
    collect_theta: bool | int = True,
    *,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, list[str]] | None = None,
    log_likelihood: bool = False,
    prior: Mapping[str, Any] | None = None,
    posterior_predictive: Mapping[str, Any] | None = None,
    predictions: Mapping[str, Any] | None = None,
    constant_data: Mapping[str, Any] | None = None,
    quickly: bool = False,
) -> dict[str, xr.Dataset]:
    """As `groups_with_warning`, without the warning; `quickly` without all that is compiled."""
    checks.boolean("log_likelihood", log_likelihood)
    if not isinstance(collect_theta, bool):
        checks.integer("collect_theta", collect_theta, at_least=1)
    weights = weights_of_run(run, theta, energy)
    # ArviZ runs the model at a draw from the prior, whose parameters NumPyro might refuse.
    with numpyro.validation_enabled(False):
        by_arviz = az.from_numpyro(
            RunAdapter(run.named_samples, *model_of_observations(run)),
            coords=coords,
            dims=dims,
            log_likelihood=False,
            posterior_predictive=posterior_predictive,
            predictions=predictions,
            constant_data=constant_data,
        )
    groups = to_datasets(by_arviz)
    _drop_factors(groups)
    if log_likelihood:
        groups["log_likelihood"] = _log_likelihood(
            run, groups["posterior"], groups.get("observed_data")
        )
    if prior is not None:
        groups |= _prior(prior, groups)
    groups |= run_groups(run, weights, energy, collect_theta)
    searched = search_dataset(run)
    if searched is not None:
        groups["mode_search"] = searched
    groups["posterior"].attrs |= attributes(run)
    groups["sample_stats"].attrs = groups["posterior"].attrs | groups["sample_stats"].attrs
    # Programs are compiled for these, which takes longer than all else.
    passes = {
        "equipartition": equipartition,
        "gradient": gradient_along_lines,
        "curvature": curvature,
        "modes": modes_dataset,
    }
    if run.changes_after_training:
        # The others hold energies over all rows against draws that other energies have made.
        passes = {"modes": modes_dataset}
    for name, made in () if quickly else passes.items():
        of_draws = functools.partial(made, run, weights.log_weights)
        found = _once(run, (name, theta, energy), of_draws)
        if found is not None:
            groups[name] = found.copy(deep=True)
    if "modes" in groups:  # what is of each draw stands beside the rest that is
        groups["sample_stats"]["mode"] = groups["modes"]["mode_of_draw"]
        groups["modes"] = groups["modes"].drop_vars(["mode_of_draw", "draw"])
    return groups


def _once(run: FinishedRun, key: tuple, made: Callable[[], Result]) -> Result:
    """A result that is made once for a run."""
    if key not in run.computed:
        run.computed[key] = made()
    return run.computed[key]


def _drop_factors(groups: dict[str, xr.Dataset]) -> None:
    """`numpyro.factor` is an observation without values."""
    if "observed_data" in groups:
        observed = groups["observed_data"]
        observed = observed.drop_vars([name for name, x in observed.items() if x.size == 0])
        groups["observed_data"] = observed
        if not observed.data_vars:
            del groups["observed_data"]


def _log_likelihood(run: FinishedRun, draws: xr.Dataset, observed: xr.Dataset | None) -> xr.Dataset:
    if run.model is None or observed is None:
        raise ValueError(
            "`log_likelihood` takes True only for a model with observations, but this run has "
            "none: it was given `potential_fn`, or the model observes nothing, or so many values "
            "that stay on disk that they have no group `observed_data`."
        )
    values = log_likelihoods(run)
    data = {
        name: (("chain", "draw", *observed[name].dims[: value.ndim - 2]), value)
        for name, value in values.items()
        if name in observed
    }
    coords = dict(observed.coords) | {d: draws.coords[d] for d in ("chain", "draw")}
    used = {dim for dims, _ in data.values() for dim in dims}
    return xr.Dataset(data, {dim: coord for dim, coord in coords.items() if dim in used})


def _prior(prior: Mapping[str, Any], groups: dict[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Draws from the prior as one chain: of the posterior's variables, and of all others."""
    known = {
        name: x.dims[2:] if group == "posterior" else x.dims
        for group in ("posterior", "observed_data")
        for name, x in groups.get(group, xr.Dataset()).items()
    }
    coords = {
        dim: coord
        for group in ("posterior", "observed_data")
        for dim, coord in groups.get(group, xr.Dataset()).coords.items()
        if dim not in ("chain", "draw")
    }
    datasets: dict[str, xr.Dataset] = {}
    for name, values in prior.items():
        array = np.asarray(values)[None]
        rest, shape = known.get(name, ()), array.shape[2:]
        fits = [dim not in coords or coords[dim].size == n for dim, n in zip(rest, shape)]
        if len(rest) != len(shape) or not all(fits):
            rest = tuple(f"{name}_dim_{i}" for i in range(len(shape)))
        group = "prior" if name in groups["posterior"] else "prior_predictive"
        used = {dim: coords[dim] for dim in rest if dim in coords}
        numbers = {"chain": [0], "draw": np.arange(array.shape[1])}
        variable = xr.Dataset({name: (("chain", "draw", *rest), array)}, numbers | used)
        datasets[group] = variable.merge(datasets.get(group, xr.Dataset()))
    return datasets
