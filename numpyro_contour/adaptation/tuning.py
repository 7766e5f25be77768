"""Tuning of step size and preconditioner: descent to a typical point, then measured moves."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.adaptation.dual_averaging import (
    DualAveraging,
    initial_dual_averaging,
    update_dual_averaging,
)
from numpyro_contour.core.arrays.random_bits import normal
from numpyro_contour.core.diffusions import DRIFT_LIMIT
from numpyro_contour.core.samplers.chain import Chain, PotentialAndGrad
from numpyro_contour.core.samplers.guard import all_finite

#: Mean of the acceptance statistic that the step size is tuned to.
TARGET_ACCEPTANCE = 0.9
#: Largest share of the injected noise that the noise of the gradient may be.
NOISE_SHARE = 0.2
#: Largest step size with a preconditioner that was found, where 2 is the limit of stability. In one
#: dimension the acceptance allows 0.6, but at twice that modes get the wrong mass.
LARGEST_STEP_SIZE = 0.45

_LEARNING_RATE = 0.05
# Decay of Adam's second moment; its usual 0.999 remembers a steep start for thousands of steps.
_MEMORY = 0.99
_FIRST_STEP_SIZE = 0.1
# A move this improbable (in nats) under the exact dynamics is a blow-up: it is not made.
_BLOW_UP = -20.0
#: in place of a divisor of 0
TINY = 1e-30
# Where the gradient is constant, on a linear slope, its mean says how long a step is safe.
_SLOPE_SHARE = 1e-3


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


class Tuning(NamedTuple):
    """What is being tuned for one chain."""

    step_size: DualAveraging
    #: largest step size that may be found
    limit: jax.Array
    #: M, the diagonal preconditioner, (d,)
    preconditioner: jax.Array
    #: V, the variance of the gradient estimate, (d,)
    gradient_noise: jax.Array
    #: variance of the estimate of the potential energy
    energy_noise: jax.Array
    moments: Moments
    #: Adam's two moments, (d,)
    momentum: jax.Array
    scale: jax.Array
    #: Adam's count
    descended: jax.Array


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


def fitting_preconditioner(moments: Moments, temperature: jax.Array) -> jax.Array:
    r"""The diagonal of M from the spreads of positions and gradients, (d,).

    .. math:: \frac1{M_i} = \sqrt{\frac{\mathrm{var}(\partial_i \tilde U) - V_i}
              {\mathrm{var}(x_i)}} + \frac{V_i}{\tau}

    The root is the curvature, for a Gaussian from any set of positions, also those of a descent
    or of a chain that has not mixed; where they are typical, the whole is the mean square of
    the gradient over tau.
    """
    count = jnp.maximum(moments.steps, 1)
    noise = gradient_noise(moments)
    variance = moments.gradient_squares / count + _SLOPE_SHARE * moments.gradient**2
    spread = moments.position_squares / count
    # A coordinate that did not move, or not by more than rounding, tells nothing of its curvature.
    resolution = 8 * jnp.finfo(spread.dtype).eps
    still = spread <= (resolution * moments.position) ** 2
    by_size = moments.gradient_squares / count + moments.gradient**2
    # So far out that a descent is lost in rounding: steps that a float can tell.
    reach = jnp.maximum(_SLOPE_SHARE * jnp.abs(moments.position), TINY)
    by_size = jnp.minimum(by_size, jnp.abs(moments.gradient) / reach)
    signal = jnp.maximum(variance - noise, 1e-3 * variance)
    curvature = jnp.where(still, by_size, jnp.sqrt(signal / jnp.maximum(spread, TINY)))
    inverse = curvature + noise / warm(temperature)
    return jnp.clip(jnp.nan_to_num(1 / jnp.maximum(inverse, TINY), nan=1.0), 1e-16, 1e16)


def warm(temperature: jax.Array) -> jax.Array:
    """The temperature, 1 where it is 0: nothing is noise then."""
    return jnp.where(temperature > 0, temperature, 1.0)


def initial_tuning(
    size: int,
    preconditioner: jax.Array | None,
    step_size: jax.Array | float | None,
    limit: float = jnp.inf,
) -> Tuning:
    """Before the first step; what is given is kept by never being renewed."""
    dtype = jnp.result_type(float)
    zeros = jnp.zeros((size,), dtype)
    first = jnp.asarray(jnp.log(_FIRST_STEP_SIZE if step_size is None else step_size), dtype)
    return Tuning(
        step_size=initial_dual_averaging(first),
        limit=jnp.asarray(limit, dtype),
        preconditioner=jnp.ones((size,), dtype) if preconditioner is None else preconditioner,
        gradient_noise=zeros,
        energy_noise=jnp.zeros((), dtype),
        moments=no_moments(size),
        momentum=zeros,
        scale=zeros,
        descended=jnp.zeros((), dtype),
    )


def least_noisy_step_size(tuning: Tuning, temperature: jax.Array) -> jax.Array:
    r"""The cap by the noise of the gradient, :math:`2 \delta \tau / \max_i M_i V_i`.

    The acceptance statistic, which compares energies on one minibatch, does not see that noise.
    """
    noise = jnp.max(tuning.preconditioner * tuning.gradient_noise)
    return 2 * NOISE_SHARE * warm(temperature) / (noise + TINY)


def largest_step_size(tuning: Tuning, temperature: jax.Array) -> jax.Array:
    """The cap by `limit` and by the noise of the gradient."""
    return jnp.minimum(least_noisy_step_size(tuning, temperature), tuning.limit)


def adam(tuning: Tuning, gradient: jax.Array, progress: jax.Array) -> tuple[jax.Array, Tuning]:
    """The change of position by Adam with a learning rate that falls as a cosine.

    Source: Kingma and Ba (2015), Algorithm 1.
    """
    count = tuning.descended + 1
    momentum = 0.9 * tuning.momentum + 0.1 * gradient
    scale = _MEMORY * tuning.scale + (1 - _MEMORY) * gradient**2
    rate = _LEARNING_RATE * 0.5 * (1 + jnp.cos(jnp.pi * progress))
    slope = jnp.sqrt(scale / (1 - _MEMORY**count))
    change = -rate * momentum / (1 - 0.9**count) / (slope + 1e-12)
    return change, tuning._replace(momentum=momentum, scale=scale, descended=count)


def tuning_step(
    keys: jax.Array,
    chain: Chain,
    tuning: Tuning,
    potential_and_grad: PotentialAndGrad,
    temperature: jax.Array,
    descending: jax.Array,
    progress: jax.Array,
    searching: jax.Array,
    exact: bool,
) -> tuple[Chain, Tuning]:
    r"""One step of descent, or one Langevin step whose acceptance is measured.

    Both ends of the move are evaluated on one minibatch B, so that the acceptance statistic

    .. math:: \alpha = \min\Bigl\{1, \exp\frac{U_B(x) - U_B(y)}{\tau}
              \frac{q_B(x \mid y)}{q_B(y \mid x)}\Bigr\}

    of the Metropolis-adjusted Langevin algorithm compares like with like, and the difference to
    the evaluation by which the chain arrived at x gives the noise of gradient and energy.

    Args:
        keys: two keys, for the move and for the minibatch.
        chain: the chain.
        tuning: what is being tuned.
        potential_and_grad: `(key, position) -> (potential energy, gradient)`.
        temperature: tau.
        descending: whether to descend.
        progress: share of the stage that is done.
        searching: whether the step size is still being tuned.
        exact: whether energies and gradients are exact: nothing is evaluated twice then.
    """
    x, energy, gradient = chain.position, chain.potential_energy, chain.gradient
    if not exact:
        energy, gradient = potential_and_grad(keys[1], x)
    gradient_noise = 0.5 * (gradient - chain.gradient) ** 2
    energy_noise = 0.5 * (energy - chain.potential_energy) ** 2

    step_size = jnp.exp(tuning.step_size.log_value)
    rates = step_size * tuning.preconditioner
    scales = jnp.sqrt(2 * temperature * rates)
    xi = normal(keys[0], x.shape, x.dtype)

    def drift(g: jax.Array) -> jax.Array:
        limit = jnp.where(scales > 0, DRIFT_LIMIT * scales, jnp.inf)
        return jnp.clip(rates * g, -limit, limit)

    change, descended = adam(tuning, gradient, progress)
    y = jnp.where(descending, x + change, x - drift(gradient) + scales * xi)
    new_energy, new_gradient = potential_and_grad(keys[1], y)

    back = (x - y + drift(new_gradient)) / jnp.maximum(scales, TINY)
    proposals = 0.5 * jnp.sum(xi**2 - back**2)
    rise = new_energy - energy
    log_ratio = jnp.where(
        temperature > 0, -rise / warm(temperature) + proposals, jnp.log(1.0 * (rise <= 0))
    )
    finite = all_finite(y, new_energy, new_gradient)
    acceptance = jnp.where(
        finite, jnp.exp(jnp.minimum(jnp.nan_to_num(log_ratio, nan=-jnp.inf), 0.0)), 0.0
    )
    moves = finite & (descending | (log_ratio > _BLOW_UP) | (temperature <= 0))

    sums = tuning.moments
    first, count = sums.steps == 0, sums.steps + 1
    energy_mean, energy_squares = welford(count, sums.energy, sums.energy_squares, energy)
    moments = Moments(
        count,
        *welford(count, sums.position, sums.position_squares, x),
        *welford(count, sums.gradient, sums.gradient_squares, gradient),
        gradient_noise=sums.gradient_noise + jnp.where(first, 0.0, gradient_noise),
        energy_noise=sums.energy_noise + jnp.where(first, 0.0, energy_noise),
        acceptance=sums.acceptance + acceptance,
        energy=energy_mean,
        energy_squares=energy_squares,
    )
    averaged = update_dual_averaging(
        tuning.step_size,
        acceptance,
        TARGET_ACCEPTANCE,
        jnp.log(largest_step_size(tuning, temperature)),
    )
    tuned = descended._replace(
        step_size=jax.tree.map(lambda a, b: jnp.where(searching, a, b), averaged, tuning.step_size),
        # A refused descent starts again from rest.
        momentum=jnp.where(moves, descended.momentum, 0.0),
        moments=moments,
    )
    chain = chain._replace(
        steps=chain.steps + 1,
        position=jnp.where(moves, y, x),
        potential_energy=jnp.where(moves, new_energy, energy),
        gradient=jnp.where(moves, new_gradient, gradient),
    )
    return chain, tuned


def end_of_stage(
    tuning: Tuning,
    temperature: jax.Array,
    descended: jax.Array,
    tuned: jax.Array,
    settled: jax.Array,
    last: jax.Array,
    keep_preconditioner: bool,
    keep_step_size: bool,
) -> Tuning:
    """Renew preconditioner and step size from the sums of a stage, and start new sums.

    Args:
        tuning: what is being tuned.
        temperature: tau.
        descended: whether the stage that ends was the descent.
        tuned: whether it was a window of tuning.
        settled: whether it was one at the final step size.
        last: whether it was the last one: its step size is the final one.
        keep_preconditioner: whether the preconditioner was given.
        keep_step_size: whether the step size was given.
    """
    moments = tuning.moments
    count = jnp.maximum(moments.steps, 1)
    measured = tuned | descended
    noted = measured | settled
    energy_noise = moments.energy_noise / jnp.maximum(count - 1, 1)
    tuning = tuning._replace(
        gradient_noise=jnp.where(noted, gradient_noise(moments), tuning.gradient_noise),
        energy_noise=jnp.where(noted, energy_noise, tuning.energy_noise),
        moments=no_moments(tuning.preconditioner.shape[-1]),
    )
    if keep_step_size:
        return tuning
    found = fitting_preconditioner(moments, temperature)
    old = new = tuning.preconditioner
    if not keep_preconditioner:
        new = jnp.where(tuned & ~last | descended, found, old)
    guess = jnp.log(_FIRST_STEP_SIZE) + jnp.min(jnp.log(found) - jnp.log(new))
    change = jnp.mean(jnp.log(old) - jnp.log(new))
    log_step = jnp.where(descended, guess, tuning.step_size.log_average + change)
    tuning = tuning._replace(preconditioner=new)
    log_step = jnp.minimum(log_step, jnp.log(largest_step_size(tuning, temperature)))
    fresh = initial_dual_averaging(log_step, 0.7)
    return tuning._replace(
        step_size=jax.tree.map(lambda a, b: jnp.where(measured, a, b), fresh, tuning.step_size)
    )
