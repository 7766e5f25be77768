"""Estimators of the potential energy and its gradient, chosen by the argument `energy`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.control_variate import control_variate, plain
from numpyro_contour.flat import ravel, unravel_like
from numpyro_contour.full_data import FullData
from numpyro_contour.minibatch import ModelPotential

ESTIMATORS = ("minibatch", "control_variate", "full")

#: `(key, position, anchor) -> (potential energy, gradient)` of flat positions; the anchor is that
#: of the chain for a control variate, and passed over by all others
Estimator = Callable[[jax.Array, jax.Array, Any], tuple[jax.Array, jax.Array]]


def check_energy(value: Any) -> str | Callable | None:
    """The argument `energy`."""
    if value is None or callable(value):
        return value
    if value not in ESTIMATORS:
        takes = "None, 'minibatch', 'control_variate', 'full' or a callable"
        raise checks.fail("energy", value, takes)
    return value


def chosen(
    energy: str | Callable | None, potential: ModelPotential | None, descends: bool
) -> str | Callable:
    """What the argument `energy` means for a model's potential, or for a function's (None).

    Args:
        energy: the argument.
        potential: the potential energy of the model.
        descends: whether the warm-up descends to a point where an anchor can be.

    Raises:
        ValueError: minibatches are asked for where no plate is subsampled.
    """
    if callable(energy):
        return energy
    subsampled = potential is not None and bool(potential.plates)
    if energy is None:
        if not subsampled:
            return "full"
        return "control_variate" if descends else "minibatch"
    if energy == "full" or subsampled:
        return energy
    if potential is None:
        raise ValueError(
            f"`energy` takes None, 'full' or a callable with `potential_fn`, but got {energy!r}."
        )
    raise ValueError(
        f"`energy` takes {energy!r} only where a plate is subsampled, but no plate of the model "
        "is. Give `minibatch_size`, or `subsample_size` in the model."
    )


def of_model(
    energy: str | Callable, potential: ModelPotential, like: Any, chunk_bytes: int, in_use: Any
) -> Estimator:
    """The estimator of a model's potential energy.

    Args:
        energy: what `chosen` returned.
        potential: the potential energy of the model.
        like: an unconstrained position.
        chunk_bytes: memory that a pass over all data may take.
        in_use: whether the control variate of any chain is in use.
    """
    if callable(energy):
        return of_callable(energy, like)
    if energy == "control_variate":
        return control_variate(potential, like, in_use)
    if energy == "minibatch":
        return plain(potential, like)
    if not potential.plates:
        return of_function(potential.full, like)
    full_data = FullData(potential, like, chunk_bytes)

    def estimate(key: jax.Array, flat: jax.Array, anchor: Any) -> tuple[jax.Array, jax.Array]:
        energy, gradient = full_data.energy_and_gradient(flat)
        return energy.high, gradient

    return estimate


def of_function(potential_fn: Callable, like: Any) -> Estimator:
    """The exact potential energy of a function of positions."""
    value_and_grad = jax.value_and_grad(lambda flat: potential_fn(unravel_like(flat, like)))
    return lambda key, flat, anchor: value_and_grad(flat)


def of_callable(energy: Callable, like: Any) -> Estimator:
    """The user's own `(key, position) -> (potential energy, gradient)`."""
    expected = jax.tree.map(jnp.shape, like)

    def estimate(key: jax.Array, flat: jax.Array, anchor: Any) -> tuple[jax.Array, jax.Array]:
        value, gradient = energy(key, unravel_like(flat, like))
        shapes = jax.tree.map(jnp.shape, gradient)
        if shapes != expected or jnp.shape(value) != ():
            raise ValueError(
                "`energy` takes a callable `(key, z)` that returns a scalar potential energy "
                f"and a gradient of the shapes of z, {expected}, but it returned shapes "
                f"{jnp.shape(value)} and {shapes}."
            )
        return jnp.asarray(value, flat.dtype), ravel(gradient).astype(flat.dtype)

    return estimate
