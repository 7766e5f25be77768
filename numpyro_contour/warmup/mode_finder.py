"""The search for the modes of a kernel's density, on the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from numpyro_contour.core.arrays.vectors import coordinate_names, leaf_names
from numpyro_contour.energies.source import EnergySource
from numpyro_contour.models.compiled_on_data import Begun, CompiledOnData
from numpyro_contour.models.coordinates import unconstrained_shapes
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
        program: that of `search_program`.
        like: an unconstrained position.
        args: arguments of the model.
        kwargs: its keyword arguments.
    """

    def __init__(self, program: CompiledOnData, like: Any, args: tuple, kwargs: dict):
        begin = time.perf_counter()
        # Of values that were traced, the shapes are known.
        self._like = jax.tree.map(lambda x: np.zeros(jnp.shape(x), x.dtype), like)
        self._data = args, kwargs
        self._size = sum(map(np.size, jax.tree.leaves(self._like)))
        self._lanes = 2 * _LANES
        compiled: Begun | None = None
        while compiled is None:
            self._lanes //= 2
            # Of each evaluation, of all lanes.
            most = _OPERATIONS if self._lanes > _FEWEST_LANES else np.inf
            starts = np.zeros((self._lanes, self._size), jnp.result_type(float))
            one = starts, self._like
            compiled = program.begin(one, np.int32(0), args, kwargs, most)
        self._compiled = compiled
        self.seconds = {"trace": time.perf_counter() - begin}

    def landscape(self) -> Landscape:
        """The energies, once their program is compiled."""
        begin = time.perf_counter()
        found = Landscape(
            lambda starts, most: self._compiled((starts, self._like), most), self._size, self._lanes
        )
        found.at(np.zeros((1, self._size)))
        found.gradients, found.seconds = 0, 0.0
        self.seconds["compile"] = time.perf_counter() - begin
        return found

    def find(self, how: Callable[[Landscape], Search]) -> ModeList:
        """The modes that a search finds.

        Args:
            how: the search.
        """
        landscape = self.landscape()
        begin = time.perf_counter()
        found = how(landscape)
        names, leaves = leaf_names(self._like), jax.tree.leaves(self._like)
        made = ModeList.of(
            found,
            coordinate_names(self._like),
            dict(zip(names, map(np.shape, leaves))),
            checksum(*self._data),
        )
        return replace(made, seconds=self.seconds | {"search": time.perf_counter() - begin})


def search_program(source: EnergySource) -> CompiledOnData:
    """The program of the descents of searches, which is kept for data of the same shapes.

    Args:
        source: where exact energies come from.
    """

    def program(one: tuple, most: Any, args: tuple, kwargs: dict) -> Any:
        starts, like = one
        energies = source.on(source.potential(args, kwargs), like).everywhere
        return descend(partial(energies, random.key(0)), starts, most)

    return CompiledOnData(program)


def generator_of(key: jax.Array) -> np.random.Generator:
    """A generator of NumPy's by a random key, or by the first of several."""
    if isinstance(key, jax.core.Tracer):  # chains in parallel: all of them search as one
        return np.random.default_rng(0)
    typed = jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)
    words = np.asarray(random.key_data(key) if typed else key)
    return np.random.default_rng(words.reshape(-1, words.shape[-1])[0].tolist())


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
