"""The stages "tune" and "settle": the step size by its acceptance, the preconditioner, the noise.

A warm-up has several of the first. Each hands on the preconditioner that the spreads of its moves
suggest and the step size for it; the last one keeps the preconditioner, so that its step size is
the final one. "settle" makes moves at that step size, and hands on the variances of gradient and
energy between minibatches.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.diffusions.leapfrog import SPREAD
from numpyro_contour.modes.lbfgs import inverse_curvatures
from numpyro_contour.warmup.stages.dual_averaging import initial_dual_averaging
from numpyro_contour.warmup.stages.frames import with_gradients_scaled
from numpyro_contour.warmup.stages.moments import Moments, gradient_noise
from numpyro_contour.warmup.stages.tuning import (
    FIRST_STEP_SIZE,
    TINY,
    Tuning,
    largest_step_size,
    positive_or_one,
)

# Where the gradient is constant, on a linear slope, its mean says how long a step is safe.
SLOPE_SHARE = 1e-3
# Dual averaging is drawn towards so much (in logs) above the step size that a stage hands on.
REACH = 0.7
# Moves whose spreads say more of the curvatures than the pairs of a descent.
_FEWEST_MOVES = 20


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
    variance = moments.gradient_squares / count + SLOPE_SHARE * moments.gradient**2
    spread = moments.position_squares / count
    # A coordinate that did not move, or not by more than rounding, tells nothing of its curvature.
    resolution = 8 * jnp.finfo(spread.dtype).eps
    still = spread <= (resolution * moments.position) ** 2
    by_size = moments.gradient_squares / count + moments.gradient**2
    # So far out that a descent is lost in rounding: steps that a float can tell.
    reach = jnp.maximum(SLOPE_SHARE * jnp.abs(moments.position), TINY)
    by_size = jnp.minimum(by_size, jnp.abs(moments.gradient) / reach)
    signal = jnp.maximum(variance - noise, 1e-3 * variance)
    curvature = jnp.where(still, by_size, jnp.sqrt(signal / jnp.maximum(spread, TINY)))
    inverse = curvature + noise / positive_or_one(temperature)
    return jnp.clip(jnp.nan_to_num(1 / jnp.maximum(inverse, TINY), nan=1.0), 1e-16, 1e16)


def renew_step(
    tuning: Tuning,
    moments: Moments,
    temperature: jax.Array,
    descended: jax.Array,
    searched: jax.Array,
    last: jax.Array,
    keep_preconditioner: bool,
) -> Tuning:
    """Preconditioner and step size from the moves of a stage that has ended.

    Args:
        tuning: what is tuned.
        moments: moments over the steps of the stage.
        temperature: tau.
        descended: whether the stage was a descent.
        searched: whether it searched for the step size.
        last: whether it was the last one that did: its step size is the final one.
        keep_preconditioner: whether the preconditioner was given.
    """
    found = fitting_preconditioner(moments, temperature)
    # A descent that has just ended, or not at all, knows curvatures by its pairs alone.
    by_pairs = tuning.preconditioner
    if tuning.descent:
        by_pairs = jnp.where(
            tuning.descent.arrived,
            tuning.descent.best.inverse_curvature,
            inverse_curvatures(tuning.descent.lbfgs),
        )
    found = jnp.where(descended & (moments.steps < _FEWEST_MOVES), by_pairs, found)
    old = new = tuning.preconditioner
    if not keep_preconditioner:
        new = jnp.where(searched & ~last | descended, found, old)
    guess = jnp.log(FIRST_STEP_SIZE) + jnp.min(jnp.log(found) - jnp.log(new))
    change = jnp.mean(jnp.log(old) - jnp.log(new))
    log_step = jnp.where(descended, guess, tuning.step_size.log_average + change)
    tuning = tuning._replace(preconditioner=new)
    log_step = jnp.minimum(log_step, jnp.log(largest_step_size(tuning, temperature)))
    fresh = initial_dual_averaging(log_step, REACH)
    renews = searched | descended
    return tuning._replace(step_size=tree_where(renews, fresh, tuning.step_size))


def measure_noise(tuning: Tuning, moments: Moments) -> Tuning:
    """The noise of gradient and energy, from the moves of a stage that has ended."""
    count = jnp.maximum(moments.steps, 1)
    return tuning._replace(
        gradient_noise=gradient_noise(moments),
        energy_noise=moments.energy_noise / jnp.maximum(count - 1, 1),
    )


# A chain is kept in place where its variance is below this share of what a free one's would be.
_CONFINED = 0.1


def with_walls_felt(
    tuning: Tuning, moments: Moments, temperature: jax.Array
) -> tuple[Tuning, Moments]:
    r"""Moments of a stage whose gradients are as large as the spread of positions asks for.

    .. math:: g_i \leftarrow \max\Bigl\{1,
              \frac{\tau}{\sqrt{\mathrm{var}(x_i)\, \mathrm{var}(g_i)}}\Bigr\}\, g_i

    for coordinates in which the chain is kept in place. Where the energy is smooth both variances
    are those of a Gaussian there, and the factor is about 1. Where it jumps, refusals keep the
    chain in place: the gradient does not feel these walls, and a preconditioner from it would make
    steps many times too long. A chain that is not kept in place spreads as far as its accepted
    moves add up to, and its gradients stay as they are.

    Args:
        tuning: what is tuned, with the diagonal that the moves were made with.
        moments: moments over the moves of a stage, accepted by Metropolis-Hastings.
        temperature: tau.

    Returns:
        `(tuning, moments)`: with gradients scaled, also in what a frame has seen.
    """
    count = jnp.maximum(moments.steps, 1)
    spread = moments.position_squares / count
    # The variance of a random walk about its mean is a sixth of that of its end.
    rate = jnp.exp(tuning.step_size.log_average) * tuning.preconditioner
    tau = positive_or_one(temperature)
    shorter = (1 - jnp.exp(-SPREAD)) / SPREAD
    free = tau * shorter * rate * moments.acceptance / 3
    felt = jnp.sqrt(jnp.maximum(spread * moments.gradient_squares / count, TINY))
    scale = jnp.where(spread < _CONFINED * free, jnp.maximum(tau / felt, 1.0), 1.0)
    moments = moments._replace(
        gradient=scale * moments.gradient, gradient_squares=scale**2 * moments.gradient_squares
    )
    if tuning.frame:
        tuning = tuning._replace(frame=with_gradients_scaled(tuning.frame, scale))
    return tuning._replace(moments=moments), moments
