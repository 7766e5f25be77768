"""The climbing contour sampler: Metropolis-adjusted steps that grow with the potential energy."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from numpyro_contour.core.arrays.entries import interpolation_weights, tree_where
from numpyro_contour.core.arrays.random_bits import normal
from numpyro_contour.core.diffusions import DRIFT_LIMIT
from numpyro_contour.core.flattening.psi import Flattening, log_psi
from numpyro_contour.core.flattening.theta import ThetaState, count_visit, initial_theta
from numpyro_contour.core.flattening.wang_landau import (
    WangLandau,
    initial_wang_landau,
    normalised_log_theta,
    update_wang_landau,
)
from numpyro_contour.core.flattening.widening_partition import WideningPartition
from numpyro_contour.core.samplers.chain import Chain, PotentialAndGrad, Sampler, evaluate
from numpyro_contour.core.samplers.contour import ContourDraw
from numpyro_contour.core.samplers.guard import all_finite, initial_guard
from numpyro_contour.schedules import Schedule

#: The energy is flattened completely, by log theta at the centres of the bins without any bound:
#: the Metropolis-Hastings ratio corrects for what the drift leaves out.
FLATTENING = Flattening(zeta=1.0, interpolation="midpoint", one_sided=False, multiplier_bound=None)


class ClimbingState(NamedTuple):
    """State of `climbing`: the chain and everything it has learnt."""

    #: where the chain is
    chain: Chain
    #: the log theta that weighs draws, and counts of the visits to the bins
    theta: ThetaState
    #: the chain's own partition, so that chains may differ
    partition: WideningPartition
    #: bin of the potential energy, from 0
    energy_bin: jax.Array
    #: multiplier of the drift at the position
    gradient_multiplier: jax.Array
    #: log Psi(U) at the position, by theta before the update that the position itself made
    log_flattening: jax.Array
    #: steps whose multiplier was at its bound, always 0 as there is no bound
    bounded: jax.Array
    #: theta while it is learnt
    learning: WangLandau
    #: step sizes and mean squares of the gradient at each level of energy
    levels: LevelSteps


def climbing(
    temperature: Schedule,
    gain: Schedule,
    steps: LevelSteps,
    partition: WideningPartition,
    learns_steps: jax.Array | bool = True,
    learns_theta: jax.Array | bool = True,
    halves_gain: jax.Array | bool = True,
) -> Sampler:
    r"""Metropolis-adjusted Langevin steps on the density flattened over widening bins.

    .. math:: y = x - D(U) \frac{\lambda(U)}\tau \nabla U + \sqrt{2 D(U)}\, \xi, \qquad
              \lambda(u) = \frac{1}{1 + (u - u_{typical})^+ / r}

    is accepted with the Metropolis-Hastings probability for :math:`\pi / \Psi_\theta(U)`. This
    keeps draws unbiased although steps grow with the energy and the drift takes theta for that of
    a Gaussian. Their importance weights are :math:`\Psi_\theta(U)`.

    Args:
        temperature: schedule of :math:`\tau > 0`.
        gain: schedule of the gain if it is not halved, in nats for one visit, called with the
            number of steps since learning began, from 1.
        steps: the step sizes of a chain at its start, and after another algorithm has moved it.
        partition: the partition of a chain at its start.
        learns_steps: whether step sizes are learnt. Defaults to True.
        learns_theta: whether theta is learnt. Defaults to True.
        halves_gain: whether the gain is halved whenever the chain has climbed to the last bin,
            until it is m / k after k steps with m bins. Defaults to True.

    Returns:
        A `Sampler` for exact potential energies, whose draws carry log importance weights.

    Source: Roberts and Tweedie (1996) for the adjustment; Wang and Landau (2001) for theta.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.climbing import climbing
        >>> from numpyro_contour.core.samplers.climbing import initial_steps
        >>> from numpyro_contour.schedules import Constant
        >>> from numpyro_contour.core.flattening.widening_partition import WideningPartition
        >>> sampler = climbing(Constant(1.0), lambda k: 20 / k,
        ...                    initial_steps(jnp.log(0.3), jnp.ones(2)),
        ...                    WideningPartition(0.5, 1.0, 1.0, 20.0, 30.0, 20))
        >>> potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)
        >>> state = sampler.init(jax.random.key(0), jnp.ones(2), potential_and_grad)
        >>> state = sampler.step(jax.random.split(jax.random.key(1)), state, potential_and_grad)
        >>> int(state.theta.bin_counts.sum())
        1
    """
    num_bins = partition.num_bins

    def psi_at(state: ClimbingState, energy: jax.Array, tau: jax.Array) -> jax.Array:
        return log_psi(state.theta.log_theta, energy, state.partition, tau, FLATTENING).value

    def proposal_moments(
        state: ClimbingState, energy: jax.Array, gradient: jax.Array, tau: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The mean and the standard deviation of a proposed move, (d,) each."""
        half_variance = half_step_variance(state.levels, state.partition.height(energy), tau)
        sd = jnp.sqrt(2 * half_variance)
        mean = -half_variance * (state.partition.evenness(energy) / tau) * gradient
        return jnp.clip(mean, -DRIFT_LIMIT * sd, DRIFT_LIMIT * sd), sd

    def at_chain(state: ClimbingState, chain: Chain) -> ClimbingState:
        """The state with its chain at a new position."""
        energy = chain.potential_energy
        return state._replace(
            chain=chain,
            energy_bin=state.partition.index(energy),
            gradient_multiplier=state.partition.evenness(energy).astype(energy.dtype),
            log_flattening=psi_at(state, energy, temperature(chain.steps)),
        )

    def init(key: jax.Array, position: Any, potential_and_grad: PotentialAndGrad) -> ClimbingState:
        dtype = jnp.result_type(float)
        position = jnp.asarray(position, dtype)
        energy, gradient, noise = evaluate(potential_and_grad, key, position)
        zero, count = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
        accepted = jnp.ones((), bool)
        chain = Chain(count, position, energy, gradient, (), initial_guard(), accepted, noise)
        edges = jax.tree.map(lambda edge: jnp.asarray(edge, dtype), partition)
        learning = initial_wang_landau(num_bins)
        log_theta = normalised_log_theta(learning, edges, temperature(count))
        state = ClimbingState(
            chain=chain,
            theta=initial_theta(num_bins)._replace(log_theta=log_theta),
            partition=edges,
            energy_bin=count,
            gradient_multiplier=zero,
            log_flattening=zero,
            bounded=count,
            learning=learning,
            levels=steps,
        )
        return at_chain(state, chain)

    def attempt(
        keys: jax.Array, state: ClimbingState, potential_and_grad: PotentialAndGrad, tau: jax.Array
    ) -> tuple[Chain, jax.Array, jax.Array]:
        """The chain after a proposal, its log Metropolis-Hastings ratio, and if it was too high."""
        chain = state.chain
        key_move, key_accept = random.split(keys[0])
        mean, sd = proposal_moments(state, chain.potential_energy, chain.gradient, tau)
        xi = normal(key_move, mean.shape, mean.dtype)
        position = chain.position + mean + sd * xi
        energy, gradient, _ = evaluate(potential_and_grad, keys[1], position)
        mean_back, sd_back = proposal_moments(state, energy, gradient, tau)
        back = (chain.position - position - mean_back) / sd_back
        log_ratio = (
            (chain.potential_energy - energy) / tau
            + psi_at(state, chain.potential_energy, tau)
            - psi_at(state, energy, tau)
            + jnp.sum(0.5 * (xi**2 - back**2) + jnp.log(sd) - jnp.log(sd_back))
        )
        # The density is 0 above the partition, but a chain that starts there may come down.
        too_high = energy > jnp.maximum(state.partition.upper, chain.potential_energy)
        finite = all_finite(position, energy, gradient, log_ratio)
        log_ratio = jnp.where(finite & ~too_high, log_ratio, -jnp.inf)
        accepted = jnp.log(random.uniform(key_accept, dtype=energy.dtype)) < log_ratio
        moved = chain._replace(
            steps=chain.steps + 1,
            position=jnp.where(accepted, position, chain.position),
            potential_energy=jnp.where(accepted, energy, chain.potential_energy),
            gradient=jnp.where(accepted, gradient, chain.gradient),
        )
        return moved, log_ratio, too_high

    def step(
        keys: jax.Array, state: ClimbingState, potential_and_grad: PotentialAndGrad
    ) -> ClimbingState:
        before, partition = state.chain, state.partition
        tau = temperature(before.steps)
        chain, log_ratio, too_high = attempt(keys, state, potential_and_grad, tau)
        moved = at_chain(state, chain)
        learning = update_wang_landau(
            state.learning,
            partition,
            chain.potential_energy,
            moved.energy_bin,
            tau,
            jnp.asarray(halves_gain),
            gain,
            jnp.asarray(learns_theta),
        )
        theta = count_visit(state.theta, moved.energy_bin)
        theta = theta._replace(log_theta=normalised_log_theta(learning, partition, tau))
        levels = update_steps(
            state.levels,
            partition.height(before.potential_energy),
            jnp.exp(jnp.minimum(log_ratio, 0.0)),
            partition.height(chain.potential_energy),
            chain.gradient,
        )
        # A proposal above the partition says nothing of the right step size.
        levels = tree_where(learns_steps & ~too_high, levels, state.levels)
        return moved._replace(theta=theta, learning=learning, levels=levels)

    def observe(state: ClimbingState) -> ContourDraw:
        chain = state.chain
        energy = chain.potential_energy
        return ContourDraw(
            chain.position,
            energy,
            state.log_flattening,
            step_size_at(state.levels, state.partition.height(energy)),
            jnp.zeros_like(energy),
            state.energy_bin,
            state.gradient_multiplier,
        )

    def relocate(state: ClimbingState, chain: Chain) -> ClimbingState:
        return at_chain(state._replace(levels=steps), chain)

    def flattening_at(state: ClimbingState, energy: jax.Array) -> tuple[jax.Array, jax.Array]:
        log_flattening = psi_at(state, energy, temperature(state.chain.steps))
        too_high = energy > state.partition.upper
        return jnp.where(too_high, jnp.inf, log_flattening), state.partition.evenness(energy)

    return Sampler(init, step, observe, relocate, flattening_at, at_chain)


#: Number of levels at which steps are learnt. With many levels, each is learnt from few moves and
#: is inaccurate, and chains get stuck where a step is too large.
NUM_LEVELS = 4

#: The mean acceptance probability that step sizes are tuned to. It is near the optimum of the
#: Metropolis-adjusted Langevin algorithm in many dimensions.
TARGET_ACCEPTANCE = 0.6


class LevelSteps(NamedTuple):
    """Steps at evenly spaced levels, from the typical energy to the top of a partition."""

    #: log of the step size, (levels,)
    log_step_size: jax.Array
    #: mean square of the gradient, (levels, d)
    square: jax.Array
    #: number of moves from each level, (levels,)
    moves: jax.Array


def initial_steps(log_step_size: jax.Array, square: jax.Array) -> LevelSteps:
    """The same step at all levels.

    Args:
        log_step_size: log of the step size, ().
        square: mean square of the gradient, (d,).
    """
    return LevelSteps(
        jnp.broadcast_to(log_step_size, (NUM_LEVELS,)),
        jnp.broadcast_to(square, (NUM_LEVELS, square.shape[-1])),
        jnp.zeros((NUM_LEVELS,), square.dtype),
    )


def level_weights(height: jax.Array) -> jax.Array:
    """The weights of the levels at a height from 0 to 1, (levels,)."""
    return interpolation_weights(height * (NUM_LEVELS - 1), NUM_LEVELS)


def step_size_at(steps: LevelSteps, height: jax.Array) -> jax.Array:
    """The step size at a height."""
    return jnp.exp(level_weights(height) @ steps.log_step_size)


def half_step_variance(steps: LevelSteps, height: jax.Array, temperature: jax.Array) -> jax.Array:
    r"""Half the variance of the noise of a step in each coordinate, (d,).

    .. math:: D_i = \epsilon \tau^2 / \overline{(\partial_i U)^2}

    where the logarithms of both factors are interpolated between levels.
    """
    log_square = level_weights(height) @ jnp.log(steps.square)
    return step_size_at(steps, height) * temperature**2 * jnp.exp(-log_square)


def update_steps(
    steps: LevelSteps,
    left: jax.Array,
    acceptance: jax.Array,
    reached: jax.Array,
    gradient: jax.Array,
) -> LevelSteps:
    """Steps after a move, by its acceptance probability and by the gradient where it led.

    Args:
        steps: the steps so far.
        left: the height before the move.
        acceptance: the acceptance probability of the move.
        reached: the height after the move.
        gradient: the gradient after the move, (d,).
    """
    rate = 2 / (1 + steps.moves) ** 0.6 * level_weights(left)
    log_step_size = steps.log_step_size + rate * (acceptance - TARGET_ACCEPTANCE)
    gain = (level_weights(reached) / (2 + steps.moves) ** 0.7)[:, None]
    square = steps.square + gain * (gradient**2 - steps.square)
    tiny = jnp.finfo(square.dtype).tiny
    return LevelSteps(log_step_size, jnp.maximum(square, tiny), steps.moves + level_weights(left))
