"""Dual averaging: the step size at which an acceptance statistic has a given mean."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

_SHRINKAGE = 0.05
_OFFSET = 10.0
_EXPONENT = 0.75


class DualAveraging(NamedTuple):
    """State of dual averaging on the log of a step size."""

    #: the log of the step size to use next
    log_value: jax.Array
    #: its weighted average over the iterates, the estimate
    log_average: jax.Array
    #: mean shortfall of the statistic
    shortfall: jax.Array
    #: the point towards which iterates are drawn
    centre: jax.Array
    #: iterates so far
    steps: jax.Array


def initial_dual_averaging(log_value: jax.Array, reach: float = 2.0) -> DualAveraging:
    """Dual averaging from a first guess, drawn towards `reach` (in logs) above it."""
    zero = jnp.zeros_like(log_value)
    return DualAveraging(log_value, log_value, zero, log_value + reach, zero)


def update_dual_averaging(
    state: DualAveraging,
    statistic: jax.Array,
    target: float,
    log_maximum: jax.Array | float = jnp.inf,
) -> DualAveraging:
    r"""One step of dual averaging.

    .. math:: H_k = \Bigl(1 - \frac{1}{k + t_0}\Bigr) H_{k-1} + \frac{\delta - \alpha_k}{k + t_0},
              \qquad \log\epsilon_k = \mu - \frac{\sqrt{k}}{\gamma} H_k

    Source: Hoffman and Gelman (2014), section 3.2.1.
    """
    count = state.steps + 1
    rate = 1 / (count + _OFFSET)
    shortfall = (1 - rate) * state.shortfall + rate * (target - statistic)
    log_value = state.centre - jnp.sqrt(count) / _SHRINKAGE * shortfall
    log_value = jnp.minimum(log_value, log_maximum)
    share = count**-_EXPONENT
    log_average = share * log_value + (1 - share) * state.log_average
    return DualAveraging(log_value, log_average, shortfall, state.centre, count)
