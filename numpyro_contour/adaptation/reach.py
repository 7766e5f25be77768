"""How high a flattened chain can climb and still come back often: the end of its partition.

Where tails are heavy, as those of a t distribution, a few nats lead very far out, and a chain that
goes there does not return within the run.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.adaptation.energies import Energies
from numpyro_contour.core.flattening.energy_partition import EnergyPartition

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
