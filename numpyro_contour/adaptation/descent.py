"""The stage "descent": to a typical point, by Adam.

It ends after its share of the warm-up. It hands on the point where the chain is, a first
preconditioner and a first step size from the gradients on the way.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numpyro_contour.adaptation.stage import Stage
from numpyro_contour.adaptation.tuning import Tuning

DESCENT = Stage("descent", measures=True, descends=True)

_LEARNING_RATE = 0.05
# Decay of Adam's second moment; its usual 0.999 remembers a steep start for thousands of steps.
_MEMORY = 0.99


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
