"""The paths of replicas through a ladder of temperatures, and their round trips."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

# Where a walker is headed: it has been at neither end, last at the coldest, last at the hottest.
_NOWHERE, _UP, _DOWN = 0, 1, -1


class Walkers(NamedTuple):
    """Who is where in a ladder of R temperatures; a walker keeps its position when it swaps."""

    #: the walker at each temperature, the coldest first, (R,)
    at: jax.Array
    #: 1 for a walker that was last at the coldest end, -1 for one that has since been at the
    #: hottest, 0 for one that was at the coldest never yet, (R,)
    heading: jax.Array
    #: trips of each walker from the coldest temperature to the hottest and back, (R,)
    round_trips: jax.Array


def first_walkers(num_replicas: int) -> Walkers:
    """Walkers at the temperatures of their numbers, before any swap."""
    heading = jnp.full((num_replicas,), _NOWHERE, jnp.int32).at[0].set(_UP)
    return Walkers(
        jnp.arange(num_replicas, dtype=jnp.int32),
        heading,
        jnp.zeros((num_replicas,), jnp.int32),
    )


def source_of(swapping: jax.Array) -> jax.Array:
    """From which temperature the replica at each temperature comes, (R,).

    Args:
        swapping: whether each pair of neighbours swaps, (R - 1,); no replica is in two such pairs.
    """
    up, down = jnp.pad(swapping, (0, 1)), jnp.pad(swapping, (1, 0))
    return jnp.arange(len(up)) + jnp.where(up, 1, 0) - jnp.where(down, 1, 0)


def walk(walkers: Walkers, swapping: jax.Array) -> Walkers:
    """The walkers after a round of swaps.

    Args:
        walkers: those before it.
        swapping: whether each pair of neighbours swaps, (R - 1,).

    Source: the index process of Syed et al. (2022), section 3.
    """
    at = walkers.at[source_of(swapping)]
    coldest, hottest = at[0], at[-1]
    is_back = walkers.heading[coldest] == _DOWN
    round_trips = walkers.round_trips.at[coldest].add(jnp.where(is_back, 1, 0))
    heading = walkers.heading.at[coldest].set(_UP)
    turned = jnp.where(heading[hottest] == _UP, _DOWN, heading[hottest])
    return Walkers(at, heading.at[hottest].set(turned), round_trips)
