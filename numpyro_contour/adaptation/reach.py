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
    lower one that was: the chain may climb where it has not been yet. Noise of the energies makes
    the reach longer, never shorter.

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
    padded = jnp.pad(jnp.cumsum(sums, axis=1), ((0, 0), (_BESIDE + 1, _BESIDE)), mode="edge")
    padded = padded.at[:, : _BESIDE + 1].set(0.0)
    changes, number = padded[:, 2 * _BESIDE + 1 :] - padded[:, : -2 * _BESIDE - 1]
    places = jnp.arange(partition.num_bins)
    visited = lax.cummax(jnp.where(number >= _ENOUGH, places, -1))
    diffusivity = (0.5 * changes / jnp.maximum(number, 1))[visited] / partition.width**2
    trips = (places + 1) * jnp.cumsum(1 / diffusivity)
    reached = jnp.sum(trips <= jnp.asarray(steps) / _ROUND_TRIPS)
    nothing_known = number.max() < _ENOUGH
    bins = jnp.where(nothing_known, partition.num_bins, jnp.maximum(reached, _FEWEST))
    return bins.astype(jnp.int32)
