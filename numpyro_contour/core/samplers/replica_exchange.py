"""Replica exchange: chains at several temperatures that swap positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from numpyro_contour import checks
from numpyro_contour.core.diffusions import Diffusion, Step
from numpyro_contour.core.samplers.adjusted import advance_adjusted
from numpyro_contour.core.samplers.chain import (
    Chain,
    Draw,
    PotentialAndGrad,
    Sampler,
    advance,
    evaluate,
    next_step_size,
    start,
    unweighted_draw,
)
from numpyro_contour.core.samplers.energy_noise import energy_noise_of_move
from numpyro_contour.core.samplers.walkers import Walkers, first_walkers, source_of, walk
from numpyro_contour.schedules import RobbinsMonro, Schedule

SWAPS = ("corrected", "naive")

# The first move replaces the zero that the estimate starts from. With the exponent 0.8 the estimate
# forgets burn-in faster than any power of the count, and has an error of 1 % after 1e5 steps.
_GAIN = RobbinsMonro(scale=1.0, exponent=0.8, offset=0.0, maximum=1.0)


class ReplicaExchangeSamplerState(NamedTuple):
    """State of `replica_exchange` with R replicas."""

    #: the coldest replica, which makes the draws
    chain: Chain
    #: the other replicas from colder to hotter, along a leading axis of length R - 1
    hotter: Chain
    #: number of swaps offered to each pair of neighbours, (R - 1,)
    swap_attempts: jax.Array
    #: number of swaps made, (R - 1,)
    swaps: jax.Array
    #: estimated variance of the noise of energies in each replica, (R,), 0 if they are exact
    energy_variance: jax.Array
    #: whether each pair has swapped in the window of rounds that it is in, (R - 1,)
    has_swapped: jax.Array
    #: the paths of the replicas through the temperatures, and their round trips
    walkers: Walkers

    @property
    def swap_rates(self) -> jax.Array:
        """The share of the offered swaps that were made, (R - 1,)."""
        return self.swaps / jnp.maximum(self.swap_attempts, 1)

    @property
    def communication_barrier(self) -> jax.Array:
        """The sum of the shares of offered swaps that were rejected, ()."""
        return jnp.sum(1 - self.swap_rates, -1)


def replica_exchange(
    diffusion: Diffusion,
    step_size: Schedule,
    temperatures: Sequence[Schedule],
    swap_every: int = 1,
    swap: str = "corrected",
    correction_factor: float = 1.0,
    gain: Schedule | None = None,
    noisy: bool = True,
    swap_window: int = 1,
) -> Sampler:
    r"""Chains at temperatures :math:`\tau_1 < \dots < \tau_R`, and swaps between neighbours.

    The colder replica i and the hotter replica j = i + 1 swap their positions with probability
    min(1, S), where :math:`d = 1 / \tau_i - 1 / \tau_j` and

    .. math:: \log S = d \bigl(\tilde U(x_i) - \tilde U(x_j)\bigr)
              - \frac{d^2}{F} \frac{\sigma_i^2 + \sigma_j^2}2

    The last term corrects for noise of the energies. With F = 1 the swap is exact if the noise is
    normal with these variances, which are learnt from each move by stochastic approximation. With
    more than two replicas, the pairs (1, 2), (3, 4), ... and the pairs (2, 3), (4, 5), ... take
    turns, for W rounds each. A pair swaps at most once in such a window. With W = 1 this is the
    deterministic even-odd scheme, which drives a replica on in its direction until a swap is
    rejected. A wider window drives it on for longer where swaps are rare, but which of its rounds
    has the swap depends on the positions: with W > 1 draws are biased, unless the moves between two
    rounds forget where they were.

    Args:
        diffusion: for instance `diffusions.langevin()`. The moves of one with a test, such as
            `diffusions.leapfrog()`, are accepted by Metropolis-Hastings at each temperature.
        step_size: schedule of :math:`\epsilon > 0`, the same for all replicas.
        temperatures: schedules of :math:`\tau > 0`, at least two, the coldest first.
        swap_every: number of steps from one offer of swaps to the next. Defaults to 1.
        swap: "corrected" (default), or "naive" to leave out the correction.
        correction_factor: :math:`F > 0`; above 1 there are more swaps, but a bias. Defaults to 1.
        gain: schedule of the gain with which the variances are learnt, called with counts from 1.
            None (default) for :math:`k^{-0.8}`.
        noisy: whether energies are noisy. Exact energies need no correction. Defaults to True.
        swap_window: W, the number of rounds of offers before the other pairs have their turn, each
            pair swapping at most once. Defaults to 1.

    Returns:
        A `Sampler`. Its draws are those of the coldest replica, and they have equal weights, except
        where the guard has reduced the step.

    Raises:
        ValueError: an argument is out of its range.

    Source: Deng, Feng, Gao, Liang and Lin (2020), Algorithm 1; Ceperley and Dewing (1999) for the
    correction; Okabe et al. (2001) for taking turns; Syed et al. (2022) for what
    turns bring about; Deng, Zhang, Feng, Liang and Lin (2023) for windows.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.diffusions import langevin
        >>> from numpyro_contour.core.samplers.replica_exchange import replica_exchange
        >>> from numpyro_contour.schedules import Constant
        >>> sampler = replica_exchange(langevin(), Constant(0.1), (Constant(1.0), Constant(3.0)),
        ...                            noisy=False)
        >>> potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)
        >>> state = sampler.init(jax.random.key(0), jnp.ones(2), potential_and_grad)
        >>> state = sampler.step(jax.random.split(jax.random.key(1)), state, potential_and_grad)
        >>> int(state.swap_attempts[0])
        1
    """
    temperatures = tuple(temperatures) if isinstance(temperatures, Sequence) else (temperatures,)
    if len(temperatures) < 2 or not all(callable(schedule) for schedule in temperatures):
        raise checks.fail("temperatures", temperatures, "two schedules or more, the coldest first")
    num_replicas = len(temperatures)
    swap_every = checks.integer("swap_every", swap_every, at_least=1)
    corrected = checks.one_of("swap", swap, SWAPS) == "corrected"
    correction_factor = checks.positive("correction_factor", correction_factor)
    noisy = checks.boolean("noisy", noisy)
    swap_window = checks.integer("swap_window", swap_window, at_least=1)
    gain = _GAIN if gain is None else gain

    def init(
        key: jax.Array, position: Any, potential_and_grad: PotentialAndGrad
    ) -> ReplicaExchangeSamplerState:
        replicas = jax.vmap(lambda key: start(key, position, potential_and_grad, diffusion))(
            random.split(key, num_replicas)
        )
        count = jnp.zeros((num_replicas - 1,), jnp.int32)
        return ReplicaExchangeSamplerState(
            *_unstacked(replicas),
            swap_attempts=count,
            swaps=count,
            energy_variance=jnp.zeros((num_replicas,), jnp.result_type(float)),
            has_swapped=jnp.zeros((num_replicas - 1,), bool),
            walkers=first_walkers(num_replicas),
        )

    def offered_pairs(replicas: Chain, has_swapped: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The pairs that are offered a swap after a step, and that have swapped in this window.

        Only pairs where both replicas have just moved. An old energy would bring the same noise
        into a second test, and a position after a refused move has already stood for its time. So
        all swapped positions are new and finite.
        """
        steps = replicas.steps[0]
        turn = steps % swap_every == 0
        number = steps // swap_every - 1
        has_swapped &= ~(turn & (number % swap_window == 0))
        if num_replicas > 2:
            turn &= jnp.arange(num_replicas - 1) % 2 == (number // swap_window) % 2
        both_moved = replicas.accepted[:-1] & replicas.accepted[1:]
        return turn & both_moved & ~has_swapped, has_swapped

    def log_acceptance(energy: jax.Array, tau: jax.Array, variance: jax.Array) -> jax.Array:
        colder = 1 / tau[:-1] - 1 / tau[1:]
        result = colder * (energy[:-1] - energy[1:])
        if corrected and noisy:
            result -= colder**2 * 0.5 * (variance[:-1] + variance[1:]) / correction_factor
        return result

    def relocated_memory(before: Chain, after: Chain, tau: jax.Array) -> Any:
        step = Step(next_step_size(before, step_size), tau)
        return diffusion.relocate(
            before.memory, after.position, before.gradient, after.gradient, step
        )

    def energy_keys(key: jax.Array) -> jax.Array:
        return random.split(key, num_replicas)

    def step(
        keys: jax.Array, state: ReplicaExchangeSamplerState, potential_and_grad: PotentialAndGrad
    ) -> ReplicaExchangeSamplerState:
        keys_move = random.split(keys[0], num_replicas + 1)
        # A key, or what was drawn by those of all replicas before.
        is_key = isinstance(keys[1], jax.Array)
        keys_energy = energy_keys(keys[1]) if is_key else keys[1]

        def move(key_move: jax.Array, key_energy: jax.Array, chain: Chain, tau: jax.Array) -> Chain:
            both: Any = key_move, key_energy
            at = lambda steps: tau
            moved = both, chain, potential_and_grad, diffusion, step_size, at
            return advance(*moved, 1.0) if diffusion.accept is None else advance_adjusted(*moved)

        tau = jnp.stack([temperature(state.chain.steps) for temperature in temperatures])
        before = stacked(state)
        replicas = jax.vmap(move)(keys_move[:-1], keys_energy, before, tau)
        variance = state.energy_variance
        if noisy:
            # Before the swap, while both ends belong to one move.
            seen = jax.vmap(energy_noise_of_move)(before, replicas)
            changed = variance + gain(replicas.steps) * (seen - variance)
            variance = jnp.where(replicas.accepted & jnp.isfinite(changed), changed, variance)

        offered, has_swapped = offered_pairs(replicas, state.has_swapped)
        log_uniform = jnp.log(random.uniform(keys_move[-1], (num_replicas - 1,)))
        swapping = offered & (
            log_uniform < log_acceptance(replicas.potential_energy, tau, variance)
        )
        swapped = _swap_positions(replicas, swapping)
        memory = jax.vmap(relocated_memory)(replicas, swapped, tau)
        # Selected, so that a replica without a swap keeps its memory to the last bit.
        swapped = swapped._replace(memory=_select(_in_swaps(swapping), memory, replicas.memory))
        return ReplicaExchangeSamplerState(
            *_unstacked(swapped),
            swap_attempts=state.swap_attempts + jnp.where(offered, 1, 0),
            swaps=state.swaps + jnp.where(swapping, 1, 0),
            energy_variance=variance,
            has_swapped=has_swapped | swapping,
            walkers=walk(state.walkers, swapping),
        )

    def observe(state: ReplicaExchangeSamplerState) -> Draw:
        return unweighted_draw(state.chain, step_size)

    def relocate(state: ReplicaExchangeSamplerState, chain: Chain) -> ReplicaExchangeSamplerState:
        """The coldest replica becomes the chain, and all others move to its position."""
        everywhere = jax.tree.map(
            lambda x: jnp.broadcast_to(x, (num_replicas - 1, *jnp.shape(x))), chain
        )
        own = state.hotter
        hotter = everywhere._replace(memory=own.memory, guard=own.guard)
        # Nobody has come through the ladder to where all are put.
        walkers = first_walkers(num_replicas)._replace(round_trips=state.walkers.round_trips)
        return state._replace(chain=chain, hotter=hotter, walkers=walkers)

    return Sampler(init, step, observe, relocate, energy_keys=energy_keys)


def shift_energies(
    state: ReplicaExchangeSamplerState, rise: jax.Array
) -> ReplicaExchangeSamplerState:
    """The state after `rise` is added to the potential energies of all replicas."""

    def raised(chain: Chain) -> Chain:
        return chain._replace(potential_energy=chain.potential_energy + rise)

    return state._replace(chain=raised(state.chain), hotter=raised(state.hotter))


def reevaluate(
    key: jax.Array, state: ReplicaExchangeSamplerState, potential_and_grad: PotentialAndGrad
) -> ReplicaExchangeSamplerState:
    """The state with new evaluations of the energies and gradients of all replicas."""
    replicas = stacked(state)
    keys = random.split(key, len(state.energy_variance))
    found = jax.vmap(partial(evaluate, potential_and_grad))(keys, replicas.position)
    replicas = replicas._replace(
        potential_energy=found.energy, gradient=found.gradient, energy_noise=found.noise
    )
    chain, hotter = _unstacked(replicas)
    return state._replace(chain=chain, hotter=hotter)


def _in_swaps(swapping: jax.Array) -> jax.Array:
    """Whether each replica takes part in a swap, (R,)."""
    return jnp.pad(swapping, (0, 1)) | jnp.pad(swapping, (1, 0))


def _select(chosen: jax.Array, one: Any, other: Any) -> Any:
    """`jnp.where` along the leading axis of two trees."""

    def choose(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, one, other)


def _swap_positions(replicas: Chain, swapping: jax.Array) -> Chain:
    """The replicas after the swaps.

    Positions take their energies and gradients along. Memory, guard and counts stay with the
    temperature.
    """
    source = source_of(swapping)
    here = (replicas.position, replicas.potential_energy, replicas.gradient)
    position, energy, gradient = jax.tree.map(lambda x: x[source], here)
    return replicas._replace(position=position, potential_energy=energy, gradient=gradient)


def stacked(state: ReplicaExchangeSamplerState) -> Chain:
    """All replicas along a leading axis, the coldest first."""
    return jax.tree.map(
        lambda one, others: jnp.concatenate([jnp.asarray(one)[None], others]),
        state.chain,
        state.hotter,
    )


def _unstacked(replicas: Chain) -> tuple[Chain, Chain]:
    """The inverse of `_stacked`."""
    return jax.tree.map(lambda x: x[0], replicas), jax.tree.map(lambda x: x[1:], replicas)
