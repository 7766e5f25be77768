"""What a finished run says beside its draws, as groups of an InferenceData."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr
from numpyro.infer import MCMC

from numpyro_contour._version import __version__
from numpyro_contour.core.arrays.vectors import by_chain
from numpyro_contour.kernels.kernel import Kernel
from numpyro_contour.runs.draw_temperatures import draw_temperatures
from numpyro_contour.runs.energies_over_all_rows import energy_offsets, full_energies
from numpyro_contour.runs.finished_run import has_full_data_weights
from numpyro_contour.runs.warmup_group import warmup_dataset
from numpyro_contour.schedules import Constant
from numpyro_contour.statistics.weights import NormalisedWeights

#: numbers of each draw that are the states' own
_PER_DRAW = ("step_size", "energy_bin", "gradient_multiplier")
#: what a chain has counted up to each draw
_COUNTED = ("steps", "refused", "clipped", "bounded")


def run_groups(
    mcmc: MCMC, weights: NormalisedWeights, energy: str | None, collect_theta: bool | int
) -> dict[str, xr.Dataset]:
    """The groups `sample_stats`, `energy_partition` and `warmup` of those that there are."""
    stats = _sample_stats(mcmc, weights.log_weights, energy)
    chains, draws = weights.log_weights.shape
    groups = {
        "sample_stats": xr.Dataset(
            {name: (("chain", "draw"), values) for name, values in stats.items()},
            {"chain": np.arange(chains), "draw": np.arange(draws)},
            attributes(mcmc.sampler),
        )
    }
    if hasattr(mcmc.last_state, "log_theta"):
        groups["energy_partition"] = _energy_partition(mcmc, weights.log_normalisers)
        _add_theta(groups["sample_stats"], mcmc, collect_theta)
    _add_swaps(groups["sample_stats"], mcmc)
    warmup = warmup_dataset(mcmc)
    return groups if warmup is None else groups | {"warmup": warmup}


def attributes(kernel: Kernel) -> dict[str, Any]:
    """The kernel's settings and versions, as netCDF and Zarr can hold them."""
    settings = {name: _attribute(value) for name, value in kernel.settings.items()}
    versions = {"numpyro_contour_version": __version__, "jax_version": jax.__version__}
    return {"kernel": type(kernel).__name__} | settings | versions


def _sample_stats(mcmc: MCMC, log_weight: np.ndarray, energy: str | None) -> dict[str, np.ndarray]:
    """The variables (chain, draw) of the group `sample_stats`, theta and swaps not among them."""
    fields = mcmc.get_extra_fields(group_by_chain=True)
    seen = np.asarray(fields["potential_energy_estimate"])
    offsets = energy_offsets(mcmc.last_state)[:, None]
    stats = {"log_weight": log_weight}
    if mcmc.sampler.has_exact_energy(mcmc._args, mcmc._kwargs):
        stats["lp"] = -seen
    else:
        stats["potential_energy_estimate"] = seen + offsets
        if energy is None and has_full_data_weights(mcmc):
            full = full_energies(mcmc)
            stats |= {"lp": -(full.energy + offsets), "energy_noise": full.noise}
    temperatures = draw_temperatures(mcmc)
    if temperatures is not None:
        stats["temperature"] = temperatures[1]
    for name in ("lowest_energy", "highest_energy"):
        if name in fields:
            stats[name] = np.asarray(fields[name]) + offsets
    return stats | {n: np.asarray(fields[n]) for n in _PER_DRAW + _COUNTED if n in fields}


def _add_theta(stats: xr.Dataset, mcmc: MCMC, collect_theta: bool | int) -> None:
    """Theta as each draw, or every so many draws, left it."""
    fields = mcmc.get_extra_fields(group_by_chain=True)
    if collect_theta is False or "log_theta" not in fields:
        return
    theta = np.exp(np.asarray(fields["log_theta"], dtype=np.float64))
    stride = int(collect_theta)
    if stride == 1:
        stats["theta"] = (("chain", "draw", "bin"), theta)
        return
    # The last of each stride, so that draws and their theta end together.
    kept = np.arange(stride - 1, theta.shape[1], stride)
    stats["theta"] = (("chain", "theta_draw", "bin"), theta[:, kept])
    stats.coords["theta_draw"] = stats["draw"].values[kept]


def _add_swaps(stats: xr.Dataset, mcmc: MCMC) -> None:
    """What replica exchange has counted and learnt up to each draw."""
    fields = mcmc.get_extra_fields(group_by_chain=True)
    for name, dim in (("swap_rates", "pair"), ("energy_variance", "replica")):
        if name in fields:
            stats[name] = (("chain", "draw", dim), np.asarray(fields[name]))


def _energy_partition(mcmc: MCMC, log_normalisers: np.ndarray) -> xr.Dataset:
    """The bins of each chain, their last theta and their visits."""
    state = mcmc.last_state
    edges = by_chain(state.partition.edges, 1).astype(np.float64)
    edges = edges + energy_offsets(state)[:, None]
    values = {
        "lower_edge": edges[:, :-1],
        "upper_edge": edges[:, 1:],
        "theta": np.exp(by_chain(state.log_theta, 1).astype(np.float64)),
        "visits": by_chain(state.sampler.theta.bin_counts, 1),
    }
    return xr.Dataset(
        {name: (("chain", "bin"), value) for name, value in values.items()}
        | {"log_normaliser": (("chain",), log_normalisers)},
        {"chain": np.arange(edges.shape[0])},
    )


def _attribute(value: Any) -> str | float:
    if isinstance(value, Constant):
        return value.value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, Mapping):
        return json.dumps(value)
    return getattr(value, "__qualname__", None) or str(value)
