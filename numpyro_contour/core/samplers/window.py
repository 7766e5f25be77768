"""Draws that each stand for a window of positions, by weighted reservoir sampling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.core.arrays.entries import entries, tree_where
from numpyro_contour.core.arrays.random_bits import fold_in, split, uniform
from numpyro_contour.core.arrays.vectors import ravel, unravel_like
from numpyro_contour.core.samplers.ahead import Ahead, scan_of, two_keys
from numpyro_contour.core.samplers.chain import PotentialAndGrad, Sampler, passed
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
        """A `Length` as it is, or a number of steps in one stretch."""
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
    key_steps, key_offers = split(key, 2)
    before = sampler.observe(state)

    def offered(number: Any, carry: tuple, draws: Any) -> tuple:
        """What is chosen after a stretch of steps, and the log of the sum of all chances."""
        chosen, log_total = carry
        log_weight = draws.log_weight
        # A refused move has no weight, and is never chosen.
        chances = jnp.where(jnp.isneginf(log_weight), log_weight, trust * log_weight)
        chances = jnp.append(log_total, chances)
        log_total = jax.nn.logsumexp(chances)
        shares = jnp.cumsum(jnp.exp(chances - log_total))
        drawn = uniform(fold_in(key_offers, number), (), shares.dtype) * shares[-1]
        place = jnp.minimum(jnp.sum(drawn >= shares), length.steps)
        # Where nothing has a weight, the draw is where the chain is.
        place = jnp.where(jnp.isfinite(log_total), place, length.steps)
        # As one vector: a choice of each field would cost as much as several steps.
        there = entries(jax.vmap(ravel)(draws), jnp.maximum(place, 1) - 1)
        return jnp.where(place > 0, there, chosen), log_total

    def last(number: Any, carry: Any, draws: Any) -> Any:
        return carry

    takes_last = draw == "last" or num_steps == 1
    # The position before the window has no weight in it.
    nothing = before._replace(log_weight=jnp.full_like(before.log_weight, -jnp.inf))
    begin = () if takes_last else (ravel(nothing), nothing.log_weight)
    of_steps = _Steps(key_steps, length, potential_and_grad, _ahead_of(ahead, sampler), sampler)
    tries = None if jumps is None else (jumps, fold_in(key, 2))
    room = None if traced is None else (_traced((before, state.chain.energy_noise)), traced)
    offer = last if takes_last else offered
    walked = _walk(of_steps, tries, room, offer, state, begin)
    state, found, energies, trace, jumped = walked
    if takes_last:
        record = sampler.observe(state)
        return state, Window(record, record.log_weight, energies, trace, jumped)
    vector, log_total = found
    chosen = unravel_like(vector, before)
    own = jnp.where(jnp.isneginf(chosen.log_weight), 0.0, (1 - trust) * chosen.log_weight)
    log_mean = log_total - jnp.log(length.stretches * length.steps)
    return state, Window(chosen, log_mean + own, energies, trace, jumped)


class _Steps(NamedTuple):
    """The steps of a window."""

    key: jax.Array
    length: Length
    potential_and_grad: PotentialAndGrad
    #: as for `run_window`, for all evaluations of a step
    ahead: Ahead | None
    sampler: Sampler

    def stretch(self, number: Any, state: Any) -> tuple[Any, tuple[Any, jax.Array]]:
        """The state after a stretch of steps, all their draws, and the noise of their energies.

        Args:
            number: of the stretch.
            state: the state before.
        """
        sampler, pairs = self.sampler, self._keys(self.key, number)
        scan, keys = scan_of(self.ahead, pairs, partial(self._after, number), self.length.steps)
        if sampler.draw is not None:
            # For all moves of the stretch together.
            moves = jax.vmap(sampler.draw, (0, None))(pairs[:, 0], state)
            keys = (moves, pairs[:, 1]) if self.ahead is None else keys._replace(moves=moves)
        if sampler.stretch is None:

            def one(state: Any, inputs: tuple) -> tuple[Any, tuple[Any, jax.Array]]:
                state = sampler.step(inputs[0], state, self.potential_and_grad)
                return state, (sampler.observe(state), state.chain.energy_noise)

            return scan(one, state, (keys, None))
        made = sampler.stretch(state)

        def quick(state: Any, inputs: tuple) -> tuple[Any, jax.Array]:
            state = made.step(inputs[0], state, self.potential_and_grad)
            # As one vector, since each array costs an operation in every step.
            return state, ravel(passed(state.chain))

        state, vectors = scan(quick, made.state, (keys, None))
        seen = jax.vmap(lambda vector: unravel_like(vector, passed(state.chain)))(vectors)
        state, draws = made.end(state, seen)
        return state, (draws, seen.energy_noise)

    def _keys(self, key: jax.Array, number: Any) -> jax.Array:
        return two_keys(fold_in(key, number), self.length.steps)

    def _after(self, number: Any, next_key: jax.Array) -> jax.Array:
        """The keys of the next stretch, of this window or of the one with the next key."""
        is_last = number + 1 == self.length.stretches
        then = tree_where(is_last, split(next_key, 2)[0], self.key)
        return self._keys(then, jnp.where(is_last, 0, number + 1))


def _walk(
    steps: _Steps,
    tries: tuple[Jumps, jax.Array] | None,
    room: tuple[Trace, int] | None,
    offered: Callable[[Any, Any, Any], Any],
    state: Any,
    chosen: Any,
) -> tuple[Any, Any, tuple[jax.Array, jax.Array], Trace | None, JumpCounts | None]:
    """All steps of a window.

    Args:
        steps: the steps.
        tries: the tries to jump and their random key; None for none.
        room: the trace of a step, and the most of them; None for no trace.
        offered: `(number of a stretch, chosen, draws) -> chosen`.
        state: the state before.
        chosen: what is chosen before.

    Returns:
        The state, what is chosen, the lowest and highest energy, the trace and the tries to jump.
    """

    def stretch(number: Any, carried: tuple) -> tuple:
        state, chosen, (low, high), trace, counts = carried
        if tries is not None:
            jumps, key = tries
            jumped = partial(_jumped, fold_in(key, number), jumps, steps.potential_and_grad)
            # The same for all chains, so that what is not tried costs nothing.
            tried = state, counts
            state, counts = lax.cond(jumps.due(number), jumped, lambda x: x, tried)
        state, (draws, noise) = steps.stretch(number, state)
        energy = draws.potential_energy
        energies = jnp.minimum(low, energy.min(0)), jnp.maximum(high, energy.max(0))
        if trace is not None:
            first = number * steps.length.steps
            put = partial(lax.dynamic_update_slice_in_dim, start_index=first, axis=0)
            trace = jax.tree.map(put, trace, _traced((draws, noise)))
        return state, offered(number, chosen, draws), energies, trace, counts

    trace = None
    if room is not None:
        like, most = room
        trace = jax.tree.map(lambda x: jnp.zeros((most, *x.shape), x.dtype), like)
    energy = jnp.full_like(steps.sampler.observe(state).potential_energy, jnp.inf)
    begin = state, chosen, (energy, -energy), trace, None if tries is None else tries[0].counts
    stretches = steps.length.stretches
    if isinstance(stretches, int) and stretches == 1:
        # A loop of one round would cost a tenth of ten steps.
        return stretch(0, begin)
    return lax.fori_loop(0, stretches, stretch, begin)


def _jumped(
    key: jax.Array, jumps: Jumps, potential_and_grad: PotentialAndGrad, tried: tuple
) -> tuple[Any, JumpCounts]:
    """The state after a try to jump, and the tries so far."""
    state, counts = tried
    state, more = jumps.jump(split(key, 2), state, potential_and_grad)
    return state, jax.tree.map(jnp.add, counts, more)


def _ahead_of(ahead: Ahead | None, sampler: Sampler) -> Ahead | None:
    """The same for all evaluations of a step of the sampler."""
    if ahead is None or sampler.energy_keys is None:
        return ahead
    return ahead.of_several(sampler.energy_keys)


def _traced(seen: tuple[Any, jax.Array]) -> Trace:
    draws, noise = seen
    return Trace(draws.potential_energy, draws.log_weight, noise)
