"""The stage "tune": the step size by its acceptance, the preconditioner by the spreads of moves.

A warm-up has several. Each hands on the preconditioner that its moves suggest and the step size for
it; the last one keeps the preconditioner, so that its step size is the final one.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numpyro_contour.adaptation.dual_averaging import initial_dual_averaging
from numpyro_contour.adaptation.moments import Moments, gradient_noise
from numpyro_contour.adaptation.tuning import (
    FIRST_STEP_SIZE,
    TINY,
    Tuning,
    largest_step_size,
    positive_or_one,
)
from numpyro_contour.modes.lbfgs import inverse_curvatures

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
    return tuning._replace(
        step_size=jax.tree.map(lambda a, b: jnp.where(renews, a, b), fresh, tuning.step_size)
    )
