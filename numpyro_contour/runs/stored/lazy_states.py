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
        like = self._layout[field]
        store = RunStore.open(self._path)
        if field == next(iter(self._layout)):
            names = [f"posterior/{name}" for name in leaf_names(like)]
        else:
            names = [f"fields/{name}" for name in leaf_names({field: like})]
        known = set(store.names("posterior"))
        leaves = []
        for name in names:
            if name == f"posterior/{WEIGHT_SITE}" and WEIGHT_SITE not in known:
                name = f"fields/{WEIGHT_SITE}"
            values = store.draws(name)
            leaves.append(values if self._by_chain else values.reshape(-1, *values.shape[2:]))
        return jax.tree.unflatten(jax.tree.structure(like), leaves)

    def __iter__(self) -> Iterator[str]:
        return iter(self._layout)

    def __len__(self) -> int:
        return len(self._layout)


def chosen_states(
    store: RunStore, layout: Mapping[str, Any], numbers: np.ndarray
) -> dict[str, Any]:
    """Some draws of all chains with what was collected, by field."""
    found = {}
    known = set(store.names("posterior"))
    for place, (field, like) in enumerate(layout.items()):
        group = "fields" if place else "posterior"
        names = leaf_names({field: like}) if place else leaf_names(like)
        leaves = []
        for name in names:
            of_weight = not place and name == WEIGHT_SITE and name not in known
            leaves.append(store.chosen(f"{'fields' if of_weight else group}/{name}", numbers))
        found[field] = jax.tree.unflatten(jax.tree.structure(like), leaves)
    return found
