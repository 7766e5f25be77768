"""Which slot a new mode takes where the list is full: not that of the last one elsewhere.

Chains move single coordinates between the places that known modes have them at. A list of the
heaviest modes alone may have a coordinate at one place only, and chains stay there then.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.samplers.known_modes import Modes
from numpyro_contour.core.samplers.one_coordinate import sides

#: a mode that is lighter than the heaviest one by more nats is not kept for where it is. Half a nat
#: for each coordinate comes to this: so far above its bottom are the typical energies of a mode.
FAR_LIGHTER = 10.0


class Chosen(NamedTuple):
    """The slot that a new mode is for."""

    slot: jax.Array
    #: whether it is to be put there
    taken: jax.Array


def slot_for(modes: Modes, log_mass: jax.Array, new: Modes, new_log_mass: jax.Array) -> Chosen:
    """The slot of the lightest mode that others can replace in each coordinate.

    Others can if the same coordinates have modes that are apart in them without it. A mode that is
    lighter than all is taken if it is the first elsewhere in a coordinate.

    Args:
        modes: the modes that are known, in K slots.
        log_mass: log of their masses, minus infinity in free slots, (K,).
        new: the new mode, a list of one slot.
        new_log_mass: log of its mass.

    Returns:
        The `Chosen` slot.
    """
    _, low, high, without_new = sides(modes)
    _, new_low, new_high, _ = sides(new)
    splits = jnp.maximum(jnp.max(low, 0), new_low[0]) > jnp.minimum(jnp.min(high, 0), new_high[0])
    # The largest and the least of the others, for each slot: the second where it is the first.
    largest = jnp.maximum(_largest_of_others(low), new_low)
    least = jnp.minimum(-_largest_of_others(-high), new_high)
    still_splits = largest > least
    heaviest = jnp.maximum(jnp.max(log_mass), new_log_mass)
    least_mass = heaviest - FAR_LIGHTER - modes.mean.shape[-1] / 2
    needed = (log_mass > least_mass) & jnp.any(splits & ~still_splits, -1)
    adds = (new_log_mass > least_mass) & jnp.any(splits & ~without_new)
    all_needed = jnp.all(needed)
    slot = jnp.argmin(jnp.where(needed & ~all_needed, jnp.inf, log_mass))
    # Where each is needed, nothing but a mode that is heavier than all is worth more.
    lightest = jnp.where(all_needed, jnp.max(log_mass), log_mass[slot])
    return Chosen(slot, (new_log_mass > lightest) | (adds & ~all_needed))


def _largest_of_others(values: jax.Array) -> jax.Array:
    """For each row, the largest of the other rows in each column."""
    number = values.shape[0]
    first = jnp.argmax(values, 0)
    is_first = jnp.arange(number)[:, None] == first
    second = jnp.max(jnp.where(is_first, -jnp.inf, values), 0)
    return jnp.where(is_first, second, jnp.max(values, 0))
