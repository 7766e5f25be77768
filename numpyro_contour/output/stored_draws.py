"""The arrays of a store as xarray reads them: when they are used, and what is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from numpyro_contour.runs.stored.store import RunStore


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
