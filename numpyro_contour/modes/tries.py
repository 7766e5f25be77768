"""Tries to jump between the modes that a chain knows, and what the warm-up learns from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.samplers.guard import all_finite
from numpyro_contour.modes.blocks import Flips
from numpyro_contour.modes.mode_shapes import (
    ModeShapes,
)
from numpyro_contour.modes.moves import MOVES, Chance, Here, move

#: `position -> (potential energy, gradient)` of one position, (d,)
EnergyAndGradient = Callable[[jax.Array], tuple[jax.Array, jax.Array]]


class Point(NamedTuple):
    """Where a chain is."""

    #: (d,)
    position: jax.Array
    energy: jax.Array
    #: (d,)
    gradient: jax.Array


class Counts(NamedTuple):
    """Tries and jumps from mode to mode, and by kind of move."""

    #: from rows to columns, (K, K); tries that stay in a mode are on the diagonal
    tried: jax.Array
    made: jax.Array
    #: the inner kernel's own ways from mode to mode, (K, K)
    walked: jax.Array
    #: of each of the `MOVES`, (3,)
    tried_by_move: jax.Array
    made_by_move: jax.Array


class TryLessons(NamedTuple):
    """What tries have taught."""

    #: probabilities to accept times squared distances in standard deviations, by move, (3,)
    gain: jax.Array
    #: tries by move, (3,)
    tries: jax.Array
    #: the sum of the probabilities that a try changes the mode
    changes: jax.Array


class Plan(NamedTuple):
    """How a chain tries to jump."""

    modes: ModeShapes
    flips: Flips
    #: log shares of the `MOVES`, (3,)
    log_share: jax.Array
    #: tries after each draw
    tries: jax.Array


def no_counts(number: int) -> Counts:
    """Before the first try, for K modes."""
    pairs: Any = np.zeros((number, number), np.int32)
    kinds: Any = np.zeros((len(MOVES),), np.int32)
    return Counts(pairs, pairs, pairs, kinds, kinds)


def no_tries(dtype: Any) -> TryLessons:
    """Before the first try has taught anything."""
    kinds: Any = np.zeros((len(MOVES),), dtype)
    zero: Any = np.zeros((), dtype)
    return TryLessons(kinds, kinds, zero)


def first_plan(modes: ModeShapes, flips: Flips, tries: int) -> Plan:
    """The plan before anything is learnt: all moves are tried as often."""
    usable = np.array([True, True, flips.inside.shape[0] > 0])
    with np.errstate(divide="ignore"):
        log_share = np.log(usable / usable.sum()).astype(modes.mean.dtype)
    number: Any = np.asarray(tries, np.int32)
    return Plan(modes, flips, log_share, number)


def jumped(
    key: jax.Array,
    plan: Plan,
    energy_and_gradient: EnergyAndGradient,
    start: Point,
    last_mode: jax.Array,
) -> tuple[Point, jax.Array, Counts, TryLessons]:
    """A chain after its tries to jump.

    Args:
        key: random key.
        plan: how it tries.
        energy_and_gradient: of one position, (d,).
        start: where it is.
        last_mode: the mode of its last draw, from where its own moves have led it.

    Returns:
        Where it is then, the mode that it is in, the counts of these tries, and what they teach.
    """
    plan = jax.tree.map(jnp.asarray, plan)  # on the host it has NumPy's arrays
    modes = plan.modes
    spread = _spread(modes)

    def one(number: jax.Array, carry: tuple) -> tuple:
        point, here, counts, lessons = carry
        drawn = Chance.of(random.fold_in(key, number), modes)
        kind, there, log_factor = move(drawn, plan.log_share, modes, plan.flips, here)
        found = Point(there.position, *energy_and_gradient(there.position))
        log_ratio = point.energy - found.energy + log_factor
        usable = all_finite(*found, log_ratio)
        chance = jnp.where(usable, jnp.exp(jnp.minimum(log_ratio, 0.0)), 0.0)
        made = drawn.of_test <= chance
        distance = jnp.sum(((there.position - point.position) / spread) ** 2)
        way = (numbers == here.mode)[:, None] & (numbers == there.mode)
        is_kind = jnp.arange(len(MOVES)) == kind
        more = Counts(way, way & made, jnp.zeros_like(way), is_kind, is_kind & made)
        counts = jax.tree.map(lambda n, is_it: n + is_it.astype(n.dtype), counts, more)
        gain = chance * jnp.where(usable, distance, 0.0)
        changes = jnp.where(here.mode == there.mode, 0.0, chance)
        taught = TryLessons(jnp.where(is_kind, gain, 0.0), 1.0 * is_kind, changes)
        lessons = jax.tree.map(jnp.add, lessons, taught)
        after = tree_where(made, (found, there), (point, here))
        return *after, counts, lessons

    begins = Here.of(modes, start.position)
    numbers = jnp.arange(modes.number)
    walked = (numbers == last_mode)[:, None] & (numbers == begins.mode)
    blank = no_counts(modes.number)._replace(walked=walked.astype(jnp.int32))
    begin = (start, begins, blank, no_tries(modes.mean.dtype))
    point, here, counts, lessons = lax.fori_loop(0, plan.tries, one, begin)
    return point, here.mode, counts, lessons


def _spread(modes: ModeShapes) -> jax.Array:
    """Standard deviations of the coordinates over all modes, (d,)."""
    mass = jnp.exp(modes.log_mass)
    mean = mass @ modes.mean
    return jnp.sqrt(mass @ (modes.sds**2 + (modes.mean - mean) ** 2))
