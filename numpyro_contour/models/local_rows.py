"""Passes over rows that lie on several devices, in which each device reads its own rows only.

JAX's compiler does not see that a pass asks for every row once: of `X[rows]` it sends all rows to
all devices, and each of them computes everything. Here the rows are cut into as many parts as there
may be devices. The energies of a part are traced over all rows, as the model is written, and then
evaluated with every `X[rows]` read from the part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Jaxpr, Literal

from numpyro_contour.models.jaxprs import inner_jaxprs
from numpyro_contour.models.row_checks import indexed_by_rows, kept_rows

_CALLS = ("jit", "pjit", "closed_call")


class Part(NamedTuple):
    """Rows that lie together, or several such parts along a leading axis."""

    #: the part of each array of `row_arrays`, (n, ...) each
    arrays: list[jax.Array]
    #: the number of its first row among all
    first: jax.Array


def row_arrays(arguments: Any, size: int) -> dict[int, jax.Array]:
    """The arrays with so many rows on several devices, by their places among the leaves."""
    return {
        place: leaf
        for place, leaf in enumerate(jax.tree.leaves(arguments))
        if isinstance(leaf, jax.Array)
        and leaf.ndim
        and leaf.shape[0] == size
        and number_of_devices(leaf) > 1
    }


def number_of_devices(array: jax.Array) -> int:
    """The devices over which an array may be spread; while it is traced, those of its mesh."""
    if isinstance(array, jax.core.Tracer):
        return max(1, jax.typeof(array).sharding.mesh.size)
    return 1 if array.is_fully_replicated else len(array.sharding.device_set)


def number_of_parts(arguments: Any, size: int) -> int:
    """Into how many parts rows are cut: a multiple of the devices over which they are spread."""
    devices = [number_of_devices(array) for array in row_arrays(arguments, size).values()]
    return math.gcd(size, *devices[:1]) if devices else 1


def by_parts(arguments: Any, size: int, of: Callable[[Part | None], Any]) -> Any:
    """A function of a part of the rows, for all parts.

    Args:
        arguments: a pytree with the arrays of all rows among its leaves.
        size: the number of all rows.
        of: the function. It takes None where the rows are not cut into parts.

    Returns:
        The results along a leading axis, one where the rows are not cut into parts.
    """
    number = number_of_parts(arguments, size)
    if number == 1:
        return jax.tree.map(lambda x: x[None], of(None))
    arrays = row_arrays(arguments, size).values()
    cut = [x.reshape(number, size // number, *x.shape[1:]) for x in arrays]
    firsts = jnp.arange(number, dtype=jnp.int32) * (size // number)
    return jax.vmap(of)(Part(cut, firsts))


def on_part(function: Callable, arguments: Any, size: int, part: Part) -> Callable:
    """A function of rows, that reads from a part of them.

    Args:
        function: `(arguments, rows, *others) -> values`.
        arguments: a pytree with the arrays of all rows among its leaves.
        size: the number of all rows.
        part: a part of them.

    Returns:
        `(rows, *others) -> values`, with the numbers that rows have within the part.
    """

    def read(equation: Any, array: jax.Array, rows: jax.Array) -> jax.Array:
        return equation.primitive.bind(array, rows - part.first, **equation.params)

    def evaluated(rows: jax.Array, *others: Any) -> Any:
        return _read_by(read, part.arrays, function, arguments, size, rows + part.first, *others)

    return evaluated


def in_order(function: Callable, arguments: Any, size: int) -> Callable:
    """A function of all rows in their order, in which `X[rows]` is X.

    Args:
        function: `(arguments, rows, *others) -> values`.
        arguments: a pytree with the arrays of all rows among its leaves.
        size: the number of all rows.

    Returns:
        `(*others) -> values`.
    """
    arrays = list(row_arrays(arguments, size).values())

    def read(equation: Any, array: jax.Array, rows: jax.Array) -> jax.Array:
        if equation.params["slice_sizes"][1:] == array.shape[1:]:
            return array
        return equation.primitive.bind(array, rows, **equation.params)

    return partial(_read_by, read, arrays, function, arguments, size, jnp.arange(size))


def _read_by(
    read: Callable,
    stored: Sequence[jax.Array],
    function: Callable,
    arguments: Any,
    size: int,
    rows: jax.Array,
    *others: Any,
) -> Any:
    """A function of rows, with `X[rows]` read in another way.

    Args:
        read: `(equation, array, rows) -> X[rows]`.
        stored: what it takes as arrays, in the place of those of `row_arrays`.
        function: `(arguments, rows, *others) -> values`.
        arguments: a pytree with the arrays of all rows among its leaves.
        size: the number of all rows.
        rows: the rows' numbers among all.
        *others: other arguments of the function.
    """
    leaves, structure = jax.tree.flatten(arguments)
    known = row_arrays(arguments, size)

    def of_arrays(arrays: Sequence[Any], rows: jax.Array, *others: Any) -> Any:
        filled = list(leaves)
        for place, array in zip(known, arrays):
            filled[place] = array
        return function(jax.tree.unflatten(structure, filled), rows, *others)

    given = (list(known.values()), rows, *others)
    like = jax.tree.map(jax.typeof, given)
    traced, shape = jax.make_jaxpr(of_arrays, return_shape=True)(*like)
    variables = traced.jaxpr.invars
    local, numbers = dict(zip(variables, stored)), {variables[len(known)]: "rows"}
    flat = jax.tree.leaves(given)
    values, _ = _evaluated(traced.jaxpr, traced.consts, flat, local, numbers, read)
    return jax.tree.unflatten(jax.tree.structure(shape), values)


def _evaluated(
    jaxpr: Any,
    constants: Sequence[Any],
    values: Sequence[Any],
    local: Mapping[Any, jax.Array],
    numbers: Mapping[Any, Any],
    read_rows: Callable,
) -> tuple[list[Any], list[Any]]:
    """The results of a jaxpr, and which of them are numbers of rows.

    Args:
        jaxpr: what is evaluated.
        constants: values of its `constvars`.
        values: values of its `invars`.
        local: what to read in place of the arrays of all rows, by variable.
        numbers: the variables that are numbers of rows, as in `row_checks`.
        read_rows: `(equation, array, rows) -> X[rows]`.
    """
    known = dict(zip(jaxpr.constvars, constants)) | dict(zip(jaxpr.invars, values))
    numbers = dict(numbers)

    def of(source: Mapping[Any, Any], variables: Sequence[Any]) -> list[Any]:
        return [None if isinstance(x, Literal) else source.get(x) for x in variables]

    def read(x: Any) -> Any:
        return x.val if isinstance(x, Literal) else known[x]

    for equation in jaxpr.eqns:
        given = [read(x) for x in equation.invars]
        arrays, rows = of(local, equation.invars), of(numbers, equation.invars)
        inner = inner_jaxprs(equation)
        if _reads_rows(equation, arrays, rows):
            found = [read_rows(equation, arrays[0], given[1])]
            which: list[Any] = [None]
        elif equation.primitive.name in _CALLS and any(x is not None for x in arrays):
            called = equation.params["jaxpr"]
            inside = lambda of_caller, called=called: {
                x: y for x, y in zip(called.jaxpr.invars, of_caller) if y is not None
            }
            found, which = _evaluated(
                *(called.jaxpr, called.consts, given, inside(arrays), inside(rows), read_rows)
            )
        else:
            inputs = {x: y for x, y in zip(equation.invars, given) if not isinstance(x, Literal)}
            alone = Jaxpr([], list(inputs), equation.outvars, [equation])
            found = jax.core.eval_jaxpr(alone, [], *inputs.values())
            if len(inner) == 1 and len(inner[0].invars) == len(rows):
                passed = {x: y for x, y in zip(inner[0].invars, rows) if y is not None}
                which = indexed_by_rows(inner[0], passed)[1]
            else:
                which = [kept_rows(equation, rows)]
        known |= dict(zip(equation.outvars, found))
        numbers |= {x: y for x, y in zip(equation.outvars, which) if y is not None}
    return [read(x) for x in jaxpr.outvars], of(numbers, jaxpr.outvars)


def _reads_rows(equation: Any, arrays: Sequence[Any], rows: Sequence[Any]) -> bool:
    """Whether an equation is `X[rows]` of an array of rows."""
    if equation.primitive.name != "gather" or arrays[0] is None or not isinstance(rows[1], str):
        return False
    axes = equation.params["dimension_numbers"].start_index_map
    return axes == (0,) and equation.params["slice_sizes"][0] == 1
