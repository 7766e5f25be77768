"""The climbing contour sampler: Metropolis-adjusted steps that grow with the potential energy."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from numpyro_contour.core.arrays.interpolation import interpolation_weights
from numpyro_contour.core.arrays.random_bits import normal
from numpyro_contour.core.diffusions import DRIFT_LIMIT
from numpyro_contour.core.flattening.psi import Flattening, log_psi
from numpyro_contour.core.flattening.theta import ThetaState
from numpyro_contour.core.flattening.widening_partition import WideningPartition
from numpyro_contour.core.samplers.chain import Chain, PotentialAndGrad, Sampler
from numpyro_contour.core.samplers.contour import ContourDraw
from numpyro_contour.core.samplers.guard import all_finite, initial_guard
from numpyro_contour.core.samplers.steps_by_height import (
    LevelSteps,
    learn_steps,
    spread_of_step,
    step_size_at,
)
from numpyro_contour.schedules import Schedule

#: All is flattened, by log theta at the centres of the bins as it is: what the drift does not
#: follow, the Metropolis-Hastings ratio does.
FLATTENING = Flattening(zeta=1.0, interpolation="midpoint", one_sided=False, multiplier_bound=None)

#: Gain of the first steps of learning: nats for one visit.
FIRST_GAIN = 0.5


class Learning(NamedTuple):
    """Theta while it is learnt, and how fast it is."""

    #: log theta less that of a Gaussian, (num_bins,), not normalised: so small that float32 can
    #: add to it what a million steps leave of the gain
    correction: jax.Array
    #: the gain, in nats a visit
    gain: jax.Array
    #: bins visited since learning began, (num_bins,)
    known: jax.Array
    #: whether the chain was in the lower half of the bins since the gain was last halved
    was_low: jax.Array
    #: steps since learning began
    steps: jax.Array


class ClimbingState(NamedTuple):
    """State of `climbing`: the chain and all it has learnt."""

    #: where the chain is
    chain: Chain
    #: log theta as it weighs draws, and the visits of the bins
    theta: ThetaState
    #: the chain's own partition, so that chains may differ
    partition: WideningPartition
    #: bin of the position, from 0
    energy_bin: jax.Array
    #: multiplier of the drift at the position
    gradient_multiplier: jax.Array
    #: log Psi(U) of the position by theta before its own update
    log_flattening: jax.Array
    #: steps whose multiplier was decided by a bound, which are none
    bounded: jax.Array
    #: theta as it is learnt
    learning: Learning
    #: step sizes and mean squares of the gradient by height
    levels: LevelSteps


def gaussian_log_theta(partition: WideningPartition, temperature: jax.Array) -> jax.Array:
    r"""Log theta of the bins where modes are Gaussian, (num_bins,), not normalised.

    .. math:: \log\theta(u) = -\frac e\tau + \frac r\tau \log(1 + e / r), \qquad
              e = (u - u_{typical})^+

    Up to a constant it is the log density of the energy of a Gaussian with :math:`r = d\tau / 2`,
    relative to a density that is flat over the bins.
    """
    edges = partition.edges
    above = jnp.maximum(0.5 * (edges[..., 1:] + edges[..., :-1]) - partition.typical, 0)
    reach = partition.reach
    return (reach * jnp.log1p(above / reach) - above) / temperature


def first_learning(num_bins: int) -> Learning:
    """Learning before its first step."""
    dtype = jnp.result_type(float)
    return Learning(
        jnp.zeros((num_bins,), dtype),
        jnp.asarray(FIRST_GAIN, dtype),
        jnp.zeros((num_bins,), bool),
        jnp.zeros((), bool),
        jnp.zeros((), jnp.int32),
    )


def learnt(
    learning: Learning,
    partition: WideningPartition,
    energy: jax.Array,
    energy_bin: jax.Array,
    temperature: jax.Array,
    halves: jax.Array,
    gain: Schedule,
    active: jax.Array,
) -> Learning:
    r"""Learning after a step: log theta of where it led is raised by the gain.

    While it `halves` the gain is halved whenever the chain comes to the last bin from the lower
    half of them, until it is m / k after k steps with m bins; from there on it is that. Where all
    bins had to be visited first it would stay large, and drive theta apart, as long as a mode that
    is hard to find is the only one with the lowest energies. A bin below all that are known begins
    learning again, from the log theta of the lowest of them: below these Psi is even, since
    it would else fall without end there, and draw the chain into a minimum. Afterwards the gain is
    `gain`.

    Source: Wang and Landau (2001); Belardinelli and Pereyra (2007) for m / k.
    """
    bins = jnp.arange(partition.num_bins)
    begins = halves & ~jnp.any(learning.known & (bins <= energy_bin))
    known = learning.known | (bins == energy_bin)
    was_low = learning.was_low | (energy_bin < partition.num_bins // 2)
    climbed = halves & was_low & (energy_bin == partition.num_bins - 1)
    steps = jnp.where(begins, 0, learning.steps) + 1
    halved = jnp.where(climbed, learning.gain / 2, learning.gain)
    least = jnp.minimum(FIRST_GAIN, partition.num_bins / steps.astype(halved.dtype))
    new = jnp.where(halves, jnp.maximum(halved, least), gain(steps))
    # As log Psi is interpolated between the centres of bins.
    weights = interpolation_weights(partition.coordinate(energy) - 0.5, partition.num_bins)
    correction = learning.correction + new * weights
    log_theta = correction + gaussian_log_theta(partition, temperature)
    lowest = jnp.argmax(known)
    below = correction + log_theta[lowest] - log_theta
    correction = jnp.where(bins < lowest, below, correction)
    # Now and then, where it is large: of small gains rounding would take the small shares.
    correction = correction - jnp.where(climbed, jnp.mean(correction), 0.0)
    after = Learning(correction, new, known, was_low & ~climbed, steps)
    return jax.tree.map(lambda a, b: jnp.where(active, a, b), after, learning)


def log_theta_of(
    learning: Learning, partition: WideningPartition, temperature: jax.Array
) -> jax.Array:
    """Log theta, (num_bins,), normalised."""
    return jax.nn.log_softmax(learning.correction + gaussian_log_theta(partition, temperature))


def climbing(
    temperature: Schedule,
    gain: Schedule,
    steps: LevelSteps,
    partition: WideningPartition,
    tunes: jax.Array | bool = True,
    learns: jax.Array | bool = True,
    halves: jax.Array | bool = True,
) -> Sampler:
    r"""Metropolis-adjusted Langevin steps on the density flattened over widening bins.

    .. math:: y = x - D(U) \frac{\lambda(U)}\tau \nabla U + \sqrt{2 D(U)}\, \xi, \qquad
              \lambda(u) = \frac{1}{1 + (u - u_{typical})^+ / r}

    is accepted with the probability of Metropolis and Hastings for :math:`\pi / \Psi_\theta(U)`,
    so that neither the size of the steps, which grows with the energy, nor the drift, which is
    that of a Gaussian's theta, biases the draws. They weigh :math:`\Psi_\theta(U)`.

    Args:
        temperature: schedule of :math:`\tau > 0`.
        gain: schedule of the gain while it does not halve, in nats a visit, called with counts of
            the steps of learning from 1.
        steps: the steps of a chain at its start, and where another algorithm has placed it.
        partition: the first partition of a chain.
        tunes: whether steps are learnt. Defaults to True.
        learns: whether theta is. Defaults to True.
        halves: whether the gain is that of learning: halved whenever the chain has climbed to the
            last bin, until it is m / k. Defaults to True.

    Returns:
        A `Sampler` for exact potential energies, whose draws carry log importance weights.

    Source: Roberts and Tweedie (1996) for the adjustment; Wang and Landau (2001) for the learning.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.climbing import climbing
        >>> from numpyro_contour.core.samplers.steps_by_height import initial_steps
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

    def drift(
        state: ClimbingState, energy: jax.Array, gradient: jax.Array, tau: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The mean of a move and the standard deviation of its noise, (d,) each."""
        half_variance = spread_of_step(state.levels, state.partition.height(energy), tau)
        sd = jnp.sqrt(2 * half_variance)
        mean = -half_variance * (state.partition.evenness(energy) / tau) * gradient
        return jnp.clip(mean, -DRIFT_LIMIT * sd, DRIFT_LIMIT * sd), sd

    def look(state: ClimbingState, chain: Chain) -> ClimbingState:
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
        energy, gradient = potential_and_grad(key, position)
        count = jnp.zeros((), jnp.int32)
        chain = Chain(count, position, energy, gradient, (), initial_guard(), jnp.ones((), bool))
        edges = jax.tree.map(lambda x: jnp.asarray(x, dtype), partition)
        learning = first_learning(num_bins)
        blank = jnp.zeros((), dtype)
        theta = ThetaState(
            log_theta_of(learning, edges, temperature(count)),
            blank,
            jnp.zeros((num_bins,), jnp.int32),
        )
        state = ClimbingState(chain, theta, edges, count, blank, blank, count, learning, steps)
        return look(state, chain)

    def step(
        keys: jax.Array, state: ClimbingState, potential_and_grad: PotentialAndGrad
    ) -> ClimbingState:
        chain = state.chain
        tau = temperature(chain.steps)
        key_move, key_accept = random.split(keys[0])
        mean, sd = drift(state, chain.potential_energy, chain.gradient, tau)
        xi = normal(key_move, mean.shape, mean.dtype)
        position = chain.position + mean + sd * xi
        energy, gradient = potential_and_grad(keys[1], position)
        mean_back, sd_back = drift(state, energy, gradient, tau)
        back = (chain.position - position - mean_back) / sd_back
        log_ratio = (
            (chain.potential_energy - energy) / tau
            + psi_at(state, chain.potential_energy, tau)
            - psi_at(state, energy, tau)
            + jnp.sum(0.5 * (xi**2 - back**2) + jnp.log(sd) - jnp.log(sd_back))
        )
        # Above the partition is nothing, but a chain that is there may come down.
        beyond = energy > jnp.maximum(state.partition.upper, chain.potential_energy)
        finite = all_finite(position, energy, gradient, log_ratio)
        log_ratio = jnp.where(finite & ~beyond, log_ratio, -jnp.inf)
        accepted = jnp.log(random.uniform(key_accept, dtype=energy.dtype)) < log_ratio
        moved = chain._replace(
            steps=chain.steps + 1,
            position=jnp.where(accepted, position, chain.position),
            potential_energy=jnp.where(accepted, energy, chain.potential_energy),
            gradient=jnp.where(accepted, gradient, chain.gradient),
        )
        after = look(state, moved)
        learning = learnt(
            state.learning,
            state.partition,
            moved.potential_energy,
            after.energy_bin,
            tau,
            jnp.asarray(halves),
            gain,
            jnp.asarray(learns),
        )
        here = jnp.arange(num_bins) == after.energy_bin
        theta = state.theta._replace(
            log_theta=log_theta_of(learning, state.partition, tau),
            bin_counts=state.theta.bin_counts + here,
        )
        levels = learn_steps(
            state.levels,
            state.partition.height(chain.potential_energy),
            jnp.exp(jnp.minimum(log_ratio, 0.0)),
            state.partition.height(moved.potential_energy),
            moved.gradient,
        )
        levels = jax.tree.map(lambda a, b: jnp.where(tunes & ~beyond, a, b), levels, state.levels)
        return after._replace(theta=theta, learning=learning, levels=levels)

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
        return look(state._replace(levels=steps), chain)

    return Sampler(init, step, observe, relocate)
