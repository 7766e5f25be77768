"""The public state of contour kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.core.samplers.climbing import ClimbingState
from numpyro_contour.core.samplers.contour import ContourSamplerState


class ContourState(NamedTuple):
    """State of a contour kernel."""

    #: the draw, unconstrained
    z: Any
    #: potential energy of the draw as the chain saw it, in nats; with a control variate all of the
    #: state's energies are differences to that of `warmup.anchor`
    potential_energy_estimate: jax.Array
    #: log importance weight of the draw and its window, not normalised
    log_weight: jax.Array
    #: log importance weight of the draw alone
    draw_log_weight: jax.Array
    #: the part of it that is time, 0 unless the guard reduced the step
    log_time_weight: jax.Array
    #: bin of the draw's potential energy, from 0
    energy_bin: jax.Array
    #: gradient multiplier at the draw
    gradient_multiplier: jax.Array
    #: step size of the step that left the draw
    step_size: jax.Array
    #: lowest potential energy of the positions that the draw stands for, in nats
    lowest_energy: jax.Array
    #: highest potential energy of the positions that the draw stands for, in nats
    highest_energy: jax.Array
    #: state of the pure sampler, where the chain is, theta, the partition and all counts
    sampler: ContourSamplerState | ClimbingState
    #: random key of the next draw
    rng_key: jax.Array
    #: the draw as one vector, (d,), where its energy is to be computed over all data; else (0,)
    unconstrained: jax.Array
    #: what the warm-up has found, as the group `warmup` of `to_inference_data` has it; () where
    #: everything is given
    warmup: Any = ()

    @property
    def position(self) -> Any:
        """Where the chain is; equal to `z` unless the draw stands for a window."""
        return unravel_like(self.sampler.chain.position, self.z)

    @property
    def steps(self) -> jax.Array:
        """Steps attempted since the start."""
        return self.sampler.chain.steps

    @property
    def refused(self) -> jax.Array:
        """How many of them were refused."""
        return self.sampler.chain.guard.refused

    @property
    def clipped(self) -> jax.Array:
        """In how many of them the drift was clipped."""
        return self.sampler.chain.guard.clipped

    @property
    def bounded(self) -> jax.Array:
        """In how many of them `multiplier_bound` decided the gradient multiplier."""
        return self.sampler.bounded

    @property
    def log_theta(self) -> jax.Array:
        """Log of the estimated probability of each energy bin, (num_bins,)."""
        return self.sampler.theta.log_theta - self.sampler.theta.decay[..., None]

    @property
    def partition(self) -> EnergyPartition:
        """The chain's energy partition."""
        return self.sampler.partition
