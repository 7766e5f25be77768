"""The stage "learn": draws as they are made after the warm-up, until theta has settled.

It hands on theta. The gain counts from the end of the pilot.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numpyro_contour.schedules import Schedule


def gain_since(gain: Schedule, origin: jax.Array, learns: jax.Array) -> Schedule:
    """A gain that counts from the step where theta was first updated.

    Args:
        gain: the schedule, called with counts from 1.
        origin: steps of the chain before theta was first updated.
        learns: whether theta is updated at all.
    """

    def counted(count: jax.Array) -> jax.Array:
        return jnp.where(learns, gain(jnp.maximum(count - origin, 1)), 0.0)

    return counted
