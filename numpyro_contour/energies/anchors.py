"""The anchors of a control variate: points at which the energy of all rows is known."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.compensated_sums import Sum, zero_sum
from numpyro_contour.core.arrays.entries import entries
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.energies.clusters import Clusters, clusters_of
from numpyro_contour.energies.data_expansion import Home
from numpyro_contour.models.all_rows import FullData
from numpyro_contour.models.model_potential import ModelPotential

# So many slots, and so many numbers in all of them: what a chain's state may take.
_SLOTS = 24
_NUMBERS = 2**21


class Anchor(NamedTuple):
    """One point of expansion, or several along a leading axis."""

    #: the point a, (d,)
    position: jax.Array
    #: U(a) over all data, in nats
    energy: Sum
    #: its gradient, (d,)
    gradient: jax.Array
    #: 1 where it is in use; 0 in an empty slot, and where a minibatch alone has less noise
    weight: jax.Array
    #: the Hessian over all data, (d, d); (0, 0) where there are too many coordinates
    hessian: jax.Array
    #: squared distance beyond which a minibatch alone is known to have less noise
    reach: jax.Array


class Anchors(NamedTuple):
    """The anchors of a chain. Its energies are differences to the energy of the first one."""

    #: anchors along a leading axis, (slots, ...); the first is where the warm-up has settled
    slots: Anchor
    #: what a unit of squared distance counts along each coordinate, (d,): 1 / M_ii
    metric: jax.Array
    #: how often each slot was the nearest one, lately
    uses: jax.Array
    #: passes over all rows that were taken to place them
    passes: jax.Array
    #: draws at which a further pass would have looked at more rows than the minibatches had
    refused: jax.Array
    #: the order of the expansion, 1 or 2; 3 for an expansion in the data
    order: jax.Array
    #: where that expansion's energies are relative to, the first anchor; () where there is none
    home: Home | tuple[()] = ()

    @property
    def reference(self) -> Sum:
        """The energy to which a chain's energies are differences."""
        return jax.tree.map(lambda x: x[..., 0], self.slots.energy)

    @property
    def in_use(self) -> jax.Array:
        """Whether there is an anchor in use."""
        return jnp.any(self.slots.weight > 0, axis=-1)


def no_anchors(size: int, orders: tuple[int, ...], clusters: int | None = None) -> Anchors:
    """Empty slots: before the descent has found a point.

    Args:
        size: number of coordinates.
        orders: the orders of the expansion that may come, the first one first.
        clusters: the number of clusters for an expansion in the data. None (default) for no such.
    """
    number = 1 if orders == (3,) else max(1, min(_SLOTS, _NUMBERS // max(size, 1)))
    dtype = jnp.result_type(float)
    blank = jnp.zeros((number, size), dtype)
    side = size if 2 in orders else 0
    hessian = jnp.zeros((number, side, side), dtype)
    weight, reach = jnp.zeros((number,), dtype), jnp.full((number,), jnp.inf, dtype)
    slots = Anchor(blank, zero_sum((number,)), blank, weight, hessian, reach)
    count = jnp.zeros((), jnp.int32)
    uses = jnp.zeros((number,), dtype)
    home: Home | tuple[()] = ()
    if clusters is not None:
        zero = jnp.zeros((), dtype)
        home = Home(blank[0], jnp.zeros((clusters,), dtype), zero)
    order = jnp.asarray(orders[0], jnp.int32)
    return Anchors(slots, jnp.ones((size,), dtype), uses, count, count, order, home)


def anchor_at(full_data: FullData, position: jax.Array, anchors: Anchors) -> Anchor:
    """An anchor of first order, by one pass over all data, for the slots of these anchors."""
    energy, gradient = full_data.energy_and_gradient(position)
    hessian = jnp.zeros(anchors.slots.hessian.shape[-2:], position.dtype)
    one = jnp.ones((), position.dtype)
    return Anchor(position, energy, gradient, one, hessian, jnp.inf * one)


def with_hessian(full_data: FullData, anchor: Anchor) -> Anchor:
    """The anchor with its Hessian, by another pass."""
    return anchor._replace(hessian=full_data.hessian(anchor.position))


def distances(anchors: Anchors, flat: jax.Array) -> jax.Array:
    """The squared distance of a position to each anchor in the metric, (slots,)."""
    squares = (flat - anchors.slots.position) ** 2 @ anchors.metric
    return jnp.where(anchors.slots.weight > 0, squares, jnp.inf)


def nearest(anchors: Anchors, flat: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The number of the anchor nearest to a position, and whether the position is in its reach.

    It is 0 where none is in use.
    """
    squares = distances(anchors, flat)
    number = jnp.argmin(squares)
    return number, squares[number] <= anchors.slots.reach[number]


class Serving(NamedTuple):
    """The anchor that serves a position."""

    #: its slot
    number: jax.Array
    #: without its Hessian, which is large; its weight is 0 where the position is out of its reach
    anchor: Anchor
    #: its energy as a difference to the first one's, ()
    rise: jax.Array
    #: the energy to which a chain's energies are differences
    reference: Sum


def serving(anchors: Anchors, flat: jax.Array) -> Serving:
    """The anchor that serves a position."""
    number, within = nearest(anchors, flat)
    slots = anchors.slots
    anchor = entries(slots._replace(hessian=slots.hessian[:, :0, :0]), number)
    anchor = anchor._replace(weight=jnp.where(within, anchor.weight, 0.0))
    rise = anchor.energy.high - slots.energy.high[0]
    rise += anchor.energy.low - slots.energy.low[0]
    return Serving(number, anchor, rise, anchors.reference)


def with_anchor(anchors: Anchors, number: jax.Array, anchor: Anchor) -> Anchors:
    """The anchors with another one in a slot."""
    slots = jax.tree.map(lambda x, new: x.at[number].set(new), anchors.slots, anchor)
    return anchors._replace(slots=slots, passes=anchors.passes + 1)


def slot_to_fill(anchors: Anchors) -> jax.Array:
    """An empty slot, or else the one least used; never the first."""
    rank = jnp.where(anchors.slots.weight > 0, anchors.uses, -1.0)
    return jnp.argmin(rank.at[0].set(jnp.inf))


#: Names of control variates, and the orders of the expansion among which the noise decides: 1 and 2
#: at anchors, 3 in the data.
CONTROL_VARIATES = {
    "control_variate": (1, 2, 3),
    "first_order": (1,),
    "second_order": (2,),
    "data_expansion": (3,),
}
# The most coordinates for which the second order is taken: a Hessian costs as many gradients.
_MOST_OF_SECOND_ORDER = 200
# From so many rows on an expansion in the data is considered that nobody has asked for.
_MANY_ROWS = 50_000


class Expansions(NamedTuple):
    """The expansions that may come in a run."""

    #: their orders, the first one first
    orders: tuple[int, ...]
    #: the clusters of the rows for an expansion in the data; () without one
    clusters: Clusters | tuple[()]

    def no_anchors(self, size: int) -> Anchors:
        """Empty slots for positions of so many coordinates."""
        return no_anchors(size, self.orders, len(self.clusters.counts) if self.clusters else None)


def expansions_of(energy: Any, potential: ModelPotential, like: Any) -> Expansions | None:
    """The expansions of a control variate; None for a callable or other names.

    Args:
        energy: the argument of this name.
        potential: the potential energy of the model.
        like: an unconstrained position.

    Raises:
        ValueError: what is asked for by name is not possible.
    """
    if callable(energy) or (energy is not None and energy not in CONTROL_VARIATES):
        return None
    orders, size = CONTROL_VARIATES[energy or "control_variate"], ravel(like).shape[0]
    if orders == (2,) and size > _MOST_OF_SECOND_ORDER:
        raise ValueError(
            f"`energy` takes 'second_order' for at most {_MOST_OF_SECOND_ORDER} parameters, since "
            f"an anchor's Hessian costs a gradient over all rows for each of them, but the model "
            f"has {size}. Use 'first_order'."
        )
    rows = max((size for size, _ in potential.plates.sizes.values()), default=0)
    considered = orders == (3,) or (3 in orders and rows >= _MANY_ROWS)
    clusters = clusters_of(potential) if considered else ""
    if isinstance(clusters, str):
        if orders == (3,):
            raise ValueError(f"`energy='data_expansion'` does not fit this model: {clusters}.")
        return Expansions(_without(orders, 3, size), ())
    return Expansions(_without(orders, None, size), clusters)


def _without(orders: tuple[int, ...], dropped: int | None, size: int) -> tuple[int, ...]:
    too_large = size > _MOST_OF_SECOND_ORDER
    return tuple(k for k in orders if k != dropped and not (k == 2 and too_large))
