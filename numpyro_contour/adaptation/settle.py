"""The stage "settle": moves at the final step size, whose noise is measured.

It hands on the variances of gradient and energy between minibatches.
"""

from __future__ import annotations

import jax.numpy as jnp

from numpyro_contour.adaptation.moments import Moments, gradient_noise
from numpyro_contour.adaptation.tuning import Tuning


def measure_noise(tuning: Tuning, moments: Moments) -> Tuning:
    """The noise of gradient and energy, from the moves of a stage that has ended."""
    count = jnp.maximum(moments.steps, 1)
    return tuning._replace(
        gradient_noise=gradient_noise(moments),
        energy_noise=moments.energy_noise / jnp.maximum(count - 1, 1),
    )
