"""The stage "window": flattened draws, whose weighted energies say better where bins are needed.

It hands on the energy partition, and theta carried over to it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numpyro_contour.adaptation.energies import Spread
from numpyro_contour.adaptation.pilot import fitting_partition
from numpyro_contour.adaptation.stage import Stage
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.core.flattening.theta import LOG_THETA_FLOOR, ThetaState, initial_theta

WINDOW = Stage("window", flattens=True, places_anchors=True, renews_partition=True)

#: The spread of energies that a window finds counts within these factors of the pilot's.
SD_RANGE = (0.3, 3.0)


def renew_partition(
    found: Spread,
    pilot_sd: jax.Array,
    is_pilot: jax.Array,
    renews: jax.Array,
    partition: EnergyPartition,
    theta: ThetaState,
    bin_width: float,
) -> tuple[EnergyPartition, ThetaState]:
    """The partition that is found at the end of a pilot or window, and theta on it.

    Args:
        found: the energies of the stage.
        pilot_sd: their standard deviation in the pilot, in nats.
        is_pilot: whether the stage was the pilot.
        renews: whether the partition is to be renewed now.
        partition: the chain's partition.
        theta: its theta.
        bin_width: width of the bins, in standard deviations of the energy.
    """
    num_bins = partition.num_bins
    sd = jnp.clip(found.sd, SD_RANGE[0] * pilot_sd, SD_RANGE[1] * pilot_sd)
    new = fitting_partition(found.low, sd, num_bins, bin_width)
    # The lower edge never rises: what lies below the partition is not flattened.
    lower = jnp.where(is_pilot, new.lower, jnp.minimum(new.lower, partition.lower))
    new = EnergyPartition.tree_unflatten(num_bins, (lower, lower + (new.upper - new.lower)))
    blank = initial_theta(num_bins)
    log_theta = carry_over(theta.log_theta, partition, new)
    carried = blank._replace(log_theta=jnp.where(is_pilot, blank.log_theta, log_theta))
    usable = jnp.isfinite(new.lower) & (sd > 0)
    return jax.tree.map(
        lambda a, b: jnp.where(renews & usable, a, b), (new, carried), (partition, theta)
    )


def carry_over(log_theta: jax.Array, old: EnergyPartition, new: EnergyPartition) -> jax.Array:
    """Log theta on the bins of a new partition: the density is carried over and normalised."""
    places = old.coordinate(new.edges[:-1])
    moved = jnp.interp(places, jnp.arange(old.num_bins, dtype=places.dtype), log_theta)
    return jnp.maximum(jax.nn.log_softmax(moved), LOG_THETA_FLOOR)
