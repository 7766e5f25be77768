"""Schedules: functions from the count of steps to a value, like those of optax."""

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

    #: the value
    value: float

    def __call__(self, count: jax.Array) -> jax.Array:
        """The value, whatever the count."""
        return jnp.asarray(self.value, dtype=jnp.result_type(float))


@dataclass(frozen=True)
class RobbinsMonro:
    """The gain of `robbins_monro`, as a class that can be printed, compared and pickled."""

    #: s > 0
    scale: float
    #: alpha, in (0.5, 1]
    exponent: float
    #: k_0, at least 0
    offset: float
    #: the upper limit, in (0, 1]
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
        offset: :math:`k_0 \ge 0`, which delays the fall of the gain. Defaults to 100.
        maximum: upper limit of the gain, in (0, 1]. Defaults to 0.5.

    Returns:
        A schedule: a function from the count of steps, from 1, to the gain.

    Raises:
        ValueError: an argument is out of its range.

    Source: Robbins and Monro (1951); Deng, Lin and Liang (2020), section D.3, for its form.

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


@dataclass(frozen=True)
class EpochSchedule:
    """The schedule of `epoch_schedule`, as a class that can be printed and pickled."""

    #: a function from the count of epochs, from 0, to a value
    schedule: Schedule
    #: number of steps in an epoch
    steps_per_epoch: int

    def __call__(self, count: jax.Array) -> jax.Array:
        """The value at a count of steps."""
        return self.schedule(count // self.steps_per_epoch)


def epoch_schedule(schedule: Schedule, num_rows: int, minibatch_size: int) -> EpochSchedule:
    r"""Turns a schedule over epochs, whole passes over the data, into a schedule over steps.

    .. math:: s(k) = s_{epoch}\Bigl(\Bigl\lfloor \frac{k}{\lceil N / n \rceil}
              \Bigr\rfloor\Bigr)

    Args:
        schedule: :math:`s_{epoch}`, a function from the count of epochs, from 0, to a value, for
            instance an optax schedule.
        num_rows: N, the number of rows of the data, at least 1.
        minibatch_size: n, the number of rows of a minibatch, from 1 to N.

    Returns:
        A schedule: a function from the count of steps, from 0, to the value.

    Raises:
        ValueError: an argument is out of its range.

    Source: Deng, Lin and Liang (2020), section 4.3, which divides the temperature by 1.01 each
    epoch.

    Example:
        >>> from numpyro_contour import epoch_schedule
        >>> annealed = epoch_schedule(lambda epoch: 0.01 / 1.01**epoch, 50_000, 1000)
        >>> [round(float(annealed(step)), 6) for step in (0, 49, 50, 100)]
        [0.01, 0.01, 0.009901, 0.009803]
    """
    rows = checks.integer("num_rows", num_rows, at_least=1)
    size = checks.integer("minibatch_size", minibatch_size, at_least=1)
    if size > rows:
        raise checks.fail("minibatch_size", size, f"an integer of at most `num_rows` = {rows}")
    return EpochSchedule(checks.function("schedule", schedule), -(-rows // size))


def first_value(schedule: Schedule) -> float:
    """The value of a schedule at the first step, even while JAX is tracing."""
    with jax.ensure_compile_time_eval():
        return float(schedule(jnp.zeros((), jnp.int32)))


def check_positive_temperature(temperature: ScalarOrSchedule) -> None:
    """Checks the argument `temperature` of kernels that need one above 0.

    Raises:
        ValueError: it is not above 0, or it is a schedule that does not start above 0.
    """
    if not callable(temperature):
        checks.positive("temperature", temperature)
        return
    first = first_value(temperature)
    if not first > 0:
        raise ValueError(
            "`temperature` takes a number above 0 or a schedule that starts above 0, but got one "
            f"that starts at {first}."
        )


def as_schedule(
    name: str, value: ScalarOrSchedule, check: Callable[[str, float], float]
) -> Schedule:
    """A scalar or a schedule as a schedule; `check` raises where a scalar is not allowed."""
    if callable(value):
        return value
    return Constant(check(name, value))
