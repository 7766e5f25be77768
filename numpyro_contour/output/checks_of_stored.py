"""What is found of the draws of a stored run that takes its model: its groups without draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from numpyro_contour.output.equal_weights import is_weighted
from numpyro_contour.output.groups_of_run import groups_of
from numpyro_contour.runs.energies_over_all_rows import FullEnergies
from numpyro_contour.runs.stored.lazy_states import chosen_states
from numpyro_contour.runs.stored.one_segment import FULL_ENERGY, FULL_NOISE, SegmentStats
from numpyro_contour.runs.stored.store import RunStore

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
