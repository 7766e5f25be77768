"""Estimators of the potential energy: of all rows, by a callable, and the choice of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.core.arrays.precision import full_precision
from numpyro_contour.core.arrays.vectors import ravel, unravel_like
from numpyro_contour.energies.anchors import CONTROL_VARIATES, Expansions
from numpyro_contour.energies.control_variate import control_variate
from numpyro_contour.energies.minibatch import plain
from numpyro_contour.models.all_rows import FullData, along
from numpyro_contour.models.coordinates import unconstrained_shapes
from numpyro_contour.models.either_mode import values_and_gradient
from numpyro_contour.models.local_rows import in_order, row_arrays
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.row_terms import terms

ESTIMATORS = ("minibatch", *CONTROL_VARIATES, "full")


def check_energy(value: Any) -> str | Callable | None:
    """The argument `energy`."""
    if value is None or callable(value):
        return value
    if not isinstance(value, str) or value not in ESTIMATORS:
        takes = f"None, {', '.join(map(repr, ESTIMATORS))} or a callable"
        raise checks.fail("energy", value, takes)
    return value


def chosen(
    energy: str | Callable | None, potential: ModelPotential | None, descends: bool
) -> str | Callable:
    """What the argument `energy` means for a model's potential, or for a function's (None).

    It is "control_variate" for every kind of it.

    Args:
        energy: the argument.
        potential: the potential energy of the model.
        descends: whether the warm-up descends to a point where an anchor can be.

    Raises:
        ValueError: minibatches are asked for where no plate is subsampled, or a control variate of
            rows that cannot be differentiated.
    """
    if callable(energy):
        return energy
    subsampled = potential is not None and bool(potential.plates)
    trains = potential is not None and subsampled and potential.asks
    if trains and energy not in (None, "minibatch"):
        raise ValueError(
            f"`energy` takes None or 'minibatch' for a model that asks whether it is in training "
            f"or has modules with a state, but got {energy!r}: the energy of a row depends on its "
            "minibatch or on a random key."
        )
    if energy is None:
        if not subsampled:
            return "full"
        assert potential is not None
        if trains:
            return "minibatch"
        return "control_variate" if descends and not lacking_derivative(potential) else "minibatch"
    if subsampled and energy in CONTROL_VARIATES:
        assert potential is not None
        lacking = lacking_derivative(potential)
        if lacking:
            raise ValueError(
                f"`energy` takes {energy!r} only where the energies of the rows can be "
                f"differentiated twice, also in forward mode, but got a model that cannot "
                f"({lacking}). Use 'minibatch' or 'full'."
            )
        return "control_variate"
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
    energy: str | Callable,
    potential: ModelPotential,
    like: Any,
    chunk_bytes: int,
    expansions: Expansions | None,
    order: Any,
    tells_noise: Any,
) -> Estimator:
    """The estimator of a model's potential energy.

    Args:
        energy: what `chosen` returned.
        potential: the potential energy of the model.
        like: an unconstrained position.
        chunk_bytes: memory that a pass over all data may take.
        expansions: those of a control variate that may come, None where there will be none.
        order: the one in use, 0 where no chain has an anchor.
        tells_noise: whether it tells the variance of the energy's noise.
    """
    if callable(energy):
        return of_callable(energy, like)
    if energy == "control_variate":
        assert expansions is not None
        return control_variate(potential, like, expansions, order, tells_noise)
    if energy == "minibatch":
        return plain(potential, like)
    if not potential.plates:
        return of_model_at_once(potential, like)
    return of_all_rows(potential, like, chunk_bytes)


#: `(key, position, anchor) -> (potential energy, gradient)` of flat positions; the anchor is that
#: of the chain for a control variate, and passed over by all others
Estimator = Callable[[jax.Array, jax.Array, Any], tuple[jax.Array, jax.Array]]


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


def lacking_derivative(potential: ModelPotential) -> str:
    """Why the energies of rows have no second derivative along a line; empty where they have one.

    Rows computed by a callback, or by a function whose derivative is given for reverse mode only
    (`jax.custom_vjp`, for instance an adjoint solver), have none. Nothing is computed.

    Args:
        potential: the potential energy of a model with subsample plates.
    """
    if "lacking derivative" not in potential.known:
        potential.known["lacking derivative"] = _lacking(potential)
    return potential.known["lacking derivative"]


def _lacking(potential: ModelPotential) -> str:
    rows = potential.plates.first_rows()
    like = unconstrained_shapes(potential)

    def bend(flat: jax.Array) -> tuple:
        energies = lambda x: terms(potential, unravel_like(x, like), rows)
        values, pull = jax.vjp(energies, flat)
        return along(energies, flat, flat), pull(values)

    size = jax.eval_shape(ravel, like).shape
    # JAX raises the last of these where a primitive has no rule of differentiation.
    try:
        jax.eval_shape(bend, jax.ShapeDtypeStruct(size, jnp.result_type(float)))
    except (TypeError, ValueError, NotImplementedError) as error:
        return str(error).strip().split("\n")[0].rstrip(".")
    return ""
