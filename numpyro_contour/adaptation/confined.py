"""Coordinates in which refusals keep a chain in place, and not the gradient."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numpyro_contour.adaptation.frames import with_gradients_scaled
from numpyro_contour.adaptation.moments import Moments
from numpyro_contour.adaptation.tuning import TINY, Tuning, positive_or_one
from numpyro_contour.core.diffusions.leapfrog import SPREAD

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
