"""Draws that each stand for a window of positions, by weighted reservoir sampling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.samplers.ahead import Ahead, scan_of, two_keys
from numpyro_contour.core.samplers.chain import PotentialAndGrad, Sampler
from numpyro_contour.core.samplers.jumps import Jump, JumpCounts

DRAWS = ("reservoir", "last")


class Trace(NamedTuple):
    """Some steps of a window, such as all of them; each field is (steps,)."""

    #: potential energies as the chain saw them, in nats
    potential_energy: jax.Array
    #: log importance weights
    log_weight: jax.Array
    #: variances of the energies' noise, 0 where they are exact or it is not known
    energy_noise: jax.Array


class Jumps(NamedTuple):
    """Tries to jump, each before a stretch of steps."""

    #: makes a try
    jump: Jump
    #: `(number of the stretch in its window) -> whether it begins with a try`, the same for all
    #: chains
    due: Callable[[Any], jax.Array]
    #: the tries so far
    counts: JumpCounts


class Length(NamedTuple):
    """How long a window is, in stretches of steps with one loop around them."""

    #: stretches, an int, or an array that is the same for all chains
    stretches: Any
    #: steps of each
    steps: int

    @classmethod
    def of(cls, num_steps: int | Length) -> Length:
        """A length as it is, or so many steps in one stretch."""
        return num_steps if isinstance(num_steps, Length) else cls(1, num_steps)


class Window(NamedTuple):
    """A draw and the window of positions that it stands for."""

    #: the chosen position, as the sampler's `observe` describes it
    draw: Any
    #: log of the mean weight of the positions in the window
    log_weight: jax.Array
    #: the lowest and the highest potential energy in the window, in nats; None before the first
    energies: tuple[jax.Array, jax.Array] | None = None
    #: all steps of the window where they were asked for
    trace: Trace | None = None
    #: the tries to jump up to the end of the window; None where there can be none
    jumped: JumpCounts | None = None

    @property
    def lowest_energy(self) -> jax.Array:
        """The lowest potential energy in the window, in nats."""
        return self.draw.potential_energy if self.energies is None else self.energies[0]

    @property
    def highest_energy(self) -> jax.Array:
        """The highest potential energy in the window, in nats."""
        return self.draw.potential_energy if self.energies is None else self.energies[1]


def run_window(
    key: jax.Array,
    state: Any,
    potential_and_grad: PotentialAndGrad,
    sampler: Sampler,
    num_steps: int | Length,
    draw: str,
    trust: jax.Array | float = 1.0,
    jumps: Jumps | None = None,
    ahead: Ahead | None = None,
    traced: int | None = None,
) -> tuple[Any, Window]:
    r"""`num_steps` steps of a sampler, and the one draw that stands for them.

    With `draw="reservoir"`, the draw is position i with probability :math:`w_i / \sum_j w_j`. It
    takes one uniform number in each step to choose it. The draw gets the log of the mean weight
    :math:`\frac1K \sum_j w_j`, so that weighted means stay consistent, every position counts, and
    the weights of the draws are nearly even. With "last", the draw is the last position with its
    own weight.

    If weights are noisy, positions are chosen in proportion to :math:`v = w^\rho`, and the draw
    gets the weight :math:`\frac1K \sum_j v_j \cdot w_i / v_i`. If positions were chosen in
    proportion to noise, the weights of the draws would be uneven after a correction for that noise.

    Args:
        key: random key.
        state: state of the sampler.
        potential_and_grad: `(key, position) -> (potential energy, gradient)`.
        sampler: the sampler.
        num_steps: K, at least 1, as one stretch; or a `Length`, of several.
        draw: "reservoir" or "last".
        trust: :math:`\rho` in [0, 1], the share of the variation of log weights that is not noise.
            Defaults to 1.
        jumps: tries to jump between known modes. None (default) for none.
        ahead: draws what evaluations take for many steps at once. None (default) for evaluations
            that draw it themselves.
        traced: the most steps, for which there is room in the window's `trace`. None (default) for
            all steps of a window of one stretch, and for no trace of one of several.

    Returns:
        `(state, window)`: the state after the steps, and the `Window`.

    Source: Chao (1982) for weighted reservoir sampling.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import langevin
        >>> from numpyro_contour.core.samplers.plain import plain
        >>> from numpyro_contour.schedules import Constant
        >>> from numpyro_contour.core.samplers.window import run_window
        >>> sampler = plain(langevin(), Constant(0.1), Constant(1.0))
        >>> potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)
        >>> state = sampler.init(jax.random.key(0), jnp.ones(2), potential_and_grad)
        >>> state, window = run_window(jax.random.key(1), state, potential_and_grad, sampler,
        ...                            num_steps=10, draw="reservoir")
        >>> window.draw.position.shape, window.trace.potential_energy.shape
        ((2,), (10,))
    """
    length = Length.of(num_steps)
    if traced is None and isinstance(num_steps, int):
        traced = num_steps
    key_steps, key_offers = random.split(key)
    before = sampler.observe(state)

    def move(carry: tuple, inputs: tuple) -> tuple[tuple, Trace]:
        keys, _ = inputs
        state = sampler.step(keys, carry[0], potential_and_grad)
        return (state,), _traced(state, sampler.observe(state))

    def log_chance_of(log_weight: jax.Array) -> jax.Array:
        # A refused move has no weight, and is never chosen.
        return jnp.where(jnp.isneginf(log_weight), log_weight, trust * log_weight)

    def move_and_offer(carry: tuple, randomness: tuple) -> tuple[tuple, Trace]:
        state, chosen, log_total = carry
        keys, uniform = randomness
        state = sampler.step(keys, state, potential_and_grad)
        offered = sampler.observe(state)
        log_chance = log_chance_of(offered.log_weight)
        log_total = jnp.logaddexp(log_total, log_chance)
        # False as long as no position has a weight, since -inf - -inf is not a number.
        take = uniform < jnp.exp(log_chance - log_total)
        chosen = tree_where(take, offered, chosen)
        trace = _traced(state, offered)
        return (state, chosen, log_total), trace

    like = _traced(state, before)
    tries = None if jumps is None else (jumps, random.fold_in(key, 2))
    of_steps = potential_and_grad, _ahead_of(ahead, sampler)
    walks = partial(_walk, key_steps, length, *of_steps, sampler.draw, tries, like, traced)
    if draw == "last" or num_steps == 1:
        (state,), *seen = walks(move, (state,), lambda number: None)
        record = sampler.observe(state)
        return state, Window(record, record.log_weight, *seen)

    def uniforms(number: Any) -> jax.Array:
        return random.uniform(random.fold_in(key_offers, number), (length.steps,))

    # The position before the window stays the draw only if every attempt is refused: weight 0.
    before = before._replace(log_weight=jnp.full_like(before.log_weight, -jnp.inf))
    begin = state, before, before.log_weight
    (state, chosen, log_total), *seen = walks(move_and_offer, begin, uniforms)
    own = jnp.where(jnp.isneginf(chosen.log_weight), 0.0, (1 - trust) * chosen.log_weight)
    log_mean = log_total - jnp.log(length.stretches * length.steps)
    return state, Window(chosen, log_mean + own, *seen)


def _walk(
    key: jax.Array,
    length: Length,
    potential_and_grad: PotentialAndGrad,
    ahead: Ahead | None,
    draw: Callable[[jax.Array, Any], Any] | None,
    tries: tuple[Jumps, jax.Array] | None,
    like: Trace,
    traced: int | None,
    move: Callable,
    carry: tuple,
    inputs_of: Callable[[Any], Any],
) -> tuple[tuple, tuple[jax.Array, jax.Array], Trace | None, JumpCounts | None]:
    """All steps of a window, each a `move` of a carry that begins with the state.

    Args:
        key: random key of the steps.
        length: how long the window is.
        potential_and_grad: as for `run_window`.
        ahead: as for `run_window`, for all evaluations of a step.
        draw: as of the sampler.
        tries: the tries to jump and their random key; None for none.
        like: the trace of a step.
        traced: as for `run_window`.
        move: `(carry, (keys, inputs)) -> (carry, Trace)`, one step.
        carry: its first carry.
        inputs_of: from the number of a stretch to the inputs of its steps.

    Returns:
        The carry, the lowest and highest energy, the trace and the tries to jump.
    """

    def keys_of(key: jax.Array, number: Any) -> jax.Array:
        return two_keys(random.fold_in(key, number), length.steps)

    def after(number: Any, next_key: jax.Array) -> jax.Array:
        is_last = number + 1 == length.stretches
        then = jnp.where(is_last, random.split(next_key)[0], key)
        return keys_of(then, jnp.where(is_last, 0, number + 1))

    def stretch(number: Any, carried: tuple) -> tuple:
        carry, (low, high), trace, counts = carried
        if tries is not None:
            jumps, key_tries = tries
            jumped = partial(_jumped, random.fold_in(key_tries, number), jumps, potential_and_grad)
            # The same for all chains, so that what is not tried costs nothing.
            tried = carry[0], counts
            state, counts = lax.cond(jumps.due(number), jumped, lambda x: x, tried)
            carry = state, *carry[1:]
        next_keys = partial(after, number)
        pairs = keys_of(key, number)
        scan, keys = scan_of(ahead, pairs, next_keys, length.steps)
        if draw is not None:
            # For all moves of the stretch together.
            moves = jax.vmap(draw, (0, None))(pairs[:, 0], carry[0])
            keys = (moves, pairs[:, 1]) if ahead is None else keys._replace(moves=moves)
        carry, seen = scan(move, carry, (keys, inputs_of(number)))
        energy = seen.potential_energy
        energies = jnp.minimum(low, energy.min(0)), jnp.maximum(high, energy.max(0))
        if trace is not None:
            first = number * length.steps
            put = partial(lax.dynamic_update_slice_in_dim, start_index=first, axis=0)
            trace = jax.tree.map(put, trace, seen)
        return carry, energies, trace, counts

    nothing = jnp.full_like(like.potential_energy, jnp.inf)
    trace = None
    if traced is not None:
        trace = jax.tree.map(lambda x: jnp.zeros((traced, *x.shape), x.dtype), like)
    begin = carry, (nothing, -nothing), trace, None if tries is None else tries[0].counts
    if isinstance(length.stretches, int) and length.stretches == 1:
        # A loop of one round would cost a tenth of ten steps.
        return stretch(0, begin)
    return lax.fori_loop(0, length.stretches, stretch, begin)


def _jumped(
    key: jax.Array, jumps: Jumps, potential_and_grad: PotentialAndGrad, tried: tuple
) -> tuple[Any, JumpCounts]:
    """The state after a try to jump, and the tries so far."""
    state, counts = tried
    state, more = jumps.jump(random.split(key), state, potential_and_grad)
    return state, jax.tree.map(jnp.add, counts, more)


def _ahead_of(ahead: Ahead | None, sampler: Sampler) -> Ahead | None:
    """The same for all evaluations of a step of the sampler."""
    if ahead is None or sampler.energy_keys is None:
        return ahead
    return ahead.of_several(sampler.energy_keys)


def _traced(state: Any, record: Any) -> Trace:
    return Trace(record.potential_energy, record.log_weight, state.chain.energy_noise)
