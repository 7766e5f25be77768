"""Draws that each stand for a window of positions, by weighted reservoir sampling."""

from __future__ import annotations

from collections.abc import Callable
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
    """The steps of a window; each field is (num_steps,)."""

    #: potential energies as the chain saw them, in nats
    potential_energy: jax.Array
    #: log importance weights
    log_weight: jax.Array
    #: variances of the energies' noise, 0 where they are exact or it is not known
    energy_noise: jax.Array


class Jumps(NamedTuple):
    """Tries to jump between the steps of a window, evenly spread."""

    #: makes a try
    jump: Jump
    #: whether to make each of them, (tries,), the same for all chains; `num_steps` is a multiple of
    #: their number
    made: jax.Array
    #: the tries so far
    counts: JumpCounts


class Window(NamedTuple):
    """A draw and the window of positions that it stands for."""

    #: the chosen position, as the sampler's `observe` describes it
    draw: Any
    #: log of the mean weight of the positions in the window
    log_weight: jax.Array
    #: all steps of the window; None before the first window
    trace: Trace | None = None
    #: the tries to jump up to the end of the window; None where there can be none
    jumped: JumpCounts | None = None

    @property
    def lowest_energy(self) -> jax.Array:
        """The lowest potential energy in the window, in nats."""
        return self._of_energies(jnp.min)

    @property
    def highest_energy(self) -> jax.Array:
        """The highest potential energy in the window, in nats."""
        return self._of_energies(jnp.max)

    def _of_energies(self, extreme: Callable) -> jax.Array:
        if self.trace is None:
            return self.draw.potential_energy
        return extreme(self.trace.potential_energy)


def run_window(
    key: jax.Array,
    state: Any,
    potential_and_grad: PotentialAndGrad,
    sampler: Sampler,
    num_steps: int,
    draw: str,
    trust: jax.Array | float = 1.0,
    jumps: Jumps | None = None,
    ahead: Ahead | None = None,
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
        num_steps: K, at least 1.
        draw: "reservoir" or "last".
        trust: :math:`\rho` in [0, 1], the share of the variation of log weights that is not noise.
            Defaults to 1.
        jumps: tries to jump between known modes. None (default) for none.
        ahead: draws what evaluations take for many steps at once. None (default) for evaluations
            that draw it themselves.

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
    key_steps, key_offers = random.split(key)
    if ahead is not None and sampler.energy_keys is not None:
        ahead = ahead.of_several(sampler.energy_keys)
    scan, keys = scan_of(
        ahead,
        two_keys(key_steps, num_steps),
        lambda next_key: two_keys(random.split(next_key)[0], num_steps),
        num_steps if jumps is None else num_steps // jumps.made.shape[0],
    )

    def walk(move: Callable, carry: tuple, inputs: Any) -> tuple[tuple, Trace, JumpCounts | None]:
        """All steps, each a `move` of a carry that begins with the state, and tries between."""
        if jumps is None:
            carry, trace = scan(move, carry, inputs)
            return carry, trace, None
        tries = jumps.made.shape[0]

        def stretch(carry: tuple, inputs: tuple) -> tuple[tuple, Trace]:
            (carry, counts), (tries_now, key, inputs) = carry, inputs

            def jump(state: Any) -> tuple[Any, JumpCounts]:
                state, more = jumps.jump(random.split(key), state, potential_and_grad)
                return state, jax.tree.map(jnp.add, counts, more)

            # The same for all chains, so that what is not tried costs nothing.
            state, counts = lax.cond(tries_now, jump, lambda state: (state, counts), carry[0])
            carry, trace = scan(move, (state, *carry[1:]), inputs)
            return (carry, counts), trace

        parted = jax.tree.map(lambda x: x.reshape(tries, -1, *x.shape[1:]), inputs)
        # Keys 0 and 1 of the split above are those that 0 and 1 would be folded into.
        first_keys = random.split(random.fold_in(key, 2), tries)
        stretches = (jumps.made, first_keys, parted)
        # A loop of one round would cost a tenth of ten steps.
        begin = carry, jumps.counts
        (carry, counts), trace = lax.scan(stretch, begin, stretches, unroll=tries == 1)
        return carry, jax.tree.map(lambda x: x.reshape(num_steps, *x.shape[2:]), trace), counts

    if num_steps == 1 or draw == "last":

        def move(carry: tuple, inputs: tuple) -> tuple[tuple, Trace]:
            keys, _ = inputs
            state = sampler.step(keys, carry[0], potential_and_grad)
            return (state,), _traced(state, sampler.observe(state))

        (state,), trace, counts = walk(move, (state,), (keys, None))
        record = sampler.observe(state)
        return state, Window(record, record.log_weight, trace, counts)

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

    # The position before the window stays the draw only if every attempt is refused: weight 0.
    before = sampler.observe(state)
    before = before._replace(log_weight=jnp.full_like(before.log_weight, -jnp.inf))
    (state, chosen, log_total), trace, counts = walk(
        move_and_offer,
        (state, before, before.log_weight),
        (keys, random.uniform(key_offers, (num_steps,))),
    )
    own = jnp.where(jnp.isneginf(chosen.log_weight), 0.0, (1 - trust) * chosen.log_weight)
    return state, Window(chosen, log_total - jnp.log(num_steps) + own, trace, counts)


def _traced(state: Any, record: Any) -> Trace:
    return Trace(record.potential_energy, record.log_weight, state.chain.energy_noise)
