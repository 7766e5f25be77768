"""The groups of a stored run, opened from its folder alone; draws are read when they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from numpyro_contour.checks import warn_user
from numpyro_contour.output.equal_weights import is_weighted
from numpyro_contour.output.groups_of_run import groups_of
from numpyro_contour.runs.draw_weights import are_final
from numpyro_contour.runs.energies_over_all_rows import FullEnergies
from numpyro_contour.runs.groups import acceptance_rate, add_swaps, diverging
from numpyro_contour.runs.stored.identity import differences
from numpyro_contour.runs.stored.lazy_states import chosen_states
from numpyro_contour.runs.stored.one_segment import (
    FULL_ENERGY,
    FULL_NOISE,
    LOWEST_TEMPERATURE,
    SegmentStats,
)
from numpyro_contour.runs.stored.store import RunStore
from numpyro_contour.statistics.mode_shares import mode_shares
from numpyro_contour.statistics.weights import normalised

# Arrays that say how draws are weighed, and are not handed out.
_INNER = (LOWEST_TEMPERATURE, FULL_ENERGY, FULL_NOISE)
# What runs of one model may differ in, to be chains of one run.
_OF_A_RUN = ("key", "num_chains", "init_params", "chain_method")
# What was found of all chains of a run together, and labels by it.
_OF_ALL_CHAINS = ("equipartition", "gradient", "modes")
_LABELS = ("mode",)


def names_stores(data: Any) -> bool:
    """Whether this names the folder of a store, or several."""
    paths = data if isinstance(data, list | tuple) else [data]
    return bool(paths) and all(isinstance(path, str | Path) for path in paths)


def groups_of_stores(paths: str | Path | Sequence[str | Path]) -> dict[str, xr.Dataset]:
    """The groups of a stored run, or of several as chains of one run.

    Raises:
        ValueError: as `stored_groups`; or the runs are not of one model with the same settings.

    Warns:
        UserWarning: the runs have different numbers of draws; as many are taken as all have.
    """
    if isinstance(paths, str | Path):
        return stored_groups(paths)
    first, *rest = [RunStore.open(Path(path)).identity for path in paths]
    for path, other in zip(paths[1:], rest):
        found = differences(_without_chance(first), _without_chance(other))
        if found:
            raise ValueError(
                f"`mcmc` takes stores of one model with the same settings, but {str(paths[0])!r} "
                f"(there) and {str(path)!r} (here) differ: {'; '.join(found)}."
            )
    runs = [stored_groups(path) for path in paths]
    draws = [run["posterior"].sizes["draw"] for run in runs]
    if len(set(draws)) > 1:
        warn_user(
            f"The stores have {draws} draws a chain: the first {min(draws)} of each are taken."
        )
    return {
        name: _joined([run[name] for run in runs], min(draws))
        for name in runs[0]
        if name not in _OF_ALL_CHAINS and all(name in run for run in runs)
    }


def _without_chance(identity: dict[str, Any]) -> dict[str, Any]:
    run = {n: x for n, x in identity["run"].items() if n not in _OF_A_RUN}
    return identity | {"run": run}


def _joined(groups: list[xr.Dataset], draws: int) -> xr.Dataset:
    """The chains of several runs, numbered anew."""
    if "chain" not in groups[0].dims:
        return groups[0]
    if "draw" in groups[0].dims:
        groups = [group.isel(draw=slice(0, draws)) for group in groups]
    groups = [group.drop_vars([n for n in _LABELS if n in group]) for group in groups]
    found = xr.concat(groups, "chain", coords="minimal", compat="override", join="override")
    return found.assign_coords(chain=np.arange(found.sizes["chain"]))


def stored_groups(path: str | Path) -> dict[str, xr.Dataset]:
    """All groups of a stored run, with weighted draws under the plain names.

    Args:
        path: the folder of the store.

    Raises:
        ValueError: there is no such store, it has no draws yet, or it has lost some.
    """
    store = RunStore.open(Path(path))
    kept = store.progress.kept
    if not kept:
        raise ValueError(
            f"`path` takes a stored run with draws, but that in {str(path)!r} is still in its "
            "warm-up."
        )
    known = checks_in(store)
    layout = known.pop("layout", None)
    posterior = _opened(store, "posterior")
    stats = _opened(store, "stats")
    fields = _opened(store, "fields")
    if layout is not None:
        posterior = _named(posterior, layout)
    groups = {"posterior": posterior, "sample_stats": stats} | known
    weights = normalised(_log_weights(stats))
    stats["log_weight"] = (("chain", "draw"), weights.log_weights)
    if "refused" in stats:
        stats["diverging"] = (("chain", "draw"), diverging(stats["refused"].values))
    if "moved" in fields:
        counts = fields["moved"].values, fields["steps"].values
        stats["acceptance_rate"] = (("chain", "draw"), acceptance_rate(*counts))
    if "log_theta" in fields:
        stats["log_theta"] = fields["log_theta"].variable.copy(deep=False)
        stats["log_theta"].variable.dims = ("chain", "draw", "bin")
    add_swaps(
        stats,
        {n: fields[n] for n in ("swap_rates", "energy_variance", "round_trips") if n in fields},
    )
    groups["sample_stats"] = stats.drop_vars([n for n in _INNER if n in stats])
    groups["sample_stats"].attrs = posterior.attrs
    if "energy_partition" in groups:
        partition = groups["energy_partition"]
        groups["energy_partition"] = partition.assign(
            log_normaliser=(("chain",), weights.log_normalisers)
        )
    if "modes" in groups and "mode" in stats:
        groups["modes"] = _with_masses(groups["modes"], stats["mode"].values, weights.log_weights)
    return groups


def _opened(store: RunStore, group: str) -> xr.Dataset:
    """The arrays of a group of draws, not yet read."""
    found = {name: variable_of(store, f"{group}/{name}") for name in store.names(group)}
    chains, draws = next(iter(found.values())).shape[:2]
    return xr.Dataset(found, {"chain": np.arange(chains), "draw": np.arange(draws)})


def _named(draws: xr.Dataset, layout: xr.Dataset) -> xr.Dataset:
    """The draws with the dimensions and the attributes that ArviZ gives them."""
    renamed = {}
    for name, like in layout.data_vars.items():
        variable = draws[name].variable.copy(deep=False)
        variable.dims = like.dims
        renamed[name] = variable
    coords = {n: c for n, c in layout.coords.items() if not {"chain", "draw"} & set(c.dims)}
    return xr.Dataset(renamed, {**{n: draws[n] for n in ("chain", "draw")}, **coords}, layout.attrs)


def checks_in(store: RunStore) -> dict[str, xr.Dataset]:
    """What was last found of the run, in memory: the next checks take its place.

    Raises:
        ValueError: it cannot be read.
    """
    known = store.checks
    try:
        return {
            name: _checked(store, f"checks/{known['slot']}/{name}", order)
            for name, order in known.get("groups", {}).items()
        }
    except Exception as error:  # whatever Zarr says of a torn file
        raise ValueError(
            f"The store {str(store.path)!r} has lost what was found of its run: {error}. Its draws "
            "may be whole: the same call of `run_stored` as before finds the rest again."
        ) from error


def _checked(store: RunStore, group: str, order: list[str]) -> xr.Dataset:
    with xr.open_dataset(store.path, group=group, engine="zarr", consolidated=False) as found:
        return found.load()[order]


def _log_weights(stats: xr.Dataset) -> np.ndarray:
    """The log weights of the draws, those at another temperature than the last one's left out."""
    log_weights = stats["log_weight"].values
    if LOWEST_TEMPERATURE not in stats:
        return log_weights
    final = are_final(stats[LOWEST_TEMPERATURE].values, stats["temperature"].values)
    return np.where(final, log_weights, -np.inf)


def _with_masses(modes: xr.Dataset, labels: np.ndarray, log_weights: np.ndarray) -> xr.Dataset:
    """The modes with their masses by all draws."""
    found = mode_shares(labels, log_weights, modes.sizes["mode"])
    return modes.assign(
        mass=(("mode",), found.share),
        mass_mcse=(("mode",), found.mcse),
        mass_by_chain=(("chain", "mode"), found.of_chains),
    )


class StoredDraws(BackendArray):
    """The draws of a stored run by name, as many as there were when it was opened."""

    def __init__(self, store: RunStore, name: str):
        self._store, self._name = store, name
        self.shape, self.dtype = store.layout(name)

    def __getitem__(self, key: Any) -> np.ndarray:
        """Parts of the array."""
        support = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, support, self._part)

    def _part(self, key: tuple) -> np.ndarray:
        # While the run goes on the array in the store may be longer.
        ends = [
            slice(*k.indices(n)) if isinstance(k, slice) else k for k, n in zip(key, self.shape)
        ]
        return self._store.part(self._name, tuple(ends))


def variable_of(store: RunStore, name: str) -> xr.Variable:
    """An array (chains, draws, ...) of a store that is not read yet."""
    array = StoredDraws(store, name)
    of_variable = name.split("/", 1)[1]
    rest = [f"{of_variable}_dim_{i}" for i in range(len(array.shape) - 2)]
    return xr.Variable(("chain", "draw", *rest), indexing.LazilyIndexedArray(array))


# Draws of each chain that are looked at: memory does not grow with the length of the run.
_DRAWS = 2000
# Observations that are stored beside the draws.
_OBSERVED = 10_000_000


def checks_of(
    store: RunStore,
    stats: SegmentStats,
    layout: Mapping[str, Any],
    state: Any,
    quickly: bool = False,
) -> dict[str, xr.Dataset]:
    """The groups without draws, from at most 2,000 draws of each chain, evenly spaced.

    Args:
        store: the store of the run.
        stats: what makes a finished run of some of its draws.
        layout: what is collected of a draw.
        state: the last state.
        quickly: without what programs are compiled for. Defaults to False.
    """
    kept = store.progress.kept
    stride = -(-kept // _DRAWS)
    numbers = np.arange((kept - 1) % stride, kept, stride)  # the last one, and back from there
    run = stats.run_of(state, chosen_states(store, layout, numbers))
    run = replace(run, thinning=run.thinning * stride)
    if FULL_ENERGY in store.names("stats"):
        found = (store.chosen(f"stats/{name}", numbers) for name in (FULL_ENERGY, FULL_NOISE))
        run.computed["full_energies"] = FullEnergies(*found)
    groups = groups_of(run, quickly=quickly)
    kept_groups = {"layout": _layout(groups["posterior"])}
    for name, group in groups.items():
        if not is_weighted(name, group) and group.nbytes <= _OBSERVED * 8:
            kept_groups[name] = group
    return {name: storable(group) for name, group in kept_groups.items()}


def storable(group: xr.Dataset) -> xr.Dataset:
    """Names of coordinates as objects: Zarr has no specification for strings of fixed length."""
    names = {name: c for name, c in group.coords.items() if c.dtype.kind == "U"}
    return group.assign_coords({name: c.astype(object) for name, c in names.items()})


def _layout(draws: xr.Dataset) -> xr.Dataset:
    """The first draw, with the names of all dimensions and the attributes."""
    return draws.isel(chain=[0], draw=[0])
