"""Adam with moments in units of the largest gradient of late, so that no square overflows."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

_LEARNING_RATE = 0.05
# Decay of Adam's second moment; its usual 0.999 remembers a steep start for thousands of steps.
_MEMORY = 0.99
# By how much the unit falls in a step at most.
_FADING = 0.9


class Adam(NamedTuple):
    """The two moments of the gradient."""

    #: (d,), in units of `unit` and of its square
    momentum: jax.Array
    scale: jax.Array
    unit: jax.Array
    #: steps so far
    steps: jax.Array


def at_rest(size: int) -> Adam:
    """Before the first step."""
    dtype = jnp.result_type(float)
    zero, zeros = jnp.zeros((), dtype), jnp.zeros((size,), dtype)
    return Adam(zeros, zeros, zero, zero)


def adam_step(adam: Adam, gradient: jax.Array, progress: jax.Array) -> tuple[jax.Array, Adam]:
    """The change of position by Adam with a learning rate that falls as a cosine.

    The change does not depend on the unit in which gradients are measured. Their largest of late
    keeps squares within the range of a float where energies are 1e30.

    Args:
        adam: the moments.
        gradient: the gradient, (d,).
        progress: share of the descent that is done, from which the learning rate follows.

    Source: Kingma and Ba (2015), Algorithm 1.
    """
    count = adam.steps + 1
    unit = jnp.maximum(jnp.max(jnp.abs(gradient)), _FADING * adam.unit)
    unit = jnp.maximum(unit, jnp.finfo(unit.dtype).tiny)
    old, new = adam.unit / unit, gradient / unit
    momentum = 0.9 * adam.momentum * old + 0.1 * new
    scale = _MEMORY * adam.scale * old**2 + (1 - _MEMORY) * new**2
    rate = _LEARNING_RATE * 0.5 * (1 + jnp.cos(jnp.pi * progress))
    slope = jnp.sqrt(scale / (1 - _MEMORY**count))
    change = -rate * momentum / (1 - 0.9**count) / (slope + 1e-12 / unit)
    return change, Adam(momentum, scale, unit, count)
