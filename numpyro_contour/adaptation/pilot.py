"""The stage "pilot": energies of the density as it is, which say where bins are needed.

It hands on the energy partition, on which theta begins, and the standard deviation of the energy.
"""

from __future__ import annotations

import jax

from numpyro_contour.core.flattening.energy_partition import EnergyPartition

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
