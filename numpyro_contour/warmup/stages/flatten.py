"""The stages "pilot", "window" and "learn": the energy partition is found, and theta is learnt.

The pilot samples the density as it is: its energies say where bins are needed, and theta begins on
these. Windows are flattened, and their weighted energies say it better; theta is carried over to
the new bins. In the last stage, draws are made as after the warm-up until theta has settled.

With heavy tails, such as those of a t distribution, a few nats lead very far out, and a chain that
goes there does not return within the run: bins end at the height from which chains come back often.
The gain counts from the end of the pilot.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.core.flattening.theta import LOG_THETA_FLOOR, ThetaState, initial_theta
from numpyro_contour.schedules import Schedule
from numpyro_contour.warmup.stages.energies import Energies, Spread

#: Width of a bin in standard deviations of the energy.
BIN_WIDTH = 0.5
#: Lower edge below the 1 % quantile, in standard deviations of the energy.
MARGIN = 0.25


def fitting_partition(
    low: jax.Array, sd: jax.Array, num_bins: int, bin_width: float
) -> EnergyPartition:
    """Bins of so many standard deviations from just below the 1 % quantile upwards."""
    lower = low - MARGIN * sd
    return EnergyPartition.tree_unflatten(num_bins, (lower, lower + bin_width * sd * num_bins))


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
    return tree_where(is_away, pilot, found)


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
    return tree_where(renews & usable, (new, carried), (partition, theta))


def bins_in_use(partition: EnergyPartition, low: jax.Array, bin_width: float) -> EnergyPartition:
    """The ends of the bins that chains come to: those that are left over lie below `low`."""
    lower = jnp.fmax(partition.lower, low - MARGIN / bin_width * partition.width)
    return EnergyPartition.tree_unflatten(partition.num_bins, (lower, partition.upper))


def carry_over(log_theta: jax.Array, old: EnergyPartition, new: EnergyPartition) -> jax.Array:
    """Log theta on the bins of a new partition: the density is carried over and normalised."""
    places = old.coordinate(new.edges[:-1])
    moved = jnp.interp(places, jnp.arange(old.num_bins, dtype=places.dtype), log_theta)
    return jnp.maximum(jax.nn.log_softmax(moved), LOG_THETA_FLOOR)


#: A run as long as the warm-up has at least so many round trips.
_ROUND_TRIPS = 10
#: The fewest bins that are flattened: four standard deviations of the energy.
_FEWEST = 8
# The diffusivity of a bin is that of so many bins on each side of it.
_BESIDE = 2
# Bins with fewer changes of the energy count as not visited.
_ENOUGH = 8


def bins_in_reach(
    energies: Energies, partition: EnergyPartition, steps: jax.Array | int
) -> jax.Array:
    r"""The bins, counted from the lowest, of which a flattened chain makes enough round trips.

    .. math:: T(L) = L \int_0^L \frac{du}{D(u)}, \qquad D(u) = \frac12 E[(\Delta U)^2 \mid U = u]

    is the time of a round trip between the ends of energies that are L nats wide and visited
    evenly, where D is the diffusivity of the energy. Bins that were not visited count as the next
    lower one that was, or as the lowest: the chain may climb where it has not been yet. Noise of
    the energies makes the reach longer, never shorter.

    Args:
        energies: the energies of a window.
        partition: bins up to where flattening is wanted.
        steps: the steps of the whole warm-up.

    Returns:
        A number of bins, ().

    Source: Trebst, Huse and Troyer (2004), Optimizing the ensemble for equilibration in
        broad-histogram Monte Carlo simulations, for round trips and the diffusivity of the energy.
    """
    known = jnp.isfinite(energies.changes) & jnp.isfinite(energies.values)
    bins = partition.index(energies.values)
    sums = jnp.zeros((2, partition.num_bins), energies.values.dtype)
    sums = sums.at[:, bins].add(jnp.where(known, jnp.stack([energies.changes, known]), 0.0))
    # No differences of cumulative sums: one jump may be larger than all other changes.
    padded = jnp.pad(sums, ((0, 0), (_BESIDE, _BESIDE)))
    near = [padded[:, i : i + partition.num_bins] for i in range(2 * _BESIDE + 1)]
    changes, number = jnp.stack(near).sum(0)
    places = jnp.arange(partition.num_bins)
    enough = number >= _ENOUGH
    visited = lax.cummax(jnp.where(enough, places, jnp.argmax(enough)))
    diffusivity = (0.5 * changes / jnp.maximum(number, 1))[visited] / partition.width**2
    trips = (places + 1) * jnp.cumsum(1 / diffusivity)
    reached = jnp.sum(trips <= jnp.asarray(steps) / _ROUND_TRIPS)
    bins = jnp.where(enough.any(), jnp.maximum(reached, _FEWEST), partition.num_bins)
    return bins.astype(jnp.int32)


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
