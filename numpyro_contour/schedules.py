"""Schedules: any function from the count of steps to a value, so that optax's schedules fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from numpyro_contour import checks

Schedule = Callable[[jax.Array], jax.Array]
ScalarOrSchedule = float | Schedule


@dataclass(frozen=True)
class Constant:
    """A schedule of one value."""

    value: float

    def __call__(self, count: jax.Array) -> jax.Array:
        """The value, whatever the count."""
        return jnp.asarray(self.value, dtype=jnp.result_type(float))


@dataclass(frozen=True)
class RobbinsMonro:
    """The gain of `robbins_monro`; a class, so that it can be printed, compared and pickled."""

    scale: float
    exponent: float
    offset: float
    maximum: float

    def __call__(self, count: jax.Array) -> jax.Array:
        """The gain at a count of steps."""
        count = jnp.asarray(count, dtype=jnp.result_type(float))
        return jnp.minimum(self.maximum, self.scale / (count**self.exponent + self.offset))


def robbins_monro(
    scale: float = 10.0, exponent: float = 0.8, offset: float = 100.0, maximum: float = 0.5
) -> RobbinsMonro:
    r"""A decreasing gain for stochastic approximation.

    .. math:: \omega_k = \min\{\omega_{max},\; s / (k^{\alpha} + k_0)\}

    Args:
        scale: :math:`s > 0`. Defaults to 10.
        exponent: :math:`\alpha` in (0.5, 1], so that the gains add up to infinity and their
            squares do not. Defaults to 0.8.
        offset: :math:`k_0 \ge 0`, steps before the gain starts to fall. Defaults to 100.
        maximum: upper limit of the gain, in (0, 1]. Defaults to 0.5.

    Returns:
        A schedule: a function from the count of steps, from 1, to the gain.

    Raises:
        ValueError: an argument is out of its range.

    Source: Deng, Lin and Liang (2020), section D.3.

    Example:
        >>> from numpyro_contour import robbins_monro
        >>> gain = robbins_monro(10, 0.8, 100, maximum=0.003)
        >>> print(round(float(gain(1)), 6), round(float(gain(1_000_000)), 6))
        0.003 0.000158
    """
    exponent = checks.number("exponent", exponent)
    if not 0.5 < exponent <= 1:
        raise checks.fail("exponent", exponent, "a number in (0.5, 1]")
    maximum = checks.positive("maximum", maximum)
    if maximum > 1:
        raise checks.fail("maximum", maximum, "a number in (0, 1]")
    return RobbinsMonro(
        checks.positive("scale", scale), exponent, checks.non_negative("offset", offset), maximum
    )


def as_schedule(
    name: str, value: ScalarOrSchedule, check: Callable[[str, float], float]
) -> Schedule:
    """A scalar or schedule as a schedule; `check` decides which scalars are allowed."""
    if callable(value):
        return value
    return Constant(check(name, value))
