"""Step sizes that depend on the potential energy, learnt at a few levels of it."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.interpolation import interpolation_weights

#: Number of levels at which steps are learnt. With many levels, each is learnt from few moves and
#: is inaccurate, and chains get stuck where a step is too large.
NUM_LEVELS = 4

#: The mean acceptance probability that step sizes are tuned to. It is near the optimum of the
#: Metropolis-adjusted Langevin algorithm in many dimensions.
TARGET_ACCEPTANCE = 0.6


class LevelSteps(NamedTuple):
    """Steps at evenly spaced levels, from the typical energy to the top of a partition."""

    #: log of the step size, (levels,)
    log_step_size: jax.Array
    #: mean square of the gradient, (levels, d)
    square: jax.Array
    #: number of moves from each level, (levels,)
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


def half_step_variance(steps: LevelSteps, height: jax.Array, temperature: jax.Array) -> jax.Array:
    r"""Half the variance of the noise of a step in each coordinate, (d,).

    .. math:: D_i = \epsilon \tau^2 / \overline{(\partial_i U)^2}

    where the logarithms of both factors are interpolated between levels.
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
    """Steps after a move, by its acceptance probability and by the gradient where it led.

    Args:
        steps: the steps so far.
        left: the height before the move.
        acceptance: the acceptance probability of the move.
        reached: the height after the move.
        gradient: the gradient after the move, (d,).
    """
    rate = 2 / (1 + steps.moves) ** 0.6 * level_weights(left)
    log_step_size = steps.log_step_size + rate * (acceptance - TARGET_ACCEPTANCE)
    gain = (level_weights(reached) / (2 + steps.moves) ** 0.7)[:, None]
    square = steps.square + gain * (gradient**2 - steps.square)
    tiny = jnp.finfo(square.dtype).tiny
    return LevelSteps(log_step_size, jnp.maximum(square, tiny), steps.moves + level_weights(left))
