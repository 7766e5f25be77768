"""What the warm-up of a climbing chain finds: bins up to the stated barrier, and steps."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.flattening.wang_landau import (
    gaussian_log_theta,
    initial_wang_landau,
    normalised_log_theta,
)
from numpyro_contour.core.flattening.widening_partition import Edges, WideningPartition
from numpyro_contour.core.samplers.climbing import ClimbingState, LevelSteps, initial_steps
from numpyro_contour.warmup.stages.state import StageEnergies
from numpyro_contour.warmup.stages.tuning import Tuning

#: Bins from below the typical energies to the top.
NUM_BINS = 48

# At a barrier's own height the passage between modes is a point; between two Gaussians in d
# dimensions, at the height e over a barrier of h, it is a share (1 - h / e)^((d - 1) / 2) of all
# that is as high. The upper end is where that is 2 %, and at least 10 temperatures above. Chains
# that go far higher get lost: on the gauss_mix data where one of the normals is on no row.
_PASSAGE = 0.02
_LEAST_HEADROOM = 10.0

# Bins are so many times as dense from the barriers upwards: chains pass there.
_DENSE = 4.0

# The first bin ends about where half of the posterior's lowest energies are, so that nothing is
# gained by going down into a minimum: so many standard deviations below the mean.
_DEPTH = 0.5

# How far r of a partition may be from that of a Gaussian, d tau / 2.
_REACH_RANGE = (0.25, 4.0)

# A deeper mode was found if energies are lower by so many standard deviations.
_DEEPER = 0.5


def unknown_partition(num_bins: int) -> WideningPartition:
    """In place of a partition that is to be found: every energy is at its lower end."""
    edges = Edges(1e30, 1e30, 1.0, 2e30, 3e30)
    return WideningPartition.tree_unflatten((num_bins, _DENSE), edges)


def tuned_steps(tuning: Tuning, temperature: jax.Array) -> LevelSteps:
    """The steps that were found for typical energies, at all levels."""
    square = temperature / tuning.preconditioner
    return initial_steps(tuning.step_size.log_average, square)


def partition_to(
    barrier: float, mean: jax.Array, sd: jax.Array, size: int, temperature: jax.Array, num_bins: int
) -> WideningPartition:
    """Bins from the energies of a mode to above a barrier.

    Args:
        barrier: its height above the mean energy, in nats.
        mean: mean energy in the mode, in nats.
        sd: their standard deviation, in nats.
        size: number of coordinates.
        temperature: tau.
        num_bins: number of bins.
    """
    gaussian = size * temperature / 2
    reach = jnp.clip(sd**2 / temperature, _REACH_RANGE[0] * gaussian, _REACH_RANGE[1] * gaussian)
    lower = mean - _DEPTH * jnp.sqrt(reach * temperature)
    height = barrier / (1 - _PASSAGE ** (2 / max(size - 1, 1)))
    top = mean + height + _LEAST_HEADROOM * temperature
    edges = Edges(lower, mean, reach, mean + barrier, top)
    return WideningPartition.tree_unflatten((num_bins, _DENSE), edges)


def renewed_climb(
    state: ClimbingState, seen: StageEnergies, barrier: float, temperature: jax.Array
) -> ClimbingState:
    """The state after a draw of the warm-up: bins, theta and steps where the pilot ends.

    Where a window ends that has found a deeper mode theta is learnt anew, on bins that begin lower.
    """
    old, size = state.partition, state.chain.position.shape[-1]
    new = partition_to(barrier, seen.found.mean, seen.found.sd, size, temperature, old.num_bins)
    deeper = seen.found.mean < old.typical - _DEEPER * jnp.sqrt(new.reach * temperature)
    renews = seen.renews & (seen.is_pilot | deeper) & jnp.isfinite(new.lower)
    partition = tree_where(renews, new, old)

    fresh = initial_wang_landau(old.num_bins)
    moved = carried_correction(state, partition, temperature)
    begun = fresh._replace(correction=jnp.where(seen.is_pilot, fresh.correction, moved))
    learning = tree_where(renews, begun, state.learning)
    log_theta = normalised_log_theta(learning, partition, temperature)
    # The pilot's moves were all at typical energies.
    alike = initial_steps(state.levels.log_step_size[0], state.levels.square[0])
    pilot_ended = renews & seen.is_pilot
    return state._replace(
        partition=partition,
        learning=learning,
        theta=state.theta._replace(
            log_theta=jnp.where(renews, log_theta, state.theta.log_theta),
            bin_counts=jnp.where(renews, 0, state.theta.bin_counts),
        ),
        levels=tree_where(pilot_ended, alike, state.levels),
    )


def carried_correction(
    state: ClimbingState, partition: WideningPartition, temperature: jax.Array
) -> jax.Array:
    """What theta of one partition says on another, less a Gaussian's, (num_bins,)."""
    old = state.partition
    edges = partition.edges
    centres = 0.5 * (edges[1:] + edges[:-1])
    places = old.coordinate(centres) - 0.5
    numbers = jnp.arange(old.num_bins, dtype=places.dtype)
    # A bin that is wider holds more.
    wider = jnp.log(old.rate(centres)) - jnp.log(partition.rate(centres))
    log_theta = jnp.interp(places, numbers, state.theta.log_theta) + wider
    correction = log_theta - gaussian_log_theta(partition, temperature)
    return correction - jnp.mean(correction)
