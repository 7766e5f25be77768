"""The scalars of a posterior: every coordinate of its variables, by name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from numpyro_contour import checks

_MOST_COORDINATES = 2000


class Scalar(NamedTuple):
    """One coordinate of a variable."""

    #: as ArviZ labels it: `name[coordinate, ...]`
    label: str
    #: draws, (chains, draws)
    values: np.ndarray


def label(name: str, place: Sequence[Any], separator: str = ", ") -> str:
    """The name of one coordinate of a variable: `name[i, j]`, or `name` alone without any."""
    return f"{name}[{separator.join(map(str, place))}]" if len(place) else name


def numeric_variables(dataset: xr.Dataset) -> dict[str, xr.DataArray]:
    """The variables that hold a number, or an array of numbers, for each draw."""
    return {
        str(name): x.transpose("chain", "draw", ...)
        for name, x in dataset.data_vars.items()
        if x.dtype.kind in "biuf" and {"chain", "draw"} <= set(x.dims)
    }


def varying_scalars(posterior: xr.Dataset) -> tuple[list[str], np.ndarray]:
    """The scalars that vary: their names in backticks, and draws (chains, draws, scalars).

    From very many, a regular subset of all variables is taken.
    """
    drawn = numeric_variables(posterior)
    total = sum(math.prod(variable.shape[2:]) for variable in drawn.values())
    stride = -(-total // _MOST_COORDINATES)
    names, columns = [], []
    for name, variable in drawn.items():
        flat = variable.values.reshape(*variable.shape[:2], -1)
        array = flat[..., ::stride]
        varies = np.isfinite(array).all((0, 1)) & (array.max((0, 1)) > array.min((0, 1)))
        places = [np.unravel_index(i, variable.shape[2:]) for i in range(0, flat.shape[2], stride)]
        names += [f"`{label(name, place)}`" for place, ok in zip(places, varies) if ok]
        columns.append(array if varies.all() else array[..., varies])
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], 0)
    if len(columns) == 1:  # as it is: these may be all draws of a large run
        return names, columns[0]
    return names, np.concatenate(columns, -1) if columns else np.zeros(shape)


def chosen_scalars(
    posterior: xr.Dataset,
    var_names: str | Sequence[str] | None,
    coords: Mapping[str, Any] | None,
    at_least: int,
    most: int,
) -> list[Scalar]:
    """Every coordinate of the chosen variables.

    Raises:
        ValueError: a name or a coordinate is not there, or there are too few or too many scalars.
    """
    chosen = _selected(posterior[_names(posterior, var_names)], coords or {})
    number = sum(math.prod(x.shape[2:]) for x in chosen.values())
    if not at_least <= number <= most:
        takes = f"names of variables with {at_least} to {most} scalars in all (or choose `coords`)"
        raise checks.fail("var_names", f"{number} scalars", takes)
    return list(_each(chosen))


def first_scalars(posterior: xr.Dataset, most: int) -> list[Scalar]:
    """The first scalars of a posterior."""
    return list(itertools.islice(_each(numeric_variables(posterior)), most))


def _names(posterior: xr.Dataset, var_names: str | Sequence[str] | None) -> list[str]:
    """The names of these numeric variables, or of all."""
    numeric = list(numeric_variables(posterior))
    if var_names is None:
        return numeric
    names = [var_names] if isinstance(var_names, str) else list(var_names)
    for name in names:
        if name not in numeric:
            raise checks.fail("var_names", name, f"names out of {numeric}")
    return names


def _selected(chosen: xr.Dataset, coords: Mapping[str, Any]) -> dict[str, xr.DataArray]:
    """The variables at these coordinates."""
    own = [dim for dim in chosen.dims if dim not in ("chain", "draw")]
    for dim in coords:
        if dim not in own:
            raise checks.fail("coords", dim, f"coordinates of the dimensions {own}")
    # A single value stays a dimension, so that it stands in the label.
    values = {d: v if isinstance(v, slice) else np.atleast_1d(v) for d, v in coords.items()}
    try:
        taken = chosen.sel(values)
    except KeyError as error:
        raise checks.fail("coords", dict(coords), f"values that are there ({error})") from None
    return numeric_variables(taken)


def _each(variables: dict[str, xr.DataArray]) -> Iterator[Scalar]:
    for name, variable in variables.items():
        for place in np.ndindex(variable.shape[2:]):
            at = [variable[dim].values[i] for dim, i in zip(variable.dims[2:], place)]
            values = variable.values[(slice(None), slice(None), *place)]
            yield Scalar(label(name, at), values.astype(np.float64))
