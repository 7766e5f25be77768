"""Estimators of the potential energy and its gradient, chosen by the argument `energy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from numpyro_contour import checks
from numpyro_contour.minibatch import ModelPotential
from numpyro_contour.samplers.base import PotentialAndGrad

ESTIMATORS = ("minibatch", "full")


def check_energy(value: Any) -> str | Callable | None:
    """The argument `energy`."""
    if value is None or callable(value):
        return value
    if value not in ESTIMATORS:
        raise checks.fail("energy", value, "None, 'minibatch', 'full' or a callable")
    return value


def is_exact(energy: str | Callable | None, potential: ModelPotential | None = None) -> bool:
    """Whether the energies of a run are exact, of a model's potential or of a function's (None)."""
    if callable(energy):
        return False
    return energy == "full" or potential is None or not potential.plates


def of_model(potential: ModelPotential, energy: str | Callable | None) -> PotentialAndGrad:
    """The estimator of a model's potential energy.

    Args:
        potential: the potential energy of the model.
        energy: None chooses "full" without subsample plates and "minibatch" with them; or one of
            these; or a callable `(key, position) -> (potential energy, gradient)`.

    Raises:
        ValueError: "minibatch" without a subsample plate.
    """
    if callable(energy):
        return energy
    if energy == "minibatch" and not potential.plates:
        raise ValueError(
            "`energy` takes 'minibatch' only where a plate is subsampled, but no plate of the "
            "model is. Give `minibatch_size`, or `subsample_size` in the model."
        )
    if not is_exact(energy, potential):
        return lambda key, position: jax.value_and_grad(potential.minibatch, argnums=1)(
            key, position
        )
    return of_function(potential.full, None)


def of_function(potential_fn: Callable, energy: str | Callable | None) -> PotentialAndGrad:
    """The estimator of a potential function: exact, or the callable `energy`.

    Raises:
        ValueError: `energy` is "minibatch".
    """
    if callable(energy):
        return energy
    if energy == "minibatch":
        raise ValueError(
            "`energy` takes None, 'full' or a callable with `potential_fn`, but got 'minibatch'."
        )
    value_and_grad = jax.value_and_grad(potential_fn)
    return lambda key, position: value_and_grad(position)
