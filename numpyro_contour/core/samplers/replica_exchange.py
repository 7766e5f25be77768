"""Replica exchange: chains at several temperatures that swap their positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from numpyro_contour import checks
from numpyro_contour.core.diffusions import Diffusion, Step
from numpyro_contour.core.samplers.chain import (
    Chain,
    Draw,
    PotentialAndGrad,
    Sampler,
    advance,
    next_step_size,
    start,
    unweighted_draw,
)
from numpyro_contour.core.samplers.energy_noise import energy_noise_of_move
from numpyro_contour.schedules import RobbinsMonro, Schedule

SWAPS = ("corrected", "naive")

# The first move seen replaces the zero that the estimate starts from. A fall by 0.8 forgets the
# way to the bulk faster than any power of the count, and leaves a scatter of 1 % after 1e5 steps.
_GAIN = RobbinsMonro(scale=1.0, exponent=0.8, offset=0.0, maximum=1.0)


class ReplicaExchangeSamplerState(NamedTuple):
    """State of `replica_exchange` with R replicas."""

    #: the coldest replica, whose draws are handed out
    chain: Chain
    #: the other replicas from colder to hotter, along a leading axis of length R - 1
    hotter: Chain
    #: swaps offered to each pair of neighbours, (R - 1,)
    swap_attempts: jax.Array
    #: swaps made, (R - 1,)
    swaps: jax.Array
    #: estimated variance of the energies' noise for each replica, (R,), 0 unless they are noisy
    energy_variance: jax.Array

    @property
    def swap_rates(self) -> jax.Array:
        """The share of the swaps offered that was made, (R - 1,)."""
        return self.swaps / jnp.maximum(self.swap_attempts, 1)


def replica_exchange(
    diffusion: Diffusion,
    step_size: Schedule,
    temperatures: Sequence[Schedule],
    swap_every: int = 1,
    swap: str = "corrected",
    correction_factor: float = 1.0,
    gain: Schedule | None = None,
    noisy: bool = True,
) -> Sampler:
    r"""Chains at temperatures :math:`\tau_1 < \dots < \tau_R`, and swaps between neighbours.

    The colder replica i and the hotter replica j = i + 1 exchange their positions with probability
    min(1, S), where :math:`d = 1 / \tau_i - 1 / \tau_j` and

    .. math:: \log S = d \bigl(\tilde U(x_i) - \tilde U(x_j)\bigr)
              - \frac{d^2}{F} \frac{\sigma_i^2 + \sigma_j^2}2

    The last term corrects for noise of the energies. With F = 1 the swap is exact for normal noise
    of these variances, which are learnt from each move by stochastic approximation. With more than
    two replicas the pairs (1, 2), (3, 4), ... and (2, 3), (4, 5), ... take turns.

    Args:
        diffusion: for instance `diffusions.langevin()`.
        step_size: schedule of :math:`\epsilon > 0`, the same for all replicas.
        temperatures: schedules of :math:`\tau > 0`, at least two, the coldest first.
        swap_every: steps between offers of swaps. Defaults to 1.
        swap: "corrected" (default), or "naive" to leave the correction out.
        correction_factor: :math:`F > 0`; above 1 there are more swaps and a bias. Defaults to 1.
        gain: schedule of the gain of the variances, called with counts from 1. None (default) for
            :math:`k^{-0.8}`.
        noisy: whether energies are noisy; exact ones need no correction. Defaults to True.

    Returns:
        A `Sampler`; its draws are those of the coldest replica, and they weigh the same, except
        where the guard has reduced the step.

    Raises:
        ValueError: an argument is out of its range.

    Source: Deng, Feng, Gao, Liang and Lin (2020), Algorithm 1; Ceperley and Dewing (1999) for the
    correction; Okabe et al. (2001) for taking turns.

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
    gain = _GAIN if gain is None else gain

    def init(
        key: jax.Array, position: Any, potential_and_grad: PotentialAndGrad
    ) -> ReplicaExchangeSamplerState:
        replicas = jax.vmap(lambda key: start(key, position, potential_and_grad, diffusion))(
            random.split(key, num_replicas)
        )
        count = jnp.zeros((num_replicas - 1,), jnp.int32)
        return ReplicaExchangeSamplerState(
            *_apart(replicas), count, count, jnp.zeros((num_replicas,), jnp.result_type(float))
        )

    def offered(replicas: Chain) -> jax.Array:
        """Which pairs are offered a swap after a step.

        Only where both have just moved. Energies that were looked at before would bring their noise
        into a second test, and a place where a move was refused has stood for its time already; all
        places that are swapped are new and finite.
        """
        steps = replicas.steps[0]
        turn = steps % swap_every == 0
        if num_replicas > 2:
            turn &= jnp.arange(num_replicas - 1) % 2 == (steps // swap_every - 1) % 2
        return turn & replicas.accepted[:-1] & replicas.accepted[1:]

    def log_chance(energy: jax.Array, tau: jax.Array, variance: jax.Array) -> jax.Array:
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

    def step(
        keys: jax.Array, state: ReplicaExchangeSamplerState, potential_and_grad: PotentialAndGrad
    ) -> ReplicaExchangeSamplerState:
        keys_move = random.split(keys[0], num_replicas + 1)
        keys_energy = random.split(keys[1], num_replicas)

        def move(key_move: jax.Array, key_energy: jax.Array, chain: Chain, tau: jax.Array) -> Chain:
            both = jnp.stack([key_move, key_energy])
            at = lambda steps: tau
            return advance(both, chain, potential_and_grad, diffusion, step_size, at, 1.0)

        tau = jnp.stack([temperature(state.chain.steps) for temperature in temperatures])
        before = _together(state)
        replicas = jax.vmap(move)(keys_move[:-1], keys_energy, before, tau)
        variance = state.energy_variance
        if noisy:
            # Before the swap, so that both ends are of one move.
            seen = jax.vmap(energy_noise_of_move)(before, replicas)
            changed = variance + gain(replicas.steps) * (seen - variance)
            variance = jnp.where(replicas.accepted & jnp.isfinite(changed), changed, variance)

        offers = offered(replicas)
        log_uniform = jnp.log(random.uniform(keys_move[-1], (num_replicas - 1,)))
        makes = offers & (log_uniform < log_chance(replicas.potential_energy, tau, variance))
        swapped = _exchange(replicas, makes)
        memory = jax.vmap(relocated_memory)(replicas, swapped, tau)
        # Without a swap not even the rounding of a change that is none.
        swapped = swapped._replace(memory=_where(_changes(makes), memory, replicas.memory))
        return ReplicaExchangeSamplerState(
            *_apart(swapped),
            state.swap_attempts + jnp.where(offers, 1, 0),
            state.swaps + jnp.where(makes, 1, 0),
            variance,
        )

    def observe(state: ReplicaExchangeSamplerState) -> Draw:
        return unweighted_draw(state.chain, step_size)

    def relocate(state: ReplicaExchangeSamplerState, chain: Chain) -> ReplicaExchangeSamplerState:
        """The coldest replica at the chain, all others at its position."""
        everywhere = jax.tree.map(
            lambda x: jnp.broadcast_to(x, (num_replicas - 1, *jnp.shape(x))), chain
        )
        own = state.hotter
        hotter = everywhere._replace(memory=own.memory, guard=own.guard)
        return state._replace(chain=chain, hotter=hotter)

    return Sampler(init, step, observe, relocate)


def shifted(state: ReplicaExchangeSamplerState, rise: jax.Array) -> ReplicaExchangeSamplerState:
    """The state with the potential energies of all replicas raised by `rise`."""

    def raised(chain: Chain) -> Chain:
        return chain._replace(potential_energy=chain.potential_energy + rise)

    return state._replace(chain=raised(state.chain), hotter=raised(state.hotter))


def renew(
    key: jax.Array, state: ReplicaExchangeSamplerState, potential_and_grad: PotentialAndGrad
) -> ReplicaExchangeSamplerState:
    """The state with the energies and gradients of all replicas evaluated anew."""
    replicas = _together(state)
    keys = random.split(key, len(state.energy_variance))
    energy, gradient = jax.vmap(potential_and_grad)(keys, replicas.position)
    chain, hotter = _apart(replicas._replace(potential_energy=energy, gradient=gradient))
    return state._replace(chain=chain, hotter=hotter)


def _changes(makes: jax.Array) -> jax.Array:
    """Which replicas take part in the swaps that are made, (R,)."""
    return jnp.pad(makes, (0, 1)) | jnp.pad(makes, (1, 0))


def _where(chosen: jax.Array, one: Any, other: Any) -> Any:
    """Of two trees with a leading axis the one where chosen."""

    def choose(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, one, other)


def _exchange(replicas: Chain, makes: jax.Array) -> Chain:
    """The replicas after the swaps of the pairs that make one.

    Positions go with their energies and gradients; memory, guard and counts belong to the
    temperature. The memory follows afterwards.
    """
    up, down = jnp.pad(makes, (0, 1)), jnp.pad(makes, (1, 0))
    source = jnp.arange(len(up)) + jnp.where(up, 1, 0) - jnp.where(down, 1, 0)
    here = (replicas.position, replicas.potential_energy, replicas.gradient)
    position, energy, gradient = jax.tree.map(lambda x: x[source], here)
    return replicas._replace(position=position, potential_energy=energy, gradient=gradient)


def _together(state: ReplicaExchangeSamplerState) -> Chain:
    """All replicas along a leading axis, the coldest first."""
    return jax.tree.map(
        lambda one, others: jnp.concatenate([jnp.asarray(one)[None], others]),
        state.chain,
        state.hotter,
    )


def _apart(replicas: Chain) -> tuple[Chain, Chain]:
    """The coldest replica and the others."""
    return jax.tree.map(lambda x: x[0], replicas), jax.tree.map(lambda x: x[1:], replicas)
