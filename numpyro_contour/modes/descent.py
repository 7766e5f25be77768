"""Descents from a batch of positions to the bottoms of their modes, in one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.samplers.guard import all_finite
from numpyro_contour.modes.lbfgs import (
    Lbfgs,
    Point,
    inverse_curvatures,
    learn_from,
    no_pairs,
    try_step,
)

# A descent rests if the energy has fallen by less than this in 8 evaluations, and the model
# of L-BFGS promises no more: in nats, for each coordinate and at least. What the model promises is
# not enough, since a few pairs know little of a long valley.
_FALL_A_COORDINATE, _FALL, _EVALUATIONS = 1e-4, 1e-3, 8
# Falls of fewer roundings of the energy than this are no falls.
_ROUNDINGS = 8

#: `(position, data) -> (potential energy, gradient)` of one position, (d,)
EnergyAndGradient = Callable[..., tuple[jax.Array, jax.Array]]


class Ends(NamedTuple):
    """Where descents have come to."""

    #: (n, d)
    position: jax.Array
    #: potential energies in nats, (n,)
    energy: jax.Array
    #: (n, d)
    gradient: jax.Array
    #: the diagonal of an inverse Hessian by the last steps, (n, d)
    inverse_curvature: jax.Array
    #: whether nothing moved any more, (n,)
    rests: jax.Array
    #: evaluations that were made of each, ()
    evaluations: jax.Array


class _Walk(NamedTuple):
    """How far a descent has come."""

    #: the energy when it was last looked at
    energy: jax.Array
    #: whether it rests
    rests: jax.Array


def descend(
    energy_and_gradient: EnergyAndGradient, starts: jax.Array, most_evaluations: jax.Array
) -> Ends:
    """The ends of descents by L-BFGS, one evaluation a step, until all of them rest.

    With one evaluation it gives the energies and gradients at the starts.

    Args:
        energy_and_gradient: of one position, (d,).
        starts: where descents begin, (n, d).
        most_evaluations: of each descent, (); at least 1.

    Returns:
        The `Ends`.

    Source: Nocedal and Wright (2006), Algorithms 7.4 and 7.5, without their line search; see
    `lbfgs`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.modes.descent import descend
        >>> energy = jax.value_and_grad(lambda x: jnp.sum((x**2 - 4) ** 2))
        >>> ends = descend(energy, jnp.array([[1.0, -0.5], [3.0, 0.2]]), 100)
        >>> ends.position.round(2).tolist(), ends.rests.tolist()
        ([[2.0, -2.0], [2.0, 2.0]], [True, True])
    """
    most = jnp.asarray(most_evaluations, jnp.int32)
    fall = max(_FALL, _FALL_A_COORDINATE * starts.shape[1])

    def at(x: jax.Array) -> Point:
        return Point(x, *energy_and_gradient(x))

    def step(number: jax.Array, here: Point, memory: Lbfgs, walk: _Walk) -> tuple:
        trial = try_step(memory, here.gradient)
        # The start is the first trial: an energy above all others is replaced by any.
        first = number == 0
        there = at(here.position + jnp.where(first, 0.0, trial.change))
        finite = all_finite(*there)
        taken, learnt = learn_from(memory, trial, here, there, finite)
        memory = tree_where(first, memory, learnt)
        moved = tree_where(taken | first, there, here)
        rounding = _ROUNDINGS * jnp.finfo(here.energy.dtype).eps * jnp.abs(here.energy)
        promised = -(here.gradient @ trial.direction)
        looks = number % _EVALUATIONS == _EVALUATIONS - 1
        little = jnp.maximum(promised, walk.energy - moved.energy) < fall + rounding
        # From where nothing is finite no way leads down.
        rests = (looks & little) | (first & ~finite)
        return moved, memory, _Walk(jnp.where(looks, moved.energy, walk.energy), rests)

    def goes_on(carry: tuple) -> jax.Array:
        number, _, _, walk = carry
        return (number < most) & ~jnp.all(walk.rests)

    def steps(carry: tuple) -> tuple:
        number, here, memory, walk = carry
        moved = jax.vmap(step, (None, 0, 0, 0))(number, here, memory, walk)

        def keep(old: jax.Array, new: jax.Array) -> jax.Array:
            return jnp.where(walk.rests.reshape(-1, *[1] * (new.ndim - 1)), old, new)

        return number + 1, *jax.tree.map(keep, (here, memory, walk), moved)

    count, size = starts.shape
    begin = Point(starts, jnp.full_like(starts[:, 0], jnp.inf), jnp.zeros_like(starts))
    memories = jax.tree.map(lambda x: jnp.broadcast_to(x, (count, *x.shape)), no_pairs(size))
    walks = _Walk(begin.energy, jnp.zeros((count,), bool))
    carry = (jnp.zeros((), jnp.int32), begin, memories, walks)
    number, here, memory, walks = lax.while_loop(goes_on, steps, carry)
    return Ends(*here, jax.vmap(inverse_curvatures)(memory), walks.rests, number)
