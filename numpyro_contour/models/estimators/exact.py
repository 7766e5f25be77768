"""The exact potential energy: of a function, or of a model over all rows in chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax

from numpyro_contour.core.arrays.precision import full_precision
from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.models.all_rows import FullData
from numpyro_contour.models.either_mode import values_and_gradient
from numpyro_contour.models.estimators.estimator import Estimator
from numpyro_contour.models.local_rows import in_order, row_arrays
from numpyro_contour.models.model_potential import ModelPotential


def of_function(potential_fn: Callable, like: Any) -> Estimator:
    """The exact potential energy of a function of positions."""
    energy = full_precision(lambda flat: potential_fn(unravel_like(flat, like)))
    return lambda key, flat, anchor: values_and_gradient(energy, flat)


def of_model_at_once(potential: ModelPotential, like: Any) -> Estimator:
    """The exact potential energy of a model without subsample plates.

    Where its rows lie on several devices, each device computes those that it has.
    """
    data = potential.model_args, potential.model_kwargs
    spread = [name for name, size in potential.whole_plates.items() if row_arrays(data, size)]
    if len(spread) != 1:
        return of_function(potential.full, like)
    (plate,) = spread

    def energy(data: tuple, rows: jax.Array, position: dict) -> jax.Array:
        of_data = replace(potential, model_args=data[0], model_kwargs=data[1])
        return of_data.at(position, {**potential.plates.all_rows(), plate: rows})

    full = in_order(energy, data, potential.whole_plates[plate])
    return of_function(full, like)


def of_all_rows(potential: ModelPotential, like: Any, chunk_bytes: int) -> Estimator:
    """The exact potential energy of a model with subsample plates, by passes over all rows."""
    full_data = FullData(potential, like, chunk_bytes)

    def estimate(key: jax.Array, flat: jax.Array, anchor: Any) -> tuple[jax.Array, jax.Array]:
        energy, gradient = full_data.energy_and_gradient(flat)
        return energy.high, gradient

    return estimate
