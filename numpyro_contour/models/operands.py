"""Large arrays of a model as operands of the program that is compiled, not as its constants.

NumPyro compiles a kernel's `sample` around the model's arguments. Each place that reads an array
would hold it as a constant of its own, and compiling copies each of them several times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.models.disk.on_disk import with_stored
from numpyro_contour.models.indexable_arrays import IndexableArray
from numpyro_contour.models.local_rows import number_of_devices
from numpyro_contour.models.model_potential import ModelPotential

# Bytes from which on an array is an operand: constants that are small cost nothing.
_LARGE = 2**20

# Operands in place of arrays, by their identity: each with its array, and the list to which arrays
# are added whose values were asked for.
_values: ContextVar[dict[int, tuple[Any, Any, list]] | None] = ContextVar("values", default=None)


def with_operands(
    function: Callable[[Any, tuple, dict], Any], state: Any, model_args: tuple, model_kwargs: dict
) -> Any:
    """A function of a state and a model's arguments, whose large arrays enter as operands.

    A NumPy array stays what it is, so that a model computes with its values; what JAX's arrays
    index of it comes from the operand. A model that needs the values of a JAX array gets all
    arrays as constants.

    Args:
        function: the function of a state, `model_args` and `model_kwargs`. Where JAX compiles
            nothing around it, it is called as it is.
        state: the state.
        model_args: arguments of the model.
        model_kwargs: its keyword arguments.

    Returns:
        The function's value.
    """
    leaves: list[Any]
    structure: Any
    leaves, structure = jax.tree.flatten(with_stored((model_args, model_kwargs)))
    large = [leaf for leaf in leaves if _is_large(leaf)]
    if not large or not any(map(is_compiled, jax.tree.leaves(state))):
        return function(state, model_args, model_kwargs)

    def of_operands(state: Any, operands: list[jax.Array]) -> Any:
        remaining = iter(operands)
        pairs = [(next(remaining) if _is_large(leaf) else None, leaf) for leaf in leaves]
        filled = [leaf if operand is None else _standing(operand, leaf) for operand, leaf in pairs]
        with standing_for([pair for pair in pairs if pair[0] is not None]):
            return function(state, *structure.unflatten(filled))

    try:
        return jax.jit(of_operands)(state, [jnp.asarray(leaf) for leaf in large])
    except (jax.errors.JAXTypeError, jax.errors.JAXIndexError):
        return function(state, model_args, model_kwargs)


def on_operands(function: Callable, potential: ModelPotential, position: Any) -> Any:
    """A function of a potential energy and a position, whose large arrays enter as operands."""

    def of(position: Any, args: tuple, kwargs: dict) -> Any:
        of_arguments = replace(potential, model_args=args, model_kwargs=kwargs, known={})
        return function(of_arguments, position)

    return with_operands(of, position, potential.model_args, potential.model_kwargs)


def is_compiled(value: Any) -> bool:
    """Whether a value is traced, by more than `jax.vmap` alone."""
    while type(value).__name__ == "BatchTracer":
        value = value.val
    return isinstance(value, jax.core.Tracer)


def with_values(potential: ModelPotential) -> ModelPotential:
    """The potential energy on the arrays for which operands stand."""
    args, kwargs = jax.tree.map(_value, (potential.model_args, potential.model_kwargs))
    return replace(potential, model_args=args, model_kwargs=kwargs, known={})


def _is_large(leaf: Any) -> bool:
    if isinstance(leaf, jax.core.Tracer) or not isinstance(leaf, np.ndarray | jax.Array):
        return False
    if isinstance(leaf, jax.Array) and (number_of_devices(leaf) > 1 or _is_key(leaf)):
        return False
    return leaf.nbytes >= _LARGE and (isinstance(leaf, jax.Array) or leaf.dtype.kind in "biufc")


def _is_key(leaf: jax.Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _standing(operand: jax.Array, leaf: Any) -> Any:
    if isinstance(leaf, jax.Array):
        return operand
    array = leaf.view(IndexableArray)
    array.operand = operand
    return array


@contextmanager
def standing_for(pairs: list[tuple[Any, Any]]) -> Iterator[list]:
    """Let `with_values` find the arrays in whose place there are operands.

    Args:
        pairs: operands, each with its array.

    Yields:
        A list of the arrays whose values were asked for.
    """
    asked: list[Any] = []
    # The operand is kept with its array, so that no other object takes its identity.
    known = {id(operand): (operand, array, asked) for operand, array in pairs}
    token = _values.set((_values.get() or {}) | known)
    try:
        yield asked
    finally:
        _values.reset(token)


def _value(leaf: Any) -> Any:
    if isinstance(leaf, IndexableArray):
        return np.asarray(leaf).view(IndexableArray)
    found = (_values.get() or {}).get(id(leaf))
    if found is None:
        return leaf
    found[2].append(found[1])
    return found[1]
