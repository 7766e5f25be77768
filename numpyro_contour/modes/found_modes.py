"""The modes that a warm-up has found: a list of slots that descents fill.

Chains move single coordinates between the places that known modes have them at. A list of the
heaviest modes alone may have a coordinate at one place only, and chains could not move it then. A
new mode therefore does not take the slot of one that alone differs in some coordinate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from numpyro_contour.core.arrays.entries import entries, tree_where
from numpyro_contour.core.samplers.chain import Evaluation
from numpyro_contour.core.samplers.known_modes import Modes, no_modes, sides, standardised, times
from numpyro_contour.modes.copies import APART, SAME, next_to
from numpyro_contour.modes.way_down import MOST_FULL_SHAPE, Place, Shape

# Slots for modes: counts of tries take their square, and shapes that of the coordinates.
_SLOTS, _SLOTS_OF_MANY, _MANY = 32, 16, 20
# Positions at which the energies of copies are compared.
_COMPARED = 4
# Places on the way to the nearest known mode, with both ends, and the height in temperatures above
# both that is a barrier.
_ON_THE_WAY, _LEAST_BARRIER = 12, 0.3
#: the least by which a copy's energies may differ from those of its mode, in temperatures.
AS_GOOD = 0.1
#: by what factor, as its log, energies may rise otherwise than those of a normal.
ABOUT = 0.7

#: tries aim at a mode by this power of its mass, and by not less than this share of the heaviest
#: one's, as its log: chains have to come into small modes and out again, but most tries are to
#: serve the large ones.
EVENNESS, LEAST_SHARE = 0.5, -5.0

#: `(position) -> potential energy`
EnergyAt = Callable[[jax.Array], jax.Array]


class FoundModes(NamedTuple):
    """The modes of a chain, or of all chains that run together, in K slots."""

    modes: Modes
    #: log of each mode's mass by its normal, not normalised, minus infinity for none, (K,)
    log_mass: jax.Array
    #: the potential energy at the bottom of each mode, in nats, (K,)
    energy: jax.Array
    #: whether energies around the bottom are about those of the normal, (K,)
    is_normal: jax.Array
    #: how noisy it is: the variance for the chain that has most of it, and which one that is; 0
    #: where energies are exact, and where an anchor has been asked for since it was seen, (K,)
    noise: jax.Array
    noisiest: jax.Array
    #: descents so far
    descents: jax.Array

    @property
    def several(self) -> jax.Array:
        """Whether there is more than one mode, so that there can be jumps."""
        return jnp.sum(self.modes.known, -1) > 1


def slots(size: int) -> int:
    """How many modes are known at most, in d coordinates."""
    return _SLOTS if size <= _MANY else _SLOTS_OF_MANY


def none_found(size: int) -> FoundModes:
    """Before the first descent, for d coordinates."""
    dtype, number = jnp.result_type(float), slots(size)
    blank = (
        np.full((number,), -np.inf, dtype),
        np.full((number,), np.nan, dtype),
        np.zeros((number,), bool),
        np.zeros((number,), dtype),
        np.zeros((number,), np.int32),
        np.zeros((), np.int32),
    )
    return FoundModes(no_modes(number, size, size <= MOST_FULL_SHAPE), *map(jnp.asarray, blank))


def is_known(modes: Modes, bottom: Place) -> jax.Array:
    """Whether a descent has ended in a mode that is known."""
    squares = jnp.sum(standardised(modes, bottom.position) ** 2, -1)
    return jnp.any(modes.known & (squares < APART**2))


def with_modes(
    found: FoundModes, shapes: Shape, temperature: jax.Array, energy_at: EnergyAt
) -> FoundModes:
    """The modes with those of descents that are new, in free slots or as `slot_for` says.

    Args:
        found: the modes so far.
        shapes: where descents have ended, with a leading axis.
        temperature: tau > 0.
        energy_at: the potential energy, by which copies of a mode are told.
    """

    def add(found: FoundModes, shape: Shape) -> tuple[FoundModes, None]:
        new = shape.arrived & ~_is_near(found.modes, shape)
        log_mass = shape.log_volume - shape.energy / temperature
        as_mode = jax.tree.map(lambda x: x[None], _own(shape))
        slot, taken = slot_for(found.modes, found.log_mass, as_mode, log_mass)
        new &= taken

        def added(found: FoundModes) -> FoundModes:
            mode, apart, is_normal = _compared(found.modes, shape, temperature, energy_at)
            modes = jax.tree.map(lambda old, x: old.at[slot].set(x), found.modes, mode)
            grown = found._replace(
                modes=modes,
                log_mass=found.log_mass.at[slot].set(log_mass),
                energy=found.energy.at[slot].set(shape.energy),
                is_normal=found.is_normal.at[slot].set(is_normal),
            )
            return tree_where(apart, grown, found)

        return lax.cond(new, added, lambda x: x, found), None

    found, _ = lax.scan(add, found, shapes)
    return _with_shares(found)


def renewed(found: FoundModes, here: Evaluation, temperature: jax.Array) -> FoundModes:
    """The modes where other gradients put their bottoms, with their energies there, and masses.

    Where energies come from minibatches, anchors have moved since a mode was found, and with them
    the noise of its bottom, and what energies are relative to.

    Args:
        found: the modes so far.
        here: energies, in nats, and gradients at their means, with a leading axis of K.
        temperature: tau > 0.
    """
    modes = found.modes
    dense = modes.factor.ndim == 3
    turned = jnp.swapaxes(modes.factor, -1, -2) if dense else modes.factor
    moves = -times(turned, here.gradient) / temperature
    # A bottom that would move farther is not that of the mode.
    squares = jnp.sum(moves**2, -1)
    near = squares < APART**2
    mean = modes.mean + jnp.where(near[:, None], times(modes.factor, moves), 0.0)
    energies = here.energy - jnp.where(near, 0.5 * squares * temperature, 0.0)
    log_mass = modes.log_volume - energies / temperature
    known = modes.known & jnp.isfinite(log_mass)
    return _with_shares(
        found._replace(
            modes=modes._replace(known=known, mean=mean),
            energy=jnp.where(known, energies, jnp.nan),
            log_mass=jnp.where(known, log_mass, -jnp.inf),
        )
    )


def _with_shares(found: FoundModes) -> FoundModes:
    """The modes with the shares of tries that their masses give them."""
    log_share = jnp.where(found.modes.known, EVENNESS * found.log_mass, 0.0)
    log_share = jnp.maximum(
        log_share - jnp.max(log_share, where=found.modes.known, initial=-jnp.inf), LEAST_SHARE
    )
    return found._replace(modes=found.modes._replace(log_share=log_share))


def _is_near(modes: Modes, shape: Shape) -> jax.Array:
    """Whether a mode is that of a shape, by the distance in either one's standard deviations."""
    there = jnp.sum(standardised(modes, shape.mean) ** 2, -1)
    here = jnp.sum(times(shape.inverse[None], modes.mean - shape.mean) ** 2, -1)
    return jnp.any(modes.known & (jnp.minimum(there, here) < APART**2))


def _own(shape: Shape) -> Modes:
    """A mode by its own shape."""
    known, log_share = jnp.ones((), bool), jnp.zeros_like(shape.log_volume)
    return Modes(known, shape.mean, shape.factor, shape.inverse, shape.log_volume, log_share)


def _compared(
    modes: Modes, shape: Shape, temperature: jax.Array, energy_at: EnergyAt
) -> tuple[Modes, jax.Array, jax.Array]:
    """A mode, as a copy of a known one where that serves, whether it is one, and about a normal.

    It is one if the straight way to the nearest known mode leads over a barrier: a descent that has
    stopped early has none on its way to the bottom.
    """
    size, dtype = shape.mean.shape[-1], shape.mean.dtype
    own = _own(shape)
    squares = jnp.sum(standardised(modes, shape.mean) ** 2, -1)
    neighbour = modes.mean[jnp.argmin(jnp.where(modes.known, squares, jnp.inf))]
    shares = np.linspace(0, 1, _ON_THE_WAY).astype(dtype)[:, None]
    places = way = neighbour + shares * (shape.mean - neighbour)
    if dense := shape.factor.ndim == 2:
        copy, original, alike = _as_copy(modes, shape)
        both = jax.tree.map(lambda *x: jnp.stack(x), original, copy, own)
        offsets = jnp.einsum("kij,zj->kzi", both.factor, directions_around(size, dtype))
        around = both.mean[:, None] + jnp.concatenate([jnp.zeros_like(offsets[:, :1]), offsets], 1)
        places = jnp.concatenate([way, around.reshape(-1, size)])
    energies = lax.map(energy_at, places) / temperature
    rounding = 16 * jnp.finfo(dtype).eps * jnp.abs(shape.energy) / temperature
    on_way = energies[:_ON_THE_WAY]
    barrier = jnp.max(on_way) - jnp.maximum(on_way[0], on_way[-1])
    # What is not finite on the way, as behind a wall, is a barrier too.
    apart = ~(barrier <= _LEAST_BARRIER + rounding) | ~jnp.any(modes.known)
    if not dense:
        return own, apart, jnp.zeros((), bool)
    around = energies[_ON_THE_WAY:].reshape(3, -1)
    rises = around[:, 1:] - around[:, :1]
    of_normal = 0.5 * np.sum(directions_around(size, dtype) ** 2, 1)
    is_normal = jnp.all(jnp.abs(jnp.log(rises[2]) - np.log(of_normal)) < ABOUT)
    by_order, by_shape = jnp.sqrt(jnp.mean((rises[1:] - rises[0]) ** 2, -1))
    alike &= jnp.isfinite(by_order) & ~(by_order > jnp.maximum(by_shape, AS_GOOD + rounding))
    return tree_where(alike, copy, own), apart, is_normal


def _as_copy(modes: Modes, shape: Shape) -> tuple[Modes, Modes, jax.Array]:
    """A mode as a copy of a known one, by an order and signs of coordinates.

    Returns:
        The copy, its original, and whether the bottoms have the same coordinates but for these.
    """
    size = shape.mean.shape[-1]
    orders, signs, away = next_to(modes, shape.mean)
    nearest = jnp.argmin(jnp.where(modes.known, away, jnp.inf))
    original = entries(modes, nearest)
    # A signed permutation: the coordinate of the copy in each row is one of the original.
    turns = jnp.zeros((size, size), signs.dtype).at[orders[nearest], jnp.arange(size)]
    turned = turns.set(signs[nearest])
    copy = original._replace(
        mean=turned @ original.mean,
        factor=turned @ original.factor,
        inverse=original.inverse @ turned.T,
    )
    return copy, original, modes.known[nearest] & (away[nearest] < SAME)


def directions_around(size: int, dtype: Any) -> np.ndarray:
    """Some directions in which no coordinate is like another, about as long as normals are."""
    return np.random.default_rng(0).standard_normal((_COMPARED, size)).astype(dtype)


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
