"""The search for the modes of a kernel's density, on the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from numpyro_contour.core.arrays.vectors import coordinate_names, leaf_names
from numpyro_contour.kernels.energy_source import EnergySource
from numpyro_contour.models.coordinates import unconstrained_shapes
from numpyro_contour.models.jaxprs import operations
from numpyro_contour.models.jit_on_data import JittedOnData, quick_options
from numpyro_contour.models.same_data import checksum
from numpyro_contour.modes.descent import descend
from numpyro_contour.modes.landscape import Landscape
from numpyro_contour.modes.mode_list import ModeList
from numpyro_contour.modes.search import Search

# Positions that are evaluated together: many, or fewer where one takes more operations.
_LANES, _FEWEST_LANES, _OPERATIONS = 64, 4, 1e9


class ModeFinder:
    """The energies of a kernel's density on some data, for searches.

    Their program is compiled in another thread from the start, so that it is there when whatever
    else a run begins with has been done.

    Args:
        source: where exact energies come from.
        like: an unconstrained position.
        args: arguments of the model.
        kwargs: its keyword arguments.
    """

    def __init__(self, source: EnergySource, like: Any, args: tuple, kwargs: dict):
        begin = time.perf_counter()
        # Of values that were traced, the shapes are known.
        self._like = jax.tree.map(lambda x: np.zeros(jnp.shape(x), x.dtype), like)
        self._data = args, kwargs
        self._size = sum(map(np.size, jax.tree.leaves(self._like)))

        def program(starts: Any, most: Any, args: tuple, kwargs: dict) -> Any:
            potential = source.potential(args, kwargs)
            energies = source.estimator("full", potential, self._like, ())(())
            return descend(partial(energies, random.key(0)), starts, most)

        dtype = jnp.result_type(float)
        number = np.int32(0)

        def traced(lanes: int) -> tuple[jax.stages.Traced, list]:
            starts = jax.ShapeDtypeStruct((lanes, self._size), dtype)
            return JittedOnData(program).traced(starts, number, args, kwargs)

        self._lanes = _LANES
        found, self._arrays = traced(_LANES)
        # Of each evaluation, of all lanes.
        cost = operations(found.jaxpr.jaxpr)
        if cost > _OPERATIONS:
            self._lanes = max(_FEWEST_LANES, 2 ** int(np.log2(_LANES * _OPERATIONS / cost)))
            found, self._arrays = traced(self._lanes)
        lowered = found.lower()
        pool = ThreadPoolExecutor(max_workers=1)
        self._compiled = pool.submit(lowered.compile, compiler_options=quick_options())
        pool.shutdown(wait=False)
        self._seconds = {"trace": time.perf_counter() - begin}

    def find(self, how: Callable[[Landscape], Search]) -> ModeList:
        """The modes that a search finds.

        Args:
            how: the search.
        """
        begin = time.perf_counter()
        compiled, arrays = self._compiled.result(), self._arrays
        waited = time.perf_counter()
        landscape = Landscape(
            lambda starts, most: compiled(starts, most, arrays), self._size, self._lanes
        )
        found = how(landscape)
        names, leaves = leaf_names(self._like), jax.tree.leaves(self._like)
        made = ModeList.of(
            found,
            coordinate_names(self._like),
            dict(zip(names, map(np.shape, leaves))),
            checksum(*self._data),
        )
        seconds = {"compile": waited - begin, "search": time.perf_counter() - waited}
        return replace(made, seconds=self._seconds | seconds)


def position_like(source: EnergySource, args: tuple, kwargs: dict, init_params: Any) -> Any:
    """An unconstrained position of one chain: its shapes.

    Args:
        source: where energies come from.
        args: arguments of the model.
        kwargs: its keyword arguments.
        init_params: a position, which a potential function needs.

    Raises:
        ValueError: it is missing.
    """
    if source.model is not None:
        return unconstrained_shapes(source.model_potential(args, kwargs))
    if init_params is None:
        raise ValueError("`init_params` must be given with `potential_fn`, but got None.")
    return jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(jnp.shape(x), jnp.result_type(x, float)), init_params
    )
