"""Functions of a model's arguments that run once, compiled quickly and ahead of their call."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np

from numpyro_contour.models.disk.on_disk import with_stored
from numpyro_contour.models.jaxprs import operations
from numpyro_contour.models.jit_on_data import JittedOnData, quick_options
from numpyro_contour.models.local_rows import number_of_devices
from numpyro_contour.models.operands import standing_for, with_operands
from numpyro_contour.models.same_data import checksum

# Programs that are compiled at once: XLA gives the interpreter free meanwhile. The most that are
# kept of a function, for data of other shapes or values.
_THREADS, _MOST = 2, 8


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="compiling")


@dataclass(frozen=True)
class Begun:
    """A function of `(one, other)` whose program is being compiled."""

    call: Callable
    #: shapes and types of what it returns; None where they are not known yet
    shapes: Any = None

    def __call__(self, one: Any, other: Any) -> Any:
        """What it returns, once it is compiled."""
        return self.call(one, other)


class CompiledOnData:
    """A function of `(one, other, model_args, model_kwargs)`, compiled quickly.

    Its program takes the data as an argument and is kept by their shapes. It is kept for these data
    only where it depends on their values: where NumPy computes with them in double precision, where
    their rows are clustered, and where a model needs them to be traced.
    """

    def __init__(self, function: Callable):
        self._function = function
        #: programs in the making, each with the shapes of what it returns, and the arguments by
        #: whose identity it is kept
        self._kept: OrderedDict[Any, tuple[Future, Any, list]] = OrderedDict()
        #: what is kept by the values of the data, and whether these are constants of it
        self._by_value: dict[Any, bool] = {}
        #: those that were not compiled, as they take too many operations
        self._too_large: set[Any] = set()

    def begin(
        self,
        one: Any,
        other: Any,
        model_args: tuple,
        model_kwargs: dict,
        most_operations: float = np.inf,
        is_waited_for: bool = False,
    ) -> Begun | None:
        """Compile for arguments like these, in another thread.

        Args:
            one: the first argument, or another one of these shapes.
            other: the second.
            model_args: arguments of the model.
            model_kwargs: its keyword arguments.
            most_operations: the most that the program may take, as `operations` counts them.
                Defaults to any number.
            is_waited_for: as for `quick_options`. Defaults to False.

        Returns:
            The function of `one` and `other` on these data; None where it takes more operations.
        """
        # Arrays that stay on disk are static: each of them is equal to itself only.
        data = with_stored((model_args, model_kwargs))
        if any(map(_is_spread, jax.tree.leaves((one, other, data)))):
            jitted = JittedOnData(self._function)
            return Begun(lambda one, other: jitted(one, other, *data))
        leaves, structure = jax.tree.flatten(data)
        shapes = _key(jax.tree.map(_shaped, (one, other))), structure
        key = *shapes, *(_shaped(x) if _is_lent(x) else _known(x) for x in leaves)
        by_value = lambda: (*shapes, *map(_known, leaves))
        arrays = [] if self._by_value.get(key, False) else [x for x in leaves if _is_lent(x)]
        place = by_value() if key in self._by_value else key
        if place in self._too_large:
            return None
        if place not in self._kept:
            try:
                traced, asked = self._traced(one, other, leaves, structure, arrays)
            except (TypeError, jax.errors.JAXTypeError, jax.errors.JAXIndexError):
                if not arrays:
                    raise
                self._by_value[key] = True
                more = most_operations, is_waited_for
                return self.begin(one, other, model_args, model_kwargs, *more)
            if asked:
                self._by_value[key] = False
                place = by_value()
            if most_operations < np.inf and operations(traced.jaxpr.jaxpr) > most_operations:
                self._too_large.add(place)
                return None
            statics = [x for x in leaves if not _is_array(x)]
            self._kept[place] = _compiling(traced, is_waited_for), traced.out_info, statics
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        self._kept.move_to_end(place)
        compiled, shapes, _ = self._kept[place]
        return Begun(lambda one, other: compiled.result()(one, other, arrays), shapes)

    def _traced(
        self, one: Any, other: Any, leaves: list, structure: Any, arrays: list
    ) -> tuple[jax.stages.Traced, list]:
        """The program, and the arrays on whose values it depends although it takes them."""
        asked: list[Any] = []

        def program(one: Any, other: Any, arrays: list) -> Any:
            lent = iter(arrays)
            pairs = [(next(lent) if arrays and _is_lent(x) else None, x) for x in leaves]
            filled = [leaf if operand is None else operand for operand, leaf in pairs]
            on_data = lambda one, args, kwargs: self._function(one, other, args, kwargs)
            with standing_for([pair for pair in pairs if pair[0] is not None]) as of_these:
                # What is left of large arrays enters once, not at each of its uses.
                found = with_operands(on_data, one, *structure.unflatten(filled))
            asked.extend(of_these)
            return found

        return jax.jit(program).trace(one, other, arrays), asked


def _compiling(traced: jax.stages.Traced, is_waited_for: bool) -> Future:
    lowered, options = traced.lower(), quick_options(is_waited_for)
    return _threads().submit(lowered.compile, compiler_options=options)


def _is_array(leaf: Any) -> bool:
    """Whether a leaf is an array of numbers."""
    return isinstance(leaf, np.ndarray | jax.Array) and leaf.dtype != object


def _is_lent(leaf: Any) -> bool:
    """Whether an array is an argument of the program: not where NumPy computes more precisely."""
    if not isinstance(leaf, np.ndarray):
        return isinstance(leaf, jax.Array)
    as_precise = jax.dtypes.canonicalize_dtype(leaf.dtype) == leaf.dtype
    return leaf.dtype.kind in "biu" or (leaf.dtype.kind in "fc" and as_precise)


def _is_spread(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and number_of_devices(leaf) > 1


def _shaped(leaf: Any) -> tuple:
    return np.shape(leaf), str(leaf.dtype)


def _key(tree: Any) -> tuple:
    leaves, structure = jax.tree.flatten(tree)
    return structure, *leaves


def _known(leaf: Any) -> tuple:
    """What a leaf is known by that a program has as a constant."""
    if isinstance(leaf, np.ndarray) and _is_array(leaf):
        # Of all its digits: those that single precision does not have are why it is a constant.
        held = hashlib.blake2b(np.ascontiguousarray(leaf).view(np.uint8).data)
        return (*_shaped(leaf), held.digest())
    if isinstance(leaf, jax.Array):
        return (*_shaped(leaf), checksum((leaf,), {}))
    try:
        hash(leaf)
    except TypeError:
        return type(leaf), id(leaf)
    return type(leaf), leaf  # 1, 1.0 and True stay apart
