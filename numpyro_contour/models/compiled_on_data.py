"""Functions of a model's arguments that run once, compiled quickly and ahead of their call."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import jax
import numpy as np

from numpyro_contour.models.disk.on_disk import with_stored
from numpyro_contour.models.jit_on_data import JittedOnData, quick_options
from numpyro_contour.models.local_rows import number_of_devices
from numpyro_contour.models.same_data import checksum

# Programs that are compiled at once: XLA gives the interpreter free meanwhile.
_THREADS = 2


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="compiling")


class CompiledOnData:
    """A function of `(one, other, model_args, model_kwargs)`, compiled quickly.

    Its program takes the data as an argument and is kept by their shapes. What a model computes by
    NumPy in double precision it computes while its program is traced: that one is kept for these
    data only, as are those of models that need the values of their arrays.
    """

    def __init__(self, function: Callable):
        self._function = function
        #: programs in the making, with what they are kept by, which must not be collected
        self._kept: dict[Any, tuple[Future, list]] = {}
        #: what is known of models that need the values of their arrays
        self._by_value: set[Any] = set()

    def begin(self, one: Any, other: Any, model_args: tuple, model_kwargs: dict) -> Callable:
        """Compile for arguments like these, in another thread.

        Returns:
            The function of `one` and `other` on these data.
        """
        # Arrays that stay on disk are static: each of them is equal to itself only.
        data = with_stored((model_args, model_kwargs))
        if any(map(_is_spread, jax.tree.leaves((one, other, data)))):
            jitted = JittedOnData(self._function)
            return lambda one, other: jitted(one, other, *data)
        shapes = _key(jax.tree.map(_shaped, (one, other)))
        leaves, structure = jax.tree.flatten(data)
        by_shape = (shapes, structure, *(_shaped(x) if _is_lent(x) else _known(x) for x in leaves))
        by_value = (shapes, structure, *map(_known, leaves))
        arrays = [] if by_shape in self._by_value else [x for x in leaves if _is_lent(x)]
        key = by_value if by_shape in self._by_value else by_shape
        if key not in self._kept:
            try:
                traced = self._traced(one, other, leaves, structure, arrays)
            except (TypeError, jax.errors.JAXTypeError, jax.errors.JAXIndexError):
                if not arrays:
                    raise
                self._by_value.add(by_shape)
                return self.begin(one, other, model_args, model_kwargs)
            self._kept[key] = _compiling(traced), leaves
        compiled, _ = self._kept[key]
        return lambda one, other: compiled.result()(one, other, arrays)

    def _traced(
        self, one: Any, other: Any, leaves: list, structure: Any, arrays: list
    ) -> jax.stages.Traced:
        def program(one: Any, other: Any, arrays: list) -> Any:
            lent = iter(arrays)
            filled = [next(lent) if arrays and _is_lent(leaf) else leaf for leaf in leaves]
            return self._function(one, other, *structure.unflatten(filled))

        return jax.jit(program).trace(one, other, arrays)


def _compiling(traced: jax.stages.Traced) -> Future:
    lowered, options = traced.lower(), quick_options()
    return _threads().submit(lowered.compile, compiler_options=options)


def _is_lent(leaf: Any) -> bool:
    """Whether an array is an argument of the program: not where NumPy computes more precisely."""
    if isinstance(leaf, np.ndarray):
        return (
            leaf.dtype.kind in "biufc" and jax.dtypes.canonicalize_dtype(leaf.dtype) == leaf.dtype
        )
    return isinstance(leaf, jax.Array)


def _is_spread(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and number_of_devices(leaf) > 1


def _shaped(leaf: Any) -> tuple:
    return np.shape(leaf), str(leaf.dtype)


def _key(tree: Any) -> tuple:
    leaves, structure = jax.tree.flatten(tree)
    return structure, *leaves


def _known(leaf: Any) -> tuple:
    """What a leaf is known by that a program has as a constant."""
    if isinstance(leaf, np.ndarray | jax.Array):
        return (*_shaped(leaf), checksum((leaf,), {}))
    try:
        hash(leaf)
    except TypeError:
        return type(leaf), id(leaf)
    return type(leaf), leaf  # 1, 1.0 and True stay apart
