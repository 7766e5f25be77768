"""Places that a descent comes to, and which of two can be part of a posterior."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

# Curvatures by a few pairs tell the mass around a place up to a factor of exp(10 + d).
_SCATTER = 10.0


class Place(NamedTuple):
    """Where a descent has come to."""

    #: (d,)
    position: jax.Array
    energy: jax.Array
    #: (d,)
    gradient: jax.Array
    #: diagonal of an inverse Hessian, (d,)
    inverse_curvature: jax.Array


def implausible_height(size: int) -> float:
    r"""Nats above a posterior's lowest energy at which it has no draws, :math:`20 + 2d`.

    Energies of draws are :math:`\chi^2_d / 2` above the lowest one where the posterior is about a
    Gaussian. That they are by 2 d + 20 has a probability below :math:`e^{-15 - 0.8 d}`.
    """
    return 20.0 + 2.0 * size


def log_room(inverse_curvature: jax.Array) -> jax.Array:
    """The logarithm of the room around a place, but for a constant, by its inverse curvatures."""
    return 0.5 * jnp.sum(jnp.log(inverse_curvature), -1)


def log_mass(place: Place) -> jax.Array:
    """The logarithm of the mass around a place, but for a constant, by Laplace's method."""
    return log_room(place.inverse_curvature) - place.energy


def has_less_mass(log_mass: jax.Array, other: jax.Array, size: int) -> jax.Array:
    """Whether there is less mass around a place than around another, whatever pairs tell.

    Args:
        log_mass: that of the place.
        other: that of the other.
        size: coordinates d.
    """
    return log_mass < other - _SCATTER - size


def is_deep_in_neck(place: Place, other: Place) -> jax.Array:
    """Whether a place is far below another, farther than a bottom below draws, with less mass."""
    size = place.position.shape[-1]
    sunk = other.energy - place.energy > implausible_height(size) / 2
    return sunk & has_less_mass(log_mass(place), log_mass(other), size)


def is_implausible(
    energy: jax.Array,
    inverse_curvature: jax.Array,
    lowest: jax.Array,
    inverse_curvature_there: jax.Array,
) -> jax.Array:
    """Whether a place can have no part of a posterior that has another place.

    It lies beyond the plausible height, also after the volume around it, by the two diagonals of
    inverse curvatures, is counted: a narrow neck is deeper than the wide mode that it leads out of.
    It is counted twice: a chain that walks in a neck tells of a room that is too wide.

    Args:
        energy: the energy of the place, in nats.
        inverse_curvature: the inverse curvatures there, (d,).
        lowest: the energy of the other place.
        inverse_curvature_there: those of the other place, (d,).
    """
    limit = implausible_height(inverse_curvature.shape[-1])
    height = energy - lowest
    wider = log_room(inverse_curvature) - log_room(inverse_curvature_there)
    # A place without a finite energy is implausible wherever there is another.
    return ~(jnp.minimum(height, height - 2 * wider) <= limit) & jnp.isfinite(lowest)
