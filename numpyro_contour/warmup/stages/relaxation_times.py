"""How far a chain has gone after its warm-up, by the steps that were found for it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.factors import diagonal
from numpyro_contour.warmup.stages.moments import DrawMoments
from numpyro_contour.warmup.stages.tuning import TINY, Tuning, positive_or_one


class RelaxationTimes(NamedTuple):
    """How far the steps of a found size have gone, (d,) each."""

    #: how often a chain forgot its place after warm-up
    times: Any
    #: (M V M)_ii / (tau M_ii), how much of the preconditioner is the noise of the gradient
    noise: Any
    #: share of the gradient's noise in the noise of a step
    noise_share: Any


def relaxation_times(
    tuning: Tuning,
    moments: DrawMoments,
    steps_per_draw: int,
    temperature: jax.Array,
    step_size: jax.Array,
    fastest: jax.Array | float = 1.0,
) -> RelaxationTimes:
    r"""How often a chain forgot its place after warm-up, and the shares of noise, (d,) each.

    .. math:: n_i = K \min\Bigl\{\frac{\tau \epsilon M_{ii}}{\mathrm{var}(x_i)}, r\Bigr\}, \qquad
              s_i = \frac{(M V M)_{ii}}{\tau M_{ii}}

    over K steps: the time in which diffusion alone crosses the spread of the draws. A coordinate
    that has not mixed has a spread that grows with its way, and about 3 of these times. At
    temperature 0, where nothing diffuses, there is nothing to forget.

    Args:
        tuning: what was tuned.
        moments: moments over the draws that were kept.
        steps_per_draw: steps of each draw.
        temperature: tau.
        step_size: the Langevin step size that goes as far in the long run.
        fastest: r, the most of its place that a chain can forget in a step.
    """
    variance = moments.position_squares / jnp.maximum(moments.draws, 1)
    rates = step_size * tuning.diagonal * temperature / jnp.maximum(variance, TINY)
    times = moments.draws * steps_per_draw * jnp.minimum(rates, fastest)
    times = jnp.where(temperature > 0, times, jnp.inf)
    noise = tuning.preconditioner * tuning.gradient_noise / positive_or_one(temperature)
    if tuning.frame:
        noise = diagonal(tuning.factor, tuning.preconditioner * noise) / tuning.diagonal
    return RelaxationTimes(times, noise, step_size * noise / 2)


def slowest(
    tuning: Tuning,
    temperature: jax.Array,
    step_size: jax.Array,
    fastest: jax.Array | float = 1.0,
) -> jax.Array:
    r"""The steps in which the slowest of the coordinates that are tuned forgets its place.

    .. math:: \max_i \frac1{\min\{\tau \epsilon M_{ii} / \mathrm{var}(x_i), r\}}

    with the variance over a stage of tuning steps.

    Args:
        tuning: what is tuned, at the end of the stage.
        temperature: tau > 0.
        step_size: as for `relaxation_times`.
        fastest: as for `relaxation_times`.
    """
    moments = tuning.moments
    variance = moments.position_squares / jnp.maximum(moments.steps, 1)
    rates = step_size * tuning.preconditioner * temperature / jnp.maximum(variance, TINY)
    return 1 / jnp.maximum(jnp.min(jnp.minimum(rates, fastest)), TINY)
