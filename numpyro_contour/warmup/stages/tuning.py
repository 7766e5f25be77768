"""What is tuned of a chain: step size, preconditioner, and the noise that limits them."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.factors import diagonal, displacement
from numpyro_contour.warmup.stages.descent import Descent, first_walk, initial_descent
from numpyro_contour.warmup.stages.dual_averaging import DualAveraging, initial_dual_averaging
from numpyro_contour.warmup.stages.frames import Frame
from numpyro_contour.warmup.stages.moments import Moments, no_moments

#: Largest share of the injected noise that the noise of the gradient may be.
NOISE_SHARE = 0.2
#: Largest step size with a preconditioner that was found, where 2 is the limit of stability. In one
#: dimension the acceptance allows 0.6, but at twice that modes get the wrong mass.
LARGEST_STEP_SIZE = 0.45
#: step size from which tuning starts
FIRST_STEP_SIZE = 0.1
# The least share of the inverse of M that is held to be curvature, and not noise of the gradient.
_LEAST_CURVATURE = 0.1
# The least variance of an energy's noise, in nats squared, that flattening is held to bear.
_LEAST_BEARABLE = 1.0
#: in place of a divisor of 0
TINY = 1e-30


class Tuning(NamedTuple):
    """What is being tuned for one chain."""

    step_size: DualAveraging
    #: largest step size that may be found
    limit: jax.Array
    #: M, the diagonal preconditioner, (d,); of the coordinates of `frame`
    preconditioner: jax.Array
    #: V, the variance of the gradient estimate, (d,); of the coordinates of `frame`
    gradient_noise: jax.Array
    #: variance of the estimate of the potential energy
    energy_noise: jax.Array
    #: () once the warm-up is over
    moments: Moments
    #: () where chains begin in modes, and once the warm-up is over
    descent: Descent
    #: the coordinates that are tuned where M is not diagonal; () for the position's own
    frame: Frame | tuple[()] = ()

    @property
    def factor(self) -> Any:
        """L of the coordinates that are tuned, () where they are the position's own."""
        return self.frame.factor if self.frame else ()

    @property
    def diagonal(self) -> jax.Array:
        """The diagonal of the preconditioner by coordinate of the position, (d,)."""
        return diagonal(self.factor, self.preconditioner)

    @property
    def mean_position(self) -> jax.Array:
        """The mean position over the steps of the stage, (d,)."""
        if not self.frame:
            return self.moments.position
        return self.frame.origin + displacement(self.factor, self.moments.position)


def initial_tuning(
    size: int,
    preconditioner: jax.Array | None,
    step_size: jax.Array | float | None,
    limit: float = jnp.inf,
    frame: Frame | tuple[()] = (),
) -> Tuning:
    """Before the first step; what is given is kept by never being renewed."""
    dtype = jnp.result_type(float)
    zeros = jnp.zeros((size,), dtype)
    first = jnp.asarray(jnp.log(FIRST_STEP_SIZE if step_size is None else step_size), dtype)
    return Tuning(
        step_size=initial_dual_averaging(first),
        limit=jnp.asarray(limit, dtype),
        preconditioner=jnp.ones((size,), dtype) if preconditioner is None else preconditioner,
        gradient_noise=zeros,
        energy_noise=jnp.zeros((), dtype),
        moments=no_moments(size),
        descent=initial_descent(size),
        frame=frame,
    )


def at_bottom(tuning: Tuning, preconditioner: jax.Array) -> Tuning:
    """What is tuned of chains that begin at the bottoms of modes, and do not descend.

    Args:
        tuning: that of one chain or of all.
        preconditioner: the diagonal of a first one for each of them.
    """
    walk = jax.tree.map(jnp.asarray, first_walk(tuning.limit.shape))
    descent: Any = ()
    return tuning._replace(step_size=walk, preconditioner=preconditioner, descent=descent)


def bearable_noise(size: int) -> float:
    """The variance of an energy's noise that flattening can bear, in nats squared.

    It is the variance of the energy itself over a Gaussian posterior of so many coordinates, and at
    least that of a nat. Energies with more of it teach neither theta nor the partition.
    """
    return max(_LEAST_BEARABLE, size / 2)


def positive_or_one(temperature: jax.Array) -> jax.Array:
    """The temperature, 1 where it is 0: nothing is noise then."""
    return jnp.where(temperature > 0, temperature, 1.0)


def curvature(tuning: Tuning, temperature: jax.Array) -> jax.Array:
    """The mean curvature p in coordinates in which M, the inverse of p + V / tau, is 1."""
    noise = jnp.mean(tuning.gradient_noise) / positive_or_one(temperature)
    return jnp.maximum(1 - noise, _LEAST_CURVATURE)


def least_noisy_step_size(tuning: Tuning, temperature: jax.Array) -> jax.Array:
    r"""The cap by the noise of the gradient, :math:`2 \delta \tau / \max_i M_i V_i`.

    The acceptance statistic, which compares energies on one minibatch, does not see that noise.
    """
    noise = jnp.max(tuning.preconditioner * tuning.gradient_noise)
    return 2 * NOISE_SHARE * positive_or_one(temperature) / (noise + TINY)


def largest_step_size(tuning: Tuning, temperature: jax.Array) -> jax.Array:
    """The cap by `limit` and by the noise of the gradient."""
    return jnp.minimum(least_noisy_step_size(tuning, temperature), tuning.limit)
