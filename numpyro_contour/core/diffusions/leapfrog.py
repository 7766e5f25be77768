"""Langevin and Hamiltonian moves that a Metropolis-Hastings test accepts."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from numpyro_contour.core.diffusions.diffusion import (
    DRIFT_LIMIT,
    Diffusion,
    Proposal,
    Step,
    drawn,
    normal_like,
    preconditioner_sqrt,
)
from numpyro_contour.core.diffusions.underdamped import check_momentum, momentum_coefficient

#: Steps are drawn anew from this many factors of e below the step size. Short ones leave places
#: where the density is so narrow, or jumps so much, that long ones are always refused.
SPREAD = 4.0
# How far the number that decides on acceptance drifts in a step, of the 2 of its circle.
_DRIFT = 0.03


class LeapfrogMemory(NamedTuple):
    """What `leapfrog` remembers."""

    #: the velocity, standard normal, in the structure of a position
    velocity: Any
    #: the number on the circle (-1, 1) whose size the density ratio must exceed
    level: jax.Array
    #: how many moves were accepted so far
    moved: jax.Array


class LeapfrogAttempt(NamedTuple):
    """A move that is not tested yet."""

    #: the velocity before the move
    before: Any
    #: the velocity in the middle of it
    middle: Any
    #: h, the time of the step
    time: jax.Array
    #: as in the memory
    level: jax.Array
    moved: jax.Array


def leapfrog(
    momentum: float | None = 0.0,
    friction: float | None = None,
    preconditioner: Any = None,
    spread: float = SPREAD,
) -> Diffusion:
    r"""One leapfrog step for each refreshment of the velocity, for an exact acceptance.

    .. math:: v = c\, v_k + \sqrt{1 - c^2}\, R, \qquad
              v' = v - \tfrac h2 f(x), \qquad y = x + h \sqrt\tau M^{1/2} v', \qquad
              v'' = v' - \tfrac h2 f(y)

    with :math:`f = \lambda M^{1/2} \nabla U / \sqrt\tau`, its half kicks clipped by coordinate as
    the drift of `langevin` is, and :math:`h^2 = 2\epsilon / (1 + c)`. The move from (x, v) to
    (y, v'') keeps volumes, and is its own inverse once the velocity is reversed, whatever the force
    is. So it is exact if it is accepted with probability

    .. math:: \min\Bigl\{1, \frac{\pi(y)}{\pi(x)}\, e^{(|v|^2 - |v''|^2) / 2}\Bigr\}

    and the velocity is reversed where it is refused. Without momentum, c = 0, it is the
    Metropolis-adjusted Langevin algorithm. With momentum, the number that decides on acceptance
    drifts instead of being drawn anew, so that refusals, which turn the chain round, come in
    clusters and not one by one. Each step size is :math:`\epsilon e^{-s u}` with u uniform in
    (0, 1).

    Args:
        momentum: c in [0, 1). Defaults to 0. None where `friction` is given.
        friction: as for `underdamped`. None (default) to use `momentum`.
        preconditioner: the diagonal of M > 0, in the structure of a position. None (default) for 1.
        spread: s, at least 0. Defaults to 4.

    Returns:
        A `Diffusion` for exact energies and temperatures above 0, with the test `accept`. Its
        memory is a `LeapfrogMemory`.

    Raises:
        ValueError: momentum or friction is out of its range, or both are given.

    Source: Horowitz (1991) for the partial refreshment; Roberts and Tweedie (1996) without
    momentum; Neal (2020), *Non-reversibly updating a uniform [0, 1] value for Metropolis
    accept/reject decisions*.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import Step, leapfrog
        >>> diffusion = leapfrog()
        >>> x, step = jnp.ones(2), Step(jnp.array(0.1), jnp.array(1.0))
        >>> memory = diffusion.init(jax.random.key(0), x)
        >>> proposal = diffusion.propose(jax.random.key(1), x, memory, x, step)
        >>> y = proposal.position
        >>> rise = jnp.sum(y**2 - x**2) / 2
        >>> accepted, memory = diffusion.accept(proposal.memory, y, step, -rise)
        >>> bool(accepted), int(memory.moved)
        (True, 1)
    """
    momentum, friction = check_momentum(momentum, friction)
    persists = momentum != 0

    def init(key: jax.Array, position: Any) -> LeapfrogMemory:
        dtype = jnp.result_type(float)
        return LeapfrogMemory(
            normal_like(key, position), jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
        )

    def draw(key: jax.Array, position: Any) -> tuple[jax.Array, Any, jax.Array]:
        """The share of the spread, the new part of the velocity and the level of a move."""
        key_step, key_velocity, key_level = random.split(key, 3)
        uniform = partial(random.uniform, dtype=jnp.result_type(float))
        return uniform(key_step), normal_like(key_velocity, position), uniform(key_level)

    def half_kicked(velocity: Any, gradient: Any, step: Step, time: jax.Array) -> Any:
        """The velocity after half a kick."""
        rate = 0.5 * time * step.multiplier / jnp.sqrt(step.temperature)
        root = preconditioner_sqrt(preconditioner, gradient)
        return jax.tree.map(
            lambda v, r, g: v - jnp.clip(rate * r * g, -DRIFT_LIMIT, DRIFT_LIMIT),
            *(velocity, root, gradient),
        )

    def propose(
        key: jax.Array, position: Any, memory: LeapfrogMemory, gradient: Any, step: Step
    ) -> Proposal:
        share, fresh, level = drawn(draw, key, position)
        shrinks = spread * share
        c = momentum_coefficient(momentum, friction, step.step_size)
        before = jax.tree.map(
            lambda v, r: c * v + jnp.sqrt(1 - c**2) * r,
            *(memory.velocity, fresh),
        )
        if persists:
            level = jnp.mod(memory.level + _DRIFT + 1, 2) - 1
        time = jnp.sqrt(2 * step.step_size * jnp.exp(-shrinks) / (1 + c))
        middle = half_kicked(before, gradient, step, time)
        root = preconditioner_sqrt(preconditioner, position)
        length = time * jnp.sqrt(step.temperature)
        moved = jax.tree.map(lambda x, r, v: x + length * r * v, position, root, middle)
        attempt = LeapfrogAttempt(before, middle, time, level, memory.moved)
        return Proposal(moved, attempt, memory, jnp.zeros((), bool))

    def accept(
        attempt: LeapfrogAttempt, gradient: Any, step: Step, log_ratio: jax.Array
    ) -> tuple[jax.Array, LeapfrogMemory]:
        after = half_kicked(attempt.middle, gradient, step, attempt.time)
        squares = jax.tree.map(lambda a, b: jnp.sum(a**2 - b**2), attempt.before, after)
        log_ratio = log_ratio + 0.5 * jax.tree.reduce(jnp.add, squares)
        accepted = jnp.log(jnp.abs(attempt.level)) < log_ratio
        velocity = jax.tree.map(lambda a, b: jnp.where(accepted, a, -b), after, attempt.before)
        # The level is relative to the density where the chain is.
        level = jnp.where(accepted, attempt.level * jnp.exp(-log_ratio), attempt.level)
        return accepted, LeapfrogMemory(velocity, level, attempt.moved + jnp.where(accepted, 1, 0))

    return Diffusion(init, propose, accept=accept, draw=draw)
