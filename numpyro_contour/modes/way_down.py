"""The way down from where a chain is to the bottom of its mode, and the mode's shape there."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.arrays.factors import eigh
from numpyro_contour.core.samplers.chain import PotentialAndGrad, evaluate
from numpyro_contour.core.samplers.guard import all_finite
from numpyro_contour.core.samplers.known_modes import times
from numpyro_contour.modes.lbfgs import (
    Lbfgs,
    Point,
    inverse_curvatures,
    learn_from,
    no_pairs,
    try_step,
)

#: gradients of a way down
DESCENT_LENGTH = 80
#: up to so many coordinates the shape of a mode is a matrix
MOST_FULL_SHAPE = 40
# How far from the bottom gradients are compared, in standard deviations of each coordinate. A
# smaller step would measure rounding, a larger one the tails.
_APART = 0.3
# The smallest curvature of a direction as a share of the largest; a bottom has none below 0.
_LEAST_CURVATURE = 1e-6
# How far from the bottom a descent may have ended, as the fall in nats that a step of Newton's
# method promises, for each coordinate and at least.
_FALL_A_COORDINATE, _LEAST_FALL = 0.02, 0.25
#: minibatches by which a bottom is checked
MINIBATCHES = 8
# The largest variance of a gradient between them for each coordinate, in units of a standard
# normal's.
_NOISE_OF_A_SLOPE = 4.0


class Shape(NamedTuple):
    """A mode by a normal: its mean, its factor, and whether it is one."""

    #: m, (d,)
    mean: jax.Array
    #: F, (d, d), or its diagonal, (d,)
    factor: jax.Array
    #: the inverse of F
    inverse: jax.Array
    #: log of the determinant of F
    log_volume: jax.Array
    #: the energy at m, in nats
    energy: jax.Array
    #: whether the descent had arrived
    arrived: jax.Array


def way_down(key: jax.Array, potential_and_grad: PotentialAndGrad, position: jax.Array) -> Place:
    """The bottom of the mode that a position belongs to, by `DESCENT_LENGTH` steps of L-BFGS.

    Args:
        key: random key, the same for each step: minibatches are the same rows.
        potential_and_grad: `(key, position) -> (potential energy, gradient)`.
        position: where the way begins, (d,).
    """

    def at(x: jax.Array) -> Point:
        found = evaluate(potential_and_grad, key, x)
        return Point(x, found.energy, found.gradient)

    # The start is the first trial: an energy above all others is replaced by any.
    size = position.shape[-1]
    start = Point(position, jnp.full_like(position[0], jnp.inf), jnp.zeros_like(position))

    def step(number: jax.Array, walk: tuple[Point, Lbfgs]) -> tuple[Point, Lbfgs]:
        here, memory = walk
        trial = try_step(memory, here.gradient)
        first = number == 0
        there = at(here.position + jnp.where(first, 0.0, trial.change))
        finite = all_finite(*there)
        taken, learnt = learn_from(memory, trial, here, there, finite)
        memory = tree_where(first, memory, learnt)
        taken |= first
        return tree_where(taken, there, here), memory

    here, memory = lax.fori_loop(0, DESCENT_LENGTH, step, (start, no_pairs(size)))
    return Place(here.position, here.energy, here.gradient, inverse_curvatures(memory))


def shape_at(
    key: jax.Array,
    potential_and_grad: PotentialAndGrad,
    bottom: Place,
    temperature: jax.Array,
    exact: bool = True,
) -> Shape:
    r"""The normal that fits a mode at its bottom: covariance :math:`\tau H^{-1}`.

    The Hessian H is that of differences of gradients some tenths of a standard deviation apart.
    What is left of the way down is a step of Newton's method.

    Args:
        key: random key, the same for each gradient.
        potential_and_grad: `(key, position) -> (potential energy, gradient)`.
        bottom: where the descent has ended.
        temperature: tau > 0.
        exact: whether gradients are exact. Else they are means over further minibatches, which
            also decide where the bottom is. Defaults to True.
    """
    size = bottom.position.shape[-1]
    apart = _APART * jnp.sqrt(bottom.inverse_curvature * temperature)
    sides = jnp.concatenate([jnp.diag(apart), -jnp.diag(apart)])

    if exact:
        at_bottom = bottom.gradient[None]
        slope = lambda side: evaluate(potential_and_grad, key, bottom.position + side).gradient
        gradients = lax.map(slope, sides)
    else:
        keys = random.split(random.fold_in(key, 1), MINIBATCHES)
        slopes = lambda side: lax.map(
            lambda key: evaluate(potential_and_grad, key, bottom.position + side).gradient, keys
        )
        # The bottom is one more of them, so that the energies are compiled once.
        found = lax.map(slopes, jnp.concatenate([sides, jnp.zeros_like(sides[:1])]))
        gradients, at_bottom = found[:-1].mean(1), found[-1]
    scaled = 0.5 * (gradients[:size] - gradients[size:]) * apart
    scaled = 0.5 * (scaled + scaled.T)
    usable = jnp.isfinite(scaled).all()
    values, vectors = eigh(jnp.where(usable, scaled, jnp.eye(size, dtype=scaled.dtype)))
    top = jnp.maximum(values[-1], jnp.finfo(values.dtype).tiny)
    values = jnp.maximum(values, _LEAST_CURVATURE * top)
    # The symmetric root: modes of about one shape have about one factor, which no other root has.
    sds = jnp.sqrt(temperature / values)
    factor = apart[:, None] * (vectors * sds) @ vectors.T
    inverse = (vectors / sds) @ vectors.T / apart
    log_volume = jnp.sum(jnp.log(apart) + jnp.log(sds))
    slopes = at_bottom @ factor
    shape = _with_newton_step(factor, inverse, log_volume, slopes.mean(0), bottom, temperature)
    # The noise of a minibatch must not hide where the bottom is.
    squares = jnp.sum(slopes**2, -1).mean()
    usable &= squares < size * _NOISE_OF_A_SLOPE * temperature**2
    return shape._replace(arrived=shape.arrived & usable)


def scales_at(bottom: Place, scales: jax.Array, temperature: jax.Array) -> Shape:
    """A normal of given scales at the bottom of a mode, (d,), where a matrix would be too large.

    Args:
        bottom: where the descent has ended.
        scales: the diagonal of F, (d,).
        temperature: tau > 0.
    """
    log_volume, slopes = jnp.sum(jnp.log(scales)), scales * bottom.gradient
    return _with_newton_step(scales, 1 / scales, log_volume, slopes, bottom, temperature)


def _with_newton_step(
    factor: jax.Array,
    inverse: jax.Array,
    log_volume: jax.Array,
    slopes: jax.Array,
    bottom: Place,
    temperature: jax.Array,
) -> Shape:
    move = times(factor, slopes)
    left = 0.5 * jnp.sum(slopes**2) / temperature**2
    size = bottom.position.shape[-1]
    arrived = left < jnp.maximum(_LEAST_FALL, _FALL_A_COORDINATE * size)
    arrived &= all_finite(bottom.energy, log_volume, move)
    mean = jnp.where(arrived, bottom.position - move / temperature, bottom.position)
    return Shape(mean, factor, inverse, log_volume, bottom.energy - left * temperature, arrived)


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
