"""Whether the energies of a model's rows have the derivatives that a control variate takes."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.vectors import ravel, unravel_like
from numpyro_contour.models.all_rows import along
from numpyro_contour.models.coordinates import unconstrained_shapes
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.row_terms import terms


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
