"""The network of the UCI regressions and its potential energy."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from numpyro_contour.core.arrays.random_bits import bits

HIDDEN = 50
MINIBATCH = 50
L2 = 1e-4


def network(position: jax.Array, x: jax.Array) -> jax.Array:
    """One hidden layer of rectified units, all of its weights in one vector."""
    features = x.shape[-1]
    ends = np.cumsum([features * HIDDEN, HIDDEN, HIDDEN])
    inputs, bias, outputs, constant = jnp.split(position, ends)
    hidden = jax.nn.relu(x @ inputs.reshape(features, HIDDEN) + bias)
    return hidden @ outputs + constant[0]


def initial_position(key: jax.Array, features: int) -> jax.Array:
    """Uniform within 1 over the root of the number of inputs of each unit, as in PyTorch."""
    first = features * HIDDEN + HIDDEN
    unit = random.uniform(key, (first + HIDDEN + 1,), minval=-1.0, maxval=1.0)
    inputs = jnp.where(jnp.arange(unit.size) < first, features, HIDDEN)
    return unit / jnp.sqrt(inputs)


def potential(position: jax.Array, x: jax.Array, y: jax.Array, rows: int) -> jax.Array:
    r"""The potential energy :math:`\frac N{2n} \sum_i (y_i - f(x_i))^2 + \frac{L_2}2 |w|^2`.

    Args:
        position: the weights w.
        x: inputs of the n rows of a minibatch, (n, features).
        y: their targets, (n,).
        rows: N, the number of rows of the data.
    """
    errors = y - network(position, x)
    return 0.5 * rows / len(y) * jnp.sum(errors**2) + 0.5 * L2 * jnp.sum(position**2)


def minibatch_energy(x: jax.Array, y: jax.Array) -> Callable:
    """The potential energy and its gradient from a fresh minibatch, drawn with replacement."""
    rows = len(y)
    evaluate = jax.value_and_grad(potential)

    def energy(key: jax.Array, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        chosen = bits(key, (MINIBATCH,)) % jnp.uint32(rows)
        return evaluate(position, x[chosen], y[chosen], rows)

    return energy


def steps_an_epoch(rows: int) -> int:
    """The number of minibatches in an epoch."""
    return -(-rows // MINIBATCH)
