"""An energy partition whose bins widen with the potential energy, for barriers of any height."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.core.flattening.energy_partition import EnergyPartition


class Edges(NamedTuple):
    """The potential energies that make a `WideningPartition`, in nats."""

    lower: Any
    #: up to here all bins have the same width
    typical: Any
    #: the distance above `typical` where bins are twice as wide
    reach: Any
    #: the energy above which they are narrower again
    level: Any
    upper: Any


@jax.tree_util.register_pytree_node_class
class WideningPartition(EnergyPartition):
    r"""A partition into bins that are equal up to the typical energy and widen above it.

    .. math:: J(u) = \lfloor m\, s(u) / s(u_{upper}) \rfloor, \qquad
              s'(u) = \frac{1}{1 + (u - u_{typical})^+ / r} \cdot
              \begin{cases} 1 & u < u_{level} \\ b & u \ge u_{level} \end{cases}

    A density that is flat over these bins is flat in the logarithm of the energy. A climb of
    hundreds of nats then takes as many bins as one of tens, and as many steps if the step size
    grows with the energy. Chains pass from mode to mode between the level of the barriers and the
    upper end, and there bins are `dense` times as dense.

    Args:
        lower: potential energy at the lower edge of the first bin, in nats.
        typical: the energy up to which bins are equal, at least `lower`, in nats.
        reach: r > 0, the distance above `typical` where bins are twice as wide, in nats. For a
            Gaussian in d dimensions, :math:`r = d \tau / 2` matches the growth of the volume with
            the energy.
        level: the potential energy of the barriers, above `typical`, in nats.
        upper: potential energy at the upper edge of the last bin, above `level`, in nats.
        num_bins: number of bins m, at least 3.
        dense: b > 0, the factor by which bins are denser above `level`. Defaults to 1.

    Raises:
        ValueError: an edge is not finite, the edges are out of order, or there are too few bins.

    Example:
        >>> from numpyro_contour.core.flattening.widening_partition import WideningPartition
        >>> partition = WideningPartition(0.0, 2.0, 3.0, 400.0, 600.0, 48)
        >>> [round(float(edge)) for edge in partition.edges[::12]]
        [0, 6, 29, 134, 600]
    """

    def __init__(
        self,
        lower: float,
        typical: float,
        reach: float,
        level: float,
        upper: float,
        num_bins: int,
        dense: float = 1.0,
    ):
        super().__init__(lower, upper, num_bins)
        self.typical: Any = checks.number("typical", typical)
        self.reach: Any = checks.positive("reach", reach)
        self.level: Any = checks.number("level", level)
        self.dense = checks.positive("dense", dense)
        if not self.lower <= self.typical < self.level <= self.upper:
            takes = f"an energy between `typical` = {typical} and `upper` = {upper}"
            raise checks.fail("level", level, takes)

    @property
    def width(self) -> Any:
        """The width of a bin at the typical energy, in nats."""
        return self._stretch(self.upper) / self.num_bins

    @property
    def edges(self) -> jax.Array:
        """The num_bins + 1 edges, in nats."""
        lower, typical, reach, level, upper = (
            jnp.asarray(x)[..., None]
            for x in (self.lower, self.typical, self.reach, self.level, self.upper)
        )
        to = self._stretch(self.upper)
        s = jnp.asarray(to)[..., None] * jnp.arange(self.num_bins + 1) / self.num_bins
        even = typical - lower
        logs = (s - even) / reach
        of_level = jnp.log1p((level - typical) / reach)
        above = of_level + (logs - of_level) / self.dense
        risen = typical + reach * jnp.expm1(jnp.where(logs > of_level, above, logs))
        edges = jnp.where(s < even, lower + s, risen)
        return edges.at[..., -1].set(upper[..., 0])

    def coordinate(self, energy: jax.Array) -> jax.Array:
        """Potential energy in bins above `lower`.

        Args:
            energy: potential energies in nats, of any shape.

        Returns:
            Coordinates of the shape of `energy`: 0 at the lower end, `num_bins` at the upper one.
        """
        return self._stretch(energy) * (self.num_bins / self._stretch(self.upper))

    def rate(self, energy: jax.Array) -> jax.Array:
        """The number of bins per nat at a potential energy: the slope of `coordinate`.

        Args:
            energy: potential energies in nats, of any shape.

        Returns:
            Bins per nat, of the shape of `energy`.
        """
        dense = jnp.where(energy < self.level, 1.0, self.dense)
        return dense * self.evenness(energy) * (self.num_bins / self._stretch(self.upper))

    def evenness(self, energy: jax.Array) -> jax.Array:
        r"""The ratio of the bin width at the typical energy to the one at an energy below `level`.

        .. math:: \lambda(u) = \frac{1}{1 + (u - u_{typical})^+ / r}

        Args:
            energy: potential energies in nats, of any shape.

        Returns:
            Numbers in (0, 1], of the shape of `energy`.
        """
        return 1 / (1 + jnp.maximum(energy - self.typical, 0) / self.reach)

    def height(self, energy: jax.Array) -> jax.Array:
        """The height of a potential energy above the typical one, on the logarithmic scale of bins.

        Args:
            energy: potential energies in nats, of any shape.

        Returns:
            0 up to the typical energy and 1 at the upper end, of the shape of `energy`.
        """
        above = jnp.maximum(energy - self.typical, 0) / self.reach
        return jnp.log1p(above) / jnp.log1p((self.upper - self.typical) / self.reach)

    def _stretch(self, energy: Any) -> jax.Array:
        """The integral of `evenness` from `lower`, denser above `level`."""
        even = jnp.minimum(energy, self.typical) - self.lower
        above = jnp.maximum(energy - self.typical, 0)
        on_level = jnp.maximum(energy - self.level, 0)
        more = jnp.log1p(on_level / (self.reach + self.level - self.typical))
        return even + self.reach * (jnp.log1p(above / self.reach) + (self.dense - 1) * more)

    def __repr__(self) -> str:
        names = ("lower", "typical", "reach", "level", "upper", "num_bins", "dense")
        inside = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"WideningPartition({inside})"

    def tree_flatten(self) -> tuple[Edges, tuple[int, float]]:  # type: ignore[override]
        """The energies, and what is static."""
        edges = Edges(self.lower, self.typical, self.reach, self.level, self.upper)
        return edges, (self.num_bins, self.dense)

    @classmethod
    def tree_unflatten(cls, static: tuple[int, float], edges: Any) -> WideningPartition:  # type: ignore[override]
        """A partition without checks: transformations rebuild it around tracers."""
        partition = object.__new__(cls)
        partition.lower, partition.typical, partition.reach, partition.level, partition.upper = (
            edges
        )
        partition.num_bins, partition.dense = static
        return partition
