"""The draws of a stored run as an `MCMC` holds those of a run, read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from numpyro_contour.core.arrays.vectors import leaf_names
from numpyro_contour.runs.finished_run import WEIGHT_SITE
from numpyro_contour.runs.stored.store import RunStore


class LazyStates(Mapping):
    """The collected fields of a stored run by name, as NumPy arrays.

    Args:
        path: the folder of the store.
        layout: what is collected of a draw, by field; the draws first.
        by_chain: whether arrays are (chains, draws, ...), or (chains x draws, ...).
    """

    def __init__(self, path: Path, layout: Mapping[str, Any], by_chain: bool):
        self._path, self._layout, self._by_chain = path, dict(layout), by_chain

    def __getitem__(self, field: str) -> Any:
        """The draws, or what was collected with them."""
        store = RunStore.open(self._path)
        arrays = [store.draws(name) for name in _names(store, self._layout, field)]
        if not self._by_chain:
            arrays = [x.reshape(-1, *x.shape[2:]) for x in arrays]
        return jax.tree.unflatten(jax.tree.structure(self._layout[field]), arrays)

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout)

    def __len__(self) -> int:
        return len(self._layout)


def chosen_states(
    store: RunStore, layout: Mapping[str, Any], numbers: np.ndarray
) -> dict[str, Any]:
    """Some draws of all chains with what was collected, by field."""
    return {
        field: jax.tree.unflatten(
            jax.tree.structure(like),
            [store.chosen(name, numbers) for name in _names(store, layout, field)],
        )
        for field, like in layout.items()
    }


def _names(store: RunStore, layout: Mapping[str, Any], field: str) -> list[str]:
    """The names under which the leaves of a field are stored; the first field is the draws."""
    if field != next(iter(layout)):
        return [f"fields/{name}" for name in leaf_names({field: layout[field]})]
    names = leaf_names(layout[field])
    if WEIGHT_SITE in names and WEIGHT_SITE not in store.names("posterior"):
        # It is kept once, among the fields.
        return [f"fields/{x}" if x == WEIGHT_SITE else f"posterior/{x}" for x in names]
    return [f"posterior/{name}" for name in names]
