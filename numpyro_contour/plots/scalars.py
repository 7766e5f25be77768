"""Scalars of the posterior by name and coordinate."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from numpyro_contour import checks


class Scalar(NamedTuple):
    """One coordinate of a variable."""

    #: as ArviZ labels it: `name[coordinate, ...]`
    label: str
    #: draws, (chains, draws)
    values: np.ndarray


def scalars(
    groups: dict[str, xr.Dataset],
    var_names: str | Sequence[str] | None,
    coords: Mapping[str, Any] | None,
    at_least: int,
    most: int,
) -> list[Scalar]:
    """Every coordinate of the chosen variables of the posterior.

    Raises:
        ValueError: a name or a coordinate is not there, or there are too few or too many scalars.
    """
    chosen = _selected(_named(groups["posterior"], var_names), coords or {})
    number = sum(int(np.prod(x.shape[2:])) for x in chosen)
    if not at_least <= number <= most:
        takes = f"names of variables with {at_least} to {most} scalars in all (or choose `coords`)"
        raise checks.fail("var_names", f"{number} scalars", takes)
    return list(_each(chosen))


def first_scalars(groups: dict[str, xr.Dataset], most: int) -> list[Scalar]:
    """The first scalars of the posterior."""
    return list(itertools.islice(_each(_selected(_named(groups["posterior"], None), {})), most))


def _each(variables: list[xr.DataArray]) -> Iterator[Scalar]:
    for variable in variables:
        for place in np.ndindex(variable.shape[2:]):
            values = variable.values[(slice(None), slice(None), *place)]
            yield Scalar(_label(variable, place), values.astype(np.float64))


def _named(posterior: xr.Dataset, var_names: str | Sequence[str] | None) -> xr.Dataset:
    """The numeric variables of these names, or all."""
    numeric = [
        str(name)
        for name, x in posterior.data_vars.items()
        if x.dtype.kind in "biuf" and {"chain", "draw"} <= set(x.dims)
    ]
    if var_names is None:
        return posterior[numeric]
    names = [var_names] if isinstance(var_names, str) else list(var_names)
    for name in names:
        if name not in numeric:
            raise checks.fail("var_names", name, f"names out of {numeric}")
    return posterior[names]


def _selected(chosen: xr.Dataset, coords: Mapping[str, Any]) -> list[xr.DataArray]:
    """The variables at these coordinates, (chains, draws, ...) each."""
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
    return [x.transpose("chain", "draw", ...) for x in taken.data_vars.values()]


def _label(variable: xr.DataArray, place: tuple[int, ...]) -> str:
    if not place:
        return str(variable.name)
    values = [variable[dim].values[i] for dim, i in zip(variable.dims[2:], place)]
    return f"{variable.name}[{', '.join(map(str, values))}]"
