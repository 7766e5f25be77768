"""Whether a plate has as many rows as the arrays that its indices are of.

JAX takes the last element for an index past the end, so that a plate that is too large counts the
last row over and over, and one that is too small leaves rows out: both without a word.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal

from numpyro_contour.checks import warn_user
from numpyro_contour.models.disk.stored_array import StoredArray
from numpyro_contour.models.handlers import (
    initialised,
    model_trace,
    record_plates,
    record_reads,
    subsample_rows,
)
from numpyro_contour.models.indexable_arrays import indexable
from numpyro_contour.models.jaxprs import inner_jaxprs

#: a plate, the shape of an array that is indexed by its rows, and the axis
Indexed = tuple[str, tuple[int, ...], int]

#: the plate whose row numbers a value has, or in a tuple, those with a number added
Rows = str | tuple[str]

# What leaves a row's number as it is.
_SAME = ("convert_element_type", "broadcast_in_dim", "reshape", "squeeze", "copy", "concatenate")


def check_rows(model: Callable, model_args: tuple, model_kwargs: dict) -> None:
    """Compare every plate with the arrays that are indexed by its rows.

    Args:
        model: a NumPyro model.
        model_args: its arguments.
        model_kwargs: its keyword arguments.

    Raises:
        ValueError: a plate has more rows than an array.

    Warns:
        UserWarning: a plate has fewer rows than an array.
    """
    model_args, model_kwargs = indexable((model_args, model_kwargs))
    recorder = record_plates(model)
    model_trace(recorder, model_args, model_kwargs)
    sizes = {name: size for name, (size, _) in recorder.plates.items()}
    rows = {
        name: jax.ShapeDtypeStruct((n or sizes[name],), jnp.result_type(int))
        for name, (_, n) in recorder.plates.items()
    }

    stored: set[Indexed] = set()

    def run(indices: dict[str, jax.Array]) -> Any:
        started = subsample_rows(initialised(model, jax.random.key(0)), indices)
        reads = record_reads(started, indices)
        reads(*model_args, **model_kwargs)
        stored.update((plate, array.shape, 0) for plate, array in reads.reads)
        return indices

    traced = jax.make_jaxpr(run)(rows).jaxpr
    warned = set()
    indexed, _ = indexed_by_rows(traced, dict(zip(traced.invars, sorted(rows))))
    for name, shape, axis in sorted(indexed | stored):
        size, length = sizes[name], shape[axis]
        array = _named(model, model_args, model_kwargs, shape)
        if size > length:
            raise ValueError(
                f"The plate {name!r} takes as many rows as the arrays that it indexes, but it has "
                f"{size:,} and {array} has {length:,}: every row past the end would be the last "
                f"one again. Make it numpyro.plate({name!r}, {length}, ...)."
            )
        if size < length and name not in warned:
            warned.add(name)
            warn_user(
                f"The plate {name!r} has {size:,} rows and {array}, which it indexes, has "
                f"{length:,}: the last {length - size:,} are never seen. Make it "
                f"numpyro.plate({name!r}, {length}, ...), or leave those rows out of the array."
            )


def indexed_by_rows(
    jaxpr: Any, plates: Mapping[Any, Rows]
) -> tuple[set[Indexed], list[Rows | None]]:
    """The arrays that are indexed by plates' rows, and the plates whose rows are the results."""
    plate_of, found = dict(plates), set()
    for equation in jaxpr.eqns:
        known = _known(plate_of, equation.invars)
        inner = inner_jaxprs(equation)
        if equation.primitive.name == "gather":
            axis = equation.params["dimension_numbers"].start_index_map[0]
            if isinstance(known[1], str) and equation.params["slice_sizes"][axis] == 1:
                found.add((known[1], equation.invars[0].aval.shape, axis))
            continue
        if len(inner) == 1 and len(inner[0].invars) == len(equation.invars):
            inside = {x: plate for x, plate in zip(inner[0].invars, known) if plate is not None}
            more, results = indexed_by_rows(inner[0], inside)
            found |= more
        else:
            results = [kept_rows(equation, known)]
        plate_of |= {x: plate for x, plate in zip(equation.outvars, results) if plate is not None}
    return found, _known(plate_of, jaxpr.outvars)


def _known(plate_of: Mapping[Any, Rows], values: list[Any]) -> list[Rows | None]:
    return [None if isinstance(x, Literal) else plate_of.get(x) for x in values]


def kept_rows(equation: Any, known: list[Rows | None]) -> Rows | None:
    """The rows that are the result of an equation, None where it is something else."""
    name = equation.primitive.name
    if name == "add" and isinstance(known[0], str):
        return (known[0],)
    if name == "select_n":  # between a row's number and the same from the end, and no other choice
        plates = [plate for plate in known[1:] if isinstance(plate, str)]
        return plates[0] if plates and set(known[1:]) == {plates[0], (plates[0],)} else None
    return known[0] if name in _SAME else None


def _named(model: Callable, args: tuple, kwargs: dict, shape: tuple[int, ...]) -> str:
    """An array by the name of the argument that it is, if there is only one, or by its shape."""
    try:
        arguments = inspect.signature(model).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        arguments = kwargs
    names = [
        name
        for name, value in arguments.items()
        if isinstance(value, np.ndarray | jax.Array | StoredArray) and value.shape == shape
    ]
    return f"`{names[0]}`" if len(names) == 1 else f"an array of shape {shape}"
