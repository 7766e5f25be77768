"""The groups of an InferenceData that describe a run, apart from its draws."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import xarray as xr

from numpyro_contour._version import __version__
from numpyro_contour.models.disk.on_disk import IN_MEMORY, stored_of, with_stored
from numpyro_contour.runs.draw_weights import draw_temperatures
from numpyro_contour.runs.energies_over_all_rows import full_energies
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.warmup_group import warmup_dataset
from numpyro_contour.schedules import Constant
from numpyro_contour.statistics.ladders import communication_barrier
from numpyro_contour.statistics.weights import NormalisedWeights

#: fields of the state that are exported for each draw
_PER_DRAW = ("step_size", "energy_bin", "gradient_multiplier", "log_normaliser")
#: counts since the start of the run, up to each draw
_COUNTED = ("steps", "refused", "clipped", "bounded")
#: fields of NumPyro's own kernels, by the names that ArviZ has for them
_NUMPYROS = {
    "diverging": "diverging",
    "energy": "energy",
    "num_steps": "n_steps",
    "accept_prob": "acceptance_rate",
    "adapt_state.step_size": "step_size",
}


def run_groups(
    run: FinishedRun, weights: NormalisedWeights, energy: str | None, collect_theta: bool | int
) -> dict[str, xr.Dataset]:
    """The groups `sample_stats` and, where they exist, `energy_partition` and `warmup`."""
    stats = draw_stats(run, weights.log_weights, energy)
    chains, draws = weights.log_weights.shape
    groups = {
        "sample_stats": xr.Dataset(
            {name: (("chain", "draw"), values) for name, values in stats.items()},
            {"chain": np.arange(chains), "draw": np.arange(draws)},
            attributes(run),
        )
    }
    if run.is_contour:
        groups["energy_partition"] = _energy_partition(run, weights.log_normalisers)
        _add_theta(groups["sample_stats"], run, collect_theta)
    add_swaps(groups["sample_stats"], run.fields)
    warmup = warmup_dataset(run)
    return groups if warmup is None else groups | {"warmup": warmup}


def attributes(run: FinishedRun) -> dict[str, Any]:
    """The kernel's settings and versions, as netCDF and Zarr can hold them."""
    settings = {name: _attribute(value) for name, value in run.settings.items()}
    versions = {"numpyro_contour_version": __version__, "jax_version": jax.__version__}
    return {"kernel": run.kernel_name} | settings | versions


def draw_stats(
    run: FinishedRun, log_weight: np.ndarray, energy: str | None
) -> dict[str, np.ndarray]:
    """The variables (chain, draw) of the group `sample_stats`, without theta and swaps."""
    seen = run.per_draw("potential_energy_estimate")
    offsets = run.energy_offsets[:, None]
    stats = {"log_weight": log_weight}
    if run.has_exact_energies:
        stats["lp"] = -seen
    else:
        stats["potential_energy_estimate"] = seen + offsets
        if energy is None and run.has_full_data_weights:
            full = full_energies(run)
            stats |= {"lp": -(full.energy + offsets), "energy_noise": full.noise}
    if "lp" in stats:
        stats["energy"] = -stats["lp"]  # the name by which ArviZ's functions look for it
    temperatures = draw_temperatures(run)
    if temperatures is not None:
        stats["temperature"] = temperatures[1]
    for name in ("lowest_energy", "highest_energy"):
        if name in run.fields:
            stats[name] = run.per_draw(name) + offsets
    if "refused" in run.fields:
        stats["diverging"] = diverging(run.per_draw("refused"))
    if "moved" in run.fields:
        stats["acceptance_rate"] = acceptance_rate(run.per_draw("moved"), run.per_draw("steps"))
    stats |= {to: run.per_draw(name) for name, to in _NUMPYROS.items() if name in run.fields}
    return stats | {n: run.per_draw(n) for n in _PER_DRAW + _COUNTED if n in run.fields}


def diverging(refused: np.ndarray) -> np.ndarray:
    """Whether a move was refused since the draw before; of the first draw nothing is known.

    It is what a divergence is to NUTS, and the name by which ArviZ's functions look for it.
    """
    anew = np.diff(refused.astype(np.int64)) > 0
    return np.pad(anew, ((0, 0), (1, 0)))


def acceptance_rate(moved: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """The share of each draw's moves that were accepted; of the first draw that of the second."""
    accepted, made = (np.diff(counted.astype(float)) for counted in (moved, steps))
    if not accepted.shape[1]:
        return np.full(moved.shape, np.nan)
    return np.pad(accepted / made, ((0, 0), (1, 0)), mode="edge")


def _add_theta(stats: xr.Dataset, run: FinishedRun, collect_theta: bool | int) -> None:
    """Theta as each draw, or every so many draws, left it."""
    if collect_theta is False or "log_theta" not in run.fields:
        return
    log_theta = run.per_draw("log_theta").astype(np.float32, copy=False)
    stride = int(collect_theta)
    if stride == 1:
        stats["log_theta"] = (("chain", "draw", "bin"), log_theta)
        return
    # The last of each stride, so that draws and their theta end together.
    kept = np.arange(stride - 1, log_theta.shape[1], stride)
    stats["log_theta"] = (("chain", "theta_draw", "bin"), log_theta[:, kept])
    stats.coords["theta_draw"] = stats["draw"].values[kept]


def add_swaps(stats: xr.Dataset, fields: Mapping[str, Any]) -> None:
    """The swap rates, energy variances and round trips of replica exchange, up to each draw."""
    for name, dim in (("swap_rates", "pair"), ("energy_variance", "replica")):
        if name in fields:
            stats[name] = (("chain", "draw", dim), np.asarray(fields[name]))
    if "swap_rates" in fields:
        barrier = communication_barrier(1 - np.asarray(fields["swap_rates"]))
        stats["communication_barrier"] = (("chain", "draw"), barrier)
    if "round_trips" in fields:
        stats["round_trips"] = (("chain", "draw"), np.asarray(fields["round_trips"]))


def _energy_partition(run: FinishedRun, log_normalisers: np.ndarray) -> xr.Dataset:
    """The bins of each chain, their last theta and their visits."""
    state = run.state
    edges = np.asarray(state.partition.edges, np.float64) + run.energy_offsets[:, None]
    values = {
        "lower_edge": edges[:, :-1],
        "upper_edge": edges[:, 1:],
        "theta": np.exp(np.asarray(state.log_theta, np.float64)),
        "visits": np.asarray(state.sampler.theta.bin_counts),
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


def model_of_observations(run: FinishedRun) -> tuple[Callable | None, tuple, dict[str, Any]]:
    """A model with the observed sites of a run's model, and its arguments.

    It is the run's own model where all data are in memory. ArviZ would read all of those that stay
    on disk: there it is one of the observations alone, and without them from 256 MiB on.

    Args:
        run: a finished run.
    """
    args, kwargs = with_stored((run.model_args, run.model_kwargs))
    if run.model is None or not stored_of((args, kwargs)):
        return run.model, run.model_args, run.model_kwargs
    potential = run.potential(args, kwargs)
    shapes = jax.eval_shape(potential.observations)
    if sum(x.size * x.dtype.itemsize for x in shapes.values()) >= IN_MEMORY:
        return None, (), {}

    def observations(values: dict[str, jax.Array]) -> None:
        for name, value in values.items():
            numpyro.sample(name, dist.Delta(value, event_dim=value.ndim), obs=value)

    return observations, (potential.observations(),), {}
