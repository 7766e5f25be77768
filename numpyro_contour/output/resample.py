"""Equally weighted draws from weighted ones."""

from __future__ import annotations

from typing import Any

import arviz as az
import numpy as np
import xarray as xr

from numpyro_contour import checks
from numpyro_contour.checks import warn_user
from numpyro_contour.output.equal_weights import PREFIX, draws_taken, weighted_of, weights_of
from numpyro_contour.output.groups_of_run import groups_with_warning
from numpyro_contour.output.stored_groups import groups_of_stores, names_stores
from numpyro_contour.output.weighted_samples import Chains, chosen
from numpyro_contour.runs.finished_run import FinishedRun, is_mcmc
from numpyro_contour.statistics.arviz_versions import from_datasets, to_datasets
from numpyro_contour.statistics.resampling import METHODS


def resample(
    data: Any,
    num_samples: int | None = None,
    seed: int = 0,
    *,
    method: str = "systematic",
    keep_chains: bool = False,
    chains: Chains | None = None,
) -> az.InferenceData | xr.DataTree:
    r"""Draws of equal weight, which every function of ArviZ takes.

    Draw i is taken :math:`n_i` times with :math:`E[n_i] = n \bar w_i / \sum_j \bar w_j`, the
    weights of each chain normalised to mean 1 first. All groups with draws follow, so that a
    posterior predictive stays with its posterior.

    What `to_inference_data` returns has such draws already, as many as the run's, by chain. This
    is for other sizes, methods and seeds, and for all chains pooled. Resampling adds noise: use
    `summary` and `expectation` for numbers.

    Args:
        data: what `to_inference_data` returns, an `MCMC` with a kernel of this package, or the
            folder of a stored run.
        num_samples: n, draws to return; with `keep_chains` of each chain. None (default) for as
            many as there are.
        seed: of NumPy's random generator, at least 0. Defaults to 0.
        method: "systematic" (default), which adds the least noise; "stratified"; "residual"; or
            "multinomial", independent choices.
        keep_chains: False (default): all chains are pooled into one, and what belongs to a chain
            and not to a draw (the energy partition) is left out; True: each chain is resampled on
            its own, as R-hat needs.
        chains: numbers of the chains to take, one or several. None (default) for all that have any
            weight.

    Returns:
        An `arviz.InferenceData`, or an `xarray.DataTree` with arviz 1.x, with the chosen draws in
        the order of the run; their `log_weight` is 0. On equal weights the default returns the
        draws as they are.

    Raises:
        ValueError: there are no weights, or an argument is out of its range.

    Warns:
        UserWarning: a chain without any weight was left out; or a variable, which is in
            `posterior` and not in `weighted_posterior`.

    Source: Douc, Cappe and Moulines (2005) for the four methods.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition, resample
        >>> kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1,
        ...                      partition=EnergyPartition(0.0, 5.0, 10))
        >>> mcmc = MCMC(kernel, num_warmup=2000, num_samples=100, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(0.0))
        >>> resample(mcmc, 50)["posterior"]["z"].shape
        (1, 50)
    """
    checks.one_of("method", method, list(METHODS))
    checks.boolean("keep_chains", keep_chains)
    if num_samples is not None:
        checks.integer("num_samples", num_samples, at_least=1)
    rng = np.random.default_rng(checks.integer("seed", seed, at_least=0))
    groups = weighted_groups(data, chains)
    weights = weights_of(groups)
    if keep_chains:
        number = weights.shape[1] if num_samples is None else num_samples
        draws = np.stack([METHODS[method](rng, chain, number) for chain in weights])
        places = np.arange(weights.shape[0])[:, None]
    else:
        number = weights.size if num_samples is None else num_samples
        flat = METHODS[method](rng, weights.ravel(), number)
        places, draws = (place[None] for place in np.divmod(flat, weights.shape[1]))
    added = added_later(data, "posterior")
    if added:
        warn_user(f"Left out: {where_to_add(added, 'posterior')}")
    taken = {}
    for name, group in groups.items():
        if name.startswith("prior") or "chain" not in group.dims:
            taken[name] = group  # which has no part in the weights
        elif "draw" in group.dims:
            taken[name] = draws_taken(group, weights.shape, places, draws)
        elif keep_chains:
            taken[name] = group
    if not keep_chains:
        # The thinned trace of theta belongs to a chain that is no more.
        taken["sample_stats"] = taken["sample_stats"].drop_dims("theta_draw", errors="ignore")
    stats = taken["sample_stats"]
    stats["log_weight"] *= 0.0
    stats.attrs = stats.attrs | {"resampled": 1}
    return from_datasets(taken)


def weighted_groups(data: Any, chains: Chains | None = None) -> dict[str, xr.Dataset]:
    """The groups of weighted draws, of the chains that are counted.

    Args:
        data: what `to_inference_data` returns, an `MCMC` with a kernel of this package, or the
            folder of a stored run.
        chains: the numbers of the chains. None (default) for all that have any weight.

    Raises:
        ValueError: as `groups_of_run` and `chosen`.

    Warns:
        UserWarning: as `chosen`.
    """
    return chosen(groups_of_run(data), chains)


def groups_of_run(data: Any) -> dict[str, xr.Dataset]:
    """The groups of weighted draws, of all chains.

    Raises:
        ValueError: `data` is neither an MCMC of this package nor has it a `log_weight`.
    """
    if is_mcmc(data):
        return groups_with_warning(FinishedRun.of(data))
    if names_stores(data):
        return groups_of_stores(data)
    takes = (
        "the result of `to_inference_data`, an MCMC with a kernel of numpyro_contour, or the "
        "folder of a stored run"
    )
    if not hasattr(data, "groups"):
        raise ValueError(f"`data` takes {takes}, but got {type(data).__name__}.")
    found = weighted_of(to_datasets(data)).items()
    groups = {name: _with_chains(g) for name, g in found if not _of_joined_runs(name, g)}
    for name in ("posterior", "sample_stats"):
        if name not in groups:
            raise ValueError(f"`data` takes {takes}, but it has no group {name!r}.")
    if not groups["posterior"].data_vars:
        raise ValueError(f"`data` takes {takes}, but its group 'posterior' has no variables.")
    if "log_weight" not in groups["sample_stats"]:
        raise ValueError(
            f"`data` takes {takes}, but its group 'sample_stats' has no `log_weight`: "
            "NUTS has none."
        )
    shape = tuple(groups["posterior"].sizes[dim] for dim in ("chain", "draw"))
    if groups["sample_stats"]["log_weight"].transpose("chain", "draw", ...).shape != shape:
        raise ValueError(
            f"`data` takes a `log_weight` for each of the posterior's draws, {shape} (chains, "
            f"draws), but got the shape {groups['sample_stats']['log_weight'].shape}."
        )
    return groups


def added_later(data: Any, group: str) -> list[str]:
    """Variables that a user added to the draws of equal weight of a group, and not to the others.

    They are not known at the run's own draws, of which those of next to no weight were not taken.
    """
    if is_mcmc(data) or not hasattr(data, "groups"):
        return []
    groups = to_datasets(data)
    if group not in groups or PREFIX + group not in groups:
        return []
    return [str(name) for name in groups[group] if name not in groups[PREFIX + group]]


def where_to_add(names: list[str], group: str) -> str:
    """What is to be done with such variables, in words."""
    listed = ", ".join(map(repr, names))
    return (
        f"{listed}: only {group!r} has it, at draws of equal weight. Add it to the run's own draws "
        f"too, `data[{PREFIX + group!r}][{names[0]!r}] = ...`, or use ArviZ's function."
    )


def _with_chains(group: xr.Dataset) -> xr.Dataset:
    """A group with a dimension of chains whose labels differ.

    One chain that was selected, `idata.sel(chain=0)`, has lost it, and in runs that were joined
    along it, `xarray.concat([one, two], "chain")`, each label is there twice.
    """
    if "chain" in group.coords and "chain" not in group.dims:
        return group.expand_dims("chain")
    if "chain" in group.indexes and not group.indexes["chain"].is_unique:
        return group.assign_coords(chain=np.arange(group.sizes["chain"]))
    return group


def _of_joined_runs(name: str, group: xr.Dataset) -> bool:
    """Whether this was measured on all chains of a run, and the runs were joined afterwards."""
    return name in ("equipartition", "gradient") and "chain" in group.dims
