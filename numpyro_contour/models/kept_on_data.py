"""Results that are kept for a model and its arguments, for as long as these live."""

from __future__ import annotations

import hashlib
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

import jax
import numpy as np

from numpyro_contour.models.model_potential import ModelPotential

# Results that are kept at most.
_KEPT = 8


class KeptOnData:
    """A function of a potential energy, evaluated once for a model, its plates and its arguments.

    NumPy's arrays may change in place and are told apart by what they hold, JAX's arrays by being
    the same object. An argument that neither hashes nor takes weak references is never recognized.
    """

    def __init__(self, function: Callable[[ModelPotential], Any]):
        self._function = function
        self._results: OrderedDict[Hashable, tuple[list[weakref.ref], Any]] = OrderedDict()

    def __call__(self, potential: ModelPotential) -> Any:
        """The function's result."""
        found = _key_of(potential)
        if found is None:
            return self._function(potential)
        key, references = found
        if key in self._results and all(ref() is not None for ref in self._results[key][0]):
            self._results.move_to_end(key)
            return self._results[key][1]
        result = self._function(potential)
        self._results[key] = (references, result)
        self._results.move_to_end(key)
        while len(self._results) > _KEPT:
            self._results.popitem(last=False)
        return result


def _key_of(potential: ModelPotential) -> tuple[Hashable, list[weakref.ref]] | None:
    """What a model and its arguments are recognized by, and references to what must live."""
    references: list[weakref.ref] = []

    def by_identity(value: Any) -> Hashable:
        references.append(weakref.ref(value))
        return "object", id(value)

    def of_leaf(leaf: Any) -> Hashable:
        if isinstance(leaf, np.ndarray) and leaf.dtype != object:
            held = hashlib.blake2b(np.ascontiguousarray(leaf).view(np.uint8).data).digest()
            return "array", leaf.shape, leaf.dtype.str, held
        if isinstance(leaf, jax.Array):
            return by_identity(leaf)
        try:
            return "value", type(leaf), hash(leaf), leaf
        except TypeError:
            return by_identity(leaf)

    leaves, structure = jax.tree.flatten((potential.model_args, potential.model_kwargs))
    plates = tuple(potential.plates.sizes.items()), tuple(potential.plates.whole.items())
    try:
        key = (by_identity(potential.model), structure, plates, *map(of_leaf, leaves))
    except TypeError:
        return None
    return key, references
