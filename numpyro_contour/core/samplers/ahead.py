"""Randomness of the evaluations of several steps, drawn before the steps are made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.core.arrays.random_bits import split


class Ahead(NamedTuple):
    """How what evaluations draw by their keys, for instance minibatches, is drawn before them.

    A `potential_and_grad` takes what is drawn in the place of the key.
    """

    #: `(keys, keys after them or None) -> what is drawn`, along a leading axis
    draw: Callable[[jax.Array, jax.Array | None], Any]
    #: the most steps for which it is drawn at once
    at_once: int
    #: the key of the window after this one, whose first steps can be prepared already
    next_key: jax.Array

    def of_several(self, keys_of: Callable[[jax.Array], jax.Array]) -> Ahead:
        """The same for steps with several evaluations each, by the keys that theirs is split into.

        Args:
            keys_of: from the key of a step to those of its evaluations.
        """

        def draw(keys: jax.Array, after: jax.Array | None) -> Any:
            several = jax.vmap(keys_of)
            then = None if after is None else several(after)
            return jax.vmap(self.draw, 1, 1)(several(keys), then)

        return self._replace(draw=draw)


class StepKeys(NamedTuple):
    """The keys of steps whose evaluations are drawn ahead, along a leading axis."""

    #: for the moves
    moves: jax.Array
    #: for the evaluations
    evaluations: jax.Array
    #: for the evaluations that come as many steps later as are drawn at once
    later: jax.Array


def step_keys(keys: jax.Array, next_keys: jax.Array, length: int) -> StepKeys:
    """The keys of a window of steps.

    Args:
        keys: two keys for each step, (steps, 2).
        next_keys: those of the next window.
        length: steps for which evaluations are drawn at once.
    """
    evaluations = keys[:, 1]
    later = jnp.concatenate([evaluations, next_keys[:, 1]])[length : length + len(keys)]
    return StepKeys(keys[:, 0], evaluations, later)


def drawn_at_once(num_steps: int, at_once: int) -> int:
    """The most steps of at most so many that divide a number of steps."""
    return max(n for n in range(1, num_steps + 1) if num_steps % n == 0 and n <= max(at_once, 1))


def scan_ahead(
    ahead: Ahead, length: int, move: Callable, carry: Any, inputs: tuple[StepKeys, Any]
) -> tuple[Any, Any]:
    """`lax.scan` over steps, whose evaluations are drawn a stretch of steps at a time.

    Args:
        ahead: draws them.
        length: steps of a stretch, a divisor of their number.
        move: `(carry, (keys, more)) -> (carry, result)`, one step; the second of its two keys is
            what was drawn.
        carry: the first argument of the first step.
        inputs: the keys of all steps, and more.
    """

    def stretch(carry: Any, inputs: tuple[StepKeys, Any]) -> tuple[Any, Any]:
        keys, more = inputs
        drawn = ahead.draw(keys.evaluations, keys.later)
        return lax.scan(move, carry, ((keys.moves, drawn), more))

    parted = jax.tree.map(lambda x: x.reshape(-1, length, *x.shape[1:]), inputs)
    count = parted[0].moves.shape[0]
    carry, results = lax.scan(stretch, carry, parted, unroll=count == 1)
    return carry, jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), results)


def scan_of(ahead: Ahead | None, keys: jax.Array, next_keys: Callable, num_steps: int) -> Any:
    """How to scan over steps, and the keys to scan over: with `ahead`, or plainly.

    Args:
        ahead: draws what evaluations take. None for evaluations that draw it themselves.
        keys: two keys for each step, (steps, 2).
        next_keys: from the key of the next window to its keys.
        num_steps: steps that are scanned over together, a divisor of their number.
    """
    if ahead is None:
        return lax.scan, keys
    length = drawn_at_once(num_steps, ahead.at_once)
    return partial(scan_ahead, ahead, length), step_keys(keys, next_keys(ahead.next_key), length)


def two_keys(key: jax.Array, num_steps: int) -> jax.Array:
    """Two keys for each step, (steps, 2)."""
    return split(key, 2 * num_steps).reshape(num_steps, 2, *key.shape)
