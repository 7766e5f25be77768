"""The energy partition: equal bins of potential energy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from numpyro_contour import checks


@jax.tree_util.register_pytree_node_class
class EnergyPartition:
    r"""A partition of the sample space into bins of equal width in potential energy.

    .. math:: J(u) = \lfloor (u - u_{lower}) / \Delta u \rfloor \text{ clipped to } 0 \ldots m - 1

    The first bin also holds everything below `lower`, and the last one everything above `upper`. A
    chain may start or stay outside, where the density is not flattened. (The paper numbers bins
    from 1, and its :math:`u_1` is `lower + width`.)

    The range should reach from the energy of the best mode to the energy of the barriers between
    modes. A bin width of half a standard deviation of the energy within a mode is small enough. A
    partition is a pytree, so that chains may differ in `lower` and `upper`.

    Args:
        lower: potential energy at the lower edge of the first bin, in nats.
        upper: potential energy at the upper edge of the last bin, in nats.
        num_bins: number of bins m, at least 3.

    Raises:
        ValueError: an edge is not finite, the edges are out of order, or there are too few bins.

    Source: Deng, Lin and Liang (2020), section 2.

    Example:
        >>> from numpyro_contour import EnergyPartition
        >>> partition = EnergyPartition(lower=0.0, upper=50.0, num_bins=50)
        >>> float(partition.width), [int(partition.index(u)) for u in (-3.0, 12.5, 99.0)]
        (1.0, [0, 12, 49])
    """

    def __init__(self, lower: float, upper: float, num_bins: int):
        self.lower: Any = checks.number("lower", lower)
        self.upper: Any = checks.number("upper", upper)
        self.num_bins = checks.integer("num_bins", num_bins, at_least=3)
        if self.upper <= self.lower:
            raise checks.fail("upper", upper, f"a number above `lower` = {self.lower}")

    @property
    def width(self) -> Any:
        """The width of a bin, in nats."""
        return (self.upper - self.lower) / self.num_bins

    @property
    def edges(self) -> jax.Array:
        """The edges of the bins in nats, (num_bins + 1,)."""
        steps = jnp.arange(self.num_bins + 1)
        return jnp.asarray(self.lower)[..., None] + jnp.asarray(self.width)[..., None] * steps

    def coordinate(self, energy: jax.Array) -> jax.Array:
        """Potential energy in bin widths above `lower`.

        Args:
            energy: potential energies in nats, of any shape.

        Returns:
            Coordinates of the shape of `energy`, not clipped; the left edge of bin i is at i.
        """
        return (energy - self.lower) / self.width

    def rate(self, energy: jax.Array) -> jax.Array:
        """The number of bins per nat at a potential energy: the slope of `coordinate`.

        Args:
            energy: potential energies in nats, of any shape.

        Returns:
            Bins per nat; a single number, as all bins are equal.
        """
        return 1 / jnp.asarray(self.width)

    def index(self, energy: jax.Array) -> jax.Array:
        """The bin of a potential energy.

        Args:
            energy: potential energies in nats, of any shape.

        Returns:
            Indices of bins from 0, of the shape of `energy`; 0 for NaN.
        """
        clipped = jnp.clip(self.coordinate(energy), 0, self.num_bins - 1)
        return jnp.floor(jnp.nan_to_num(clipped)).astype(jnp.int32)

    def __repr__(self) -> str:
        return f"EnergyPartition(lower={self.lower}, upper={self.upper}, num_bins={self.num_bins})"

    def tree_flatten(self) -> tuple[tuple[Any, Any], int]:
        """The edges, and the number of bins, which is static."""
        return (self.lower, self.upper), self.num_bins

    @classmethod
    def tree_unflatten(cls, num_bins: int, edges: tuple[Any, Any]) -> EnergyPartition:
        """A partition without checks: transformations rebuild it around tracers."""
        partition = object.__new__(cls)
        partition.lower, partition.upper = edges
        partition.num_bins = num_bins
        return partition
