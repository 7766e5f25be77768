"""Other labels for the components of a mixture: places where further modes may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import random
from numpyro.infer.util import unconstrain_fn

from numpyro_contour.core.arrays.vectors import ravel, unravel_like
from numpyro_contour.models.coordinates import constrained, decentred
from numpyro_contour.models.model_potential import ModelPotential

# The most labels that are exchanged: of more, few of all orders would ever be tried.
_MOST_LABELS = 12
# What transforms raise that have no inverse, or none for these values.
_ERRORS = (
    *(TypeError, ValueError, KeyError, IndexError, AttributeError, NotImplementedError),
    *(AssertionError, RuntimeError, jax.errors.JAXTypeError),
)

#: `(key, position) -> position`
Relabel = Callable[[jax.Array, jax.Array], jax.Array]


def relabelling_of(potential: ModelPotential, like: Any) -> Relabel | None:
    r"""A random order of the components of a model, from and to unconstrained positions.

    .. math:: z' = T^{-1}(\pi\, T(z))

    Here T are the constraining transforms. One order :math:`\pi` reorders the leading axes of all
    latent sites that have the same length. Where these are the components of a mixture, z' is in
    another of its copies of a mode. Elsewhere it is a place like any other, from which a descent
    may begin.

    Args:
        potential: the potential energy of the model.
        like: an unconstrained position of the model.

    Returns:
        The function of a random key and a position (d,); a position whose reordered values are
        outside of their support, as those of an ordered vector, comes back as it is. None where no
        latent site has a leading axis of 2 to 12, or a transform cannot be inverted.
    """

    def values(z: dict) -> dict[str, jax.Array]:
        found = constrained(potential, z)
        return {name: x for name, x in found.items() if name in potential.latent}

    shapes = {name: x.shape for name, x in jax.eval_shape(values, like).items()}
    labels = sorted({shape[0] for shape in shapes.values() if shape})
    labels = [number for number in labels if 2 <= number <= _MOST_LABELS]
    if not labels:
        return None
    model = potential.rows(potential.plates.first_rows())

    def relabel(key: jax.Array, position: jax.Array) -> jax.Array:
        orders = {n: random.permutation(random.fold_in(key, n), n) for n in labels}
        reordered = {
            name: x[orders[len(x)]] if x.ndim and len(x) in orders else x
            for name, x in values(unravel_like(position, like)).items()
        }
        z = unconstrain_fn(model, potential.model_args, potential.model_kwargs, reordered)
        z = decentred(potential, {name: z[name] for name in like}, getattr(like, "centring", None))
        there = ravel(z).astype(position.dtype)
        return jnp.where(jnp.isfinite(there).all(), there, position)

    try:
        jax.eval_shape(relabel, random.key(0), ravel(like))
    except _ERRORS:
        return None
    return relabel
