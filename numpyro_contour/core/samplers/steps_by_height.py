"""Steps whose size depends on the potential energy, learnt at a few levels of it."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.interpolation import interpolation_weights

#: Levels at which steps are learnt. With many, each step is as rough as the few moves that it was
#: learnt from, and chains get stuck where one is too large.
NUM_LEVELS = 4

#: Mean probability of acceptance that step sizes are tuned to, near the best of the
#: Metropolis-adjusted Langevin algorithm in many dimensions.
TARGET_ACCEPTANCE = 0.6


class LevelSteps(NamedTuple):
    """Steps at evenly spaced levels from the lower end of a partition to its upper one."""

    #: log of the step size, (levels,)
    log_step_size: jax.Array
    #: mean square of the gradient, (levels, d)
    square: jax.Array
    #: moves from each level, (levels,)
    moves: jax.Array


def initial_steps(log_step_size: jax.Array, square: jax.Array) -> LevelSteps:
    """The same step at all levels.

    Args:
        log_step_size: log of the step size, ().
        square: mean square of the gradient, (d,).
    """
    return LevelSteps(
        jnp.broadcast_to(log_step_size, (NUM_LEVELS,)),
        jnp.broadcast_to(square, (NUM_LEVELS, square.shape[-1])),
        jnp.zeros((NUM_LEVELS,), square.dtype),
    )


def level_weights(height: jax.Array) -> jax.Array:
    """The weights of the levels at a height from 0 to 1, (levels,)."""
    return interpolation_weights(height * (NUM_LEVELS - 1), NUM_LEVELS)


def step_size_at(steps: LevelSteps, height: jax.Array) -> jax.Array:
    """The step size at a height."""
    return jnp.exp(level_weights(height) @ steps.log_step_size)


def step_variance(steps: LevelSteps, height: jax.Array, temperature: jax.Array) -> jax.Array:
    r"""Half the variance of a step's noise in each coordinate, (d,).

    .. math:: D_i = \epsilon \tau^2 / \overline{(\partial_i U)^2}

    with the logarithms of both interpolated between levels.
    """
    log_square = level_weights(height) @ jnp.log(steps.square)
    return step_size_at(steps, height) * temperature**2 * jnp.exp(-log_square)


def update_steps(
    steps: LevelSteps,
    left: jax.Array,
    acceptance: jax.Array,
    reached: jax.Array,
    gradient: jax.Array,
) -> LevelSteps:
    """Steps after a move: larger where it was likely, and by the gradient that was met.

    Args:
        steps: the steps so far.
        left: height that the move left.
        acceptance: its probability of acceptance.
        reached: height where the chain is now.
        gradient: the gradient there, (d,).
    """
    rate = 2 / (1 + steps.moves) ** 0.6 * level_weights(left)
    log_step_size = steps.log_step_size + rate * (acceptance - TARGET_ACCEPTANCE)
    share = (level_weights(reached) / (2 + steps.moves) ** 0.7)[:, None]
    square = steps.square + share * (gradient**2 - steps.square)
    tiny = jnp.finfo(square.dtype).tiny
    return LevelSteps(log_step_size, jnp.maximum(square, tiny), steps.moves + level_weights(left))
