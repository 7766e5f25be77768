"""The scalar variables of a posterior, and quick looks at which of them are the worst."""

from __future__ import annotations

import math

import numpy as np
import xarray as xr

_MOST_COORDINATES = 2000
#: of so many, the worst by a quick look, exact figures are computed
LOOKED_AT = 30


def scalars(posterior: xr.Dataset) -> tuple[list[str], np.ndarray]:
    """Scalar variables that vary, (chains, draws, variables), and their names.

    Of very many every so many are taken, from all variables alike.
    """
    drawn = {
        str(name): variable.transpose("chain", "draw", ...)
        for name, variable in posterior.data_vars.items()
        if variable.dtype.kind in "biuf" and {"chain", "draw"} <= set(variable.dims)
    }
    total = sum(math.prod(variable.shape[2:]) for variable in drawn.values())
    stride = -(-total // _MOST_COORDINATES)
    names, columns = [], []
    for name, variable in drawn.items():
        flat = variable.values.reshape(*variable.shape[:2], -1)
        array = flat[..., ::stride].astype(np.float64)
        varies = np.isfinite(array).all((0, 1)) & (np.ptp(array, axis=(0, 1)) > 0)
        places = [np.unravel_index(i, variable.shape[2:]) for i in range(0, flat.shape[2], stride)]
        names += [_label(name, place) for place, ok in zip(places, varies) if ok]
        columns.append(array[..., varies])
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], 0)
    return names, np.concatenate(columns, -1) if columns else np.zeros(shape)


def _label(name: str, place: tuple) -> str:
    return f"`{name}[{', '.join(str(i) for i in place)}]`" if place else f"`{name}`"


def quick_sizes(values: np.ndarray) -> np.ndarray:
    """Effective sizes by the means of batches, of many variables at once; the order matters."""
    draws = values.shape[1]
    batch = max(2, int(draws**0.5))
    count = draws // batch
    batches = values[:, : count * batch].reshape(len(values), count, batch, -1).mean(2)
    within = values.var(1)
    return (count * within / np.maximum(batches.var(1), 1e-300)).sum(0)


def quick_rhat(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The spread of the chains' means over that within, of many variables at once."""
    means = (weights[..., None] * values).mean(1)
    squares = (weights[..., None] * (values - means[:, None]) ** 2).mean((0, 1))
    return means.var(0) / np.maximum(squares, 1e-300)
