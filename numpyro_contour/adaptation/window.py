"""The stage "window": flattened draws, whose weighted energies say better where bins are needed.

It hands on the energy partition, and theta carried over to it.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.adaptation.energies import Energies, Spread
from numpyro_contour.adaptation.pilot import MARGIN, fitting_partition
from numpyro_contour.adaptation.reach import bins_in_reach
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.core.flattening.theta import LOG_THETA_FLOOR, ThetaState, initial_theta

# Bins that the first window flattens: energies that were not flattened do not tell how slow the way
# up becomes.
_FIRST = 24

# Standard deviations of the energy by which a window's mean may be above the pilot's.
_MOST_RISE = 3.0

#: The spread of energies that a window finds counts within these factors of the pilot's.
SD_RANGE = (0.3, 3.0)


def credible(found: Spread, pilot: Spread, renews: jax.Array) -> Spread:
    """Where the energies of the posterior lie, by a window if it has seen them, else by the pilot.

    A chain that has climbed far and has not come back yet has seen little of the posterior: its
    energies are far above those of the pilot, and so is their spread.

    Args:
        found: where the energies of the stage lie.
        pilot: where those of the pilot lay.
        renews: whether the stage ends, and is to say where bins are needed.
    """
    is_away = renews & (found.mean > pilot.mean + _MOST_RISE * pilot.sd)
    return jax.tree.map(partial(jnp.where, is_away), pilot, found)


def renew_partition(
    found: Spread,
    energies: Energies,
    steps: jax.Array,
    pilot_sd: jax.Array,
    is_pilot: jax.Array,
    renews: jax.Array,
    partition: EnergyPartition,
    theta: ThetaState,
    bin_width: float,
    chains: str | None = None,
) -> tuple[EnergyPartition, ThetaState]:
    """The partition that is found at the end of a pilot or window, and theta on it.

    Args:
        found: where the energies of the stage lie, with the low end of all stages so far.
        energies: the energies of the stage.
        steps: the steps of the whole warm-up.
        pilot_sd: their standard deviation in the pilot, in nats.
        is_pilot: whether the stage was the pilot.
        renews: whether the partition is to be renewed now.
        partition: the chain's partition.
        theta: its theta.
        bin_width: width of the bins, in standard deviations of the energy.
        chains: the name of the axis of chains that share the partition. None (default) for a
            partition of the chain's own.
    """
    num_bins, blank = partition.num_bins, initial_theta(partition.num_bins)
    sd = jnp.clip(found.sd, SD_RANGE[0] * pilot_sd, SD_RANGE[1] * pilot_sd)
    new = fitting_partition(found.low, sd, num_bins, bin_width)
    bins = lax.cond(
        renews,
        lambda: bins_in_reach(energies, new, steps),
        lambda: jnp.full((), num_bins, jnp.int32),
    )
    bins = jnp.where(is_pilot, jnp.minimum(bins, _FIRST), bins)
    bins = bins if chains is None else lax.pmin(bins, chains)
    # Bins of the same width: those that are out of reach go below the lowest energy, where no chain
    # comes.
    unused = (num_bins - bins) * new.width
    new = EnergyPartition.tree_unflatten(num_bins, (new.lower - unused, new.upper - unused))
    log_theta = carry_over(theta.log_theta, partition, new)
    carried = blank._replace(log_theta=jnp.where(is_pilot, blank.log_theta, log_theta))
    usable = jnp.isfinite(new.lower) & (sd > 0)
    return jax.tree.map(
        lambda a, b: jnp.where(renews & usable, a, b), (new, carried), (partition, theta)
    )


def bins_in_use(partition: EnergyPartition, low: jax.Array, bin_width: float) -> EnergyPartition:
    """The ends of the bins that chains come to: those that are left over lie below `low`."""
    lower = jnp.fmax(partition.lower, low - MARGIN / bin_width * partition.width)
    return EnergyPartition.tree_unflatten(partition.num_bins, (lower, partition.upper))


def carry_over(log_theta: jax.Array, old: EnergyPartition, new: EnergyPartition) -> jax.Array:
    """Log theta on the bins of a new partition: the density is carried over and normalised."""
    places = old.coordinate(new.edges[:-1])
    moved = jnp.interp(places, jnp.arange(old.num_bins, dtype=places.dtype), log_theta)
    return jnp.maximum(jax.nn.log_softmax(moved), LOG_THETA_FLOOR)
