"""Moments over the steps of a stage, and over the draws that are kept."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Moments(NamedTuple):
    """Moments over the steps of a stage."""

    steps: jax.Array
    #: mean position and sum of squared deviations from it, (d,)
    position: jax.Array
    position_squares: jax.Array
    #: mean gradient and sum of squared deviations from it, (d,)
    gradient: jax.Array
    gradient_squares: jax.Array
    #: summed variance of the gradient between minibatches, (d,)
    gradient_noise: jax.Array
    #: summed variance of the potential energy between minibatches
    energy_noise: jax.Array
    #: summed acceptance statistic
    acceptance: jax.Array
    #: mean potential energy in nats, and sum of squared deviations from it
    energy: jax.Array
    energy_squares: jax.Array


class DrawMoments(NamedTuple):
    """Moments over the draws that are kept."""

    #: draws so far
    draws: jax.Array
    #: mean position and sum of squared deviations from it, (d,)
    position: jax.Array
    position_squares: jax.Array


def no_moments(size: int) -> Moments:
    """Moments over no steps."""
    dtype = jnp.result_type(float)
    zero, zeros = jnp.zeros((), dtype), jnp.zeros((size,), dtype)
    return Moments(zero, zeros, zeros, zeros, zeros, zeros, zero, zero, zero, zero)


def welford(
    count: jax.Array, mean: jax.Array, squares: jax.Array, value: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Mean and sum of squared deviations after one more value, the `count`-th (Welford 1962)."""
    deviation = value - mean
    mean = mean + deviation / count
    return mean, squares + deviation * (value - mean)


def gradient_noise(moments: Moments) -> jax.Array:
    """V, the variance of the gradient estimate at a position, (d,)."""
    return moments.gradient_noise / jnp.maximum(moments.steps - 1, 1)


def no_draw_moments(size: int) -> DrawMoments:
    """Moments over no draws."""
    dtype = jnp.result_type(float)
    zeros = jnp.zeros((size,), dtype)
    return DrawMoments(jnp.zeros((), dtype), zeros, zeros)


def add_draw(moments: DrawMoments, position: jax.Array) -> DrawMoments:
    """The moments with one more draw."""
    count = moments.draws + 1
    return DrawMoments(count, *welford(count, moments.position, moments.position_squares, position))
