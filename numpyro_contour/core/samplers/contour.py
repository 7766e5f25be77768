"""The contour wrapper: any diffusion on the density flattened by the learnt theta."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from numpy.polynomial.hermite_e import hermegauss

from numpyro_contour import checks
from numpyro_contour.core.diffusions import Diffusion
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.core.flattening.psi import WEIGHTS, Flattening, log_flattening, log_psi
from numpyro_contour.core.flattening.theta import ThetaState, initial_theta
from numpyro_contour.core.flattening.theta_updates import RANDOM_FIELDS, learn, log_field
from numpyro_contour.core.samplers.chain import (
    Chain,
    PotentialAndGrad,
    Sampler,
    advance,
    next_step_size,
    start,
    time_weight,
)
from numpyro_contour.schedules import Schedule

_DEFAULT_FLATTENING = Flattening()

# The noise of energies is a running mean over some fifty moves, fewer than a visit to a mode takes.
_NOISE_RATE = 0.02

# Places and shares for means over a standard normal.
_QUADRATURE = hermegauss(5)


class ContourDraw(NamedTuple):
    """What can be said of one position of a contour chain."""

    #: the position, any pytree
    position: Any
    #: potential energy as the chain saw it, in nats
    potential_energy: jax.Array
    #: log importance weight of this position alone
    log_weight: jax.Array
    #: step size of the step that leaves the position
    step_size: jax.Array
    #: the part of `log_weight` that is time, 0 unless the guard reduced the step
    log_time_weight: jax.Array
    #: bin of the potential energy, from 0
    energy_bin: jax.Array
    #: 1 + zeta * tau * dlogPsi/du at the potential energy
    gradient_multiplier: jax.Array


class ContourSamplerState(NamedTuple):
    """State of `contour`: the chain and all it has learnt."""

    #: where the chain is
    chain: Chain
    #: the estimate of theta
    theta: ThetaState
    #: the chain's own partition, so that chains may differ
    partition: EnergyPartition
    #: bin of the potential energy, from 0
    energy_bin: jax.Array
    #: multiplier at the position, by the theta that weighs it
    gradient_multiplier: jax.Array
    #: log Psi(U)**zeta of the position by theta before its own update
    log_flattening: jax.Array
    #: steps whose multiplier was decided by its bound
    bounded: jax.Array
    #: variance of the energies' noise where the chain is, 0 unless they are noisy
    energy_noise: jax.Array


def noise_of_move(before: Chain, after: Chain) -> jax.Array:
    r"""The variance of the noise of energies from both ends of one move.

    .. math:: \tfrac12 \bigl[\tilde U(y) - \tilde U(x)
              - \tfrac12 (\nabla \tilde U(x) + \nabla \tilde U(y))^\top (y - x)\bigr]^2

    Without noise the bracket is of third order in the move; with independent noise at both ends it
    is the difference of their values in the middle.
    """
    rises = jax.tree.map(
        lambda x, y, g, h: jnp.sum(0.5 * (g + h) * (y - x)),
        *(before.position, after.position, before.gradient, after.gradient),
    )
    rise = after.potential_energy - before.potential_energy
    return 0.5 * (rise - jax.tree.reduce(jnp.add, rises)) ** 2


def contour(
    diffusion: Diffusion,
    step_size: Schedule,
    temperature: Schedule,
    partition: EnergyPartition,
    gain: Schedule,
    flattening: Flattening = _DEFAULT_FLATTENING,
    random_field: str = "consistent",
    weight: str = "consistent",
    margin: jax.Array | None = None,
    noisy: bool = False,
    rho: float = 1.0,
    theta: Any = None,
) -> Sampler:
    r"""A diffusion on the flattened density :math:`\pi(x) / \Psi_\theta(U(x))^\zeta`.

    One step moves x with the gradient multiplier
    :math:`1 + \zeta\tau\, \partial\log\Psi_{\theta_k} / \partial u`, evaluates value and gradient
    once at the new point, weighs it by :math:`\Psi_{\theta_k}(U)^\zeta` and then updates theta:

    .. math:: \theta_{k+1} = \theta_k + \omega_{k+1} \Psi_{\theta_k}(U)^\zeta (1_J - \theta_k)

    Args:
        diffusion: for instance `diffusions.langevin()`.
        step_size: schedule of :math:`\epsilon > 0`.
        temperature: schedule of :math:`\tau > 0`; where it ends at 0 nothing is flattened.
        partition: the energy partition.
        gain: schedule of :math:`\omega` in (0, 1), called with counts from 1.
        flattening: zeta and the shape of Psi. Defaults to `Flattening()`.
        random_field: "consistent" (default), the update above, or one of the paper's: "csgld",
            "scalable" or "penalized", equations (10), (15) and (57). See `log_field`.
        weight: "consistent" (default), :math:`\Psi(U)^\zeta`, or "piecewise", the paper's
            :math:`\theta(J)^\zeta`, which is biased by the bin width.
        margin: moves that rise by more than this above the partition's top are refused, in nats.
            None (default) to refuse none. On noisy energies steps that were reduced to a 32nd are
            not refused for it.
        noisy: whether energies are noisy: the injected noise is then made smaller by what their
            noise, which is told from each move, adds to the drift through the multiplier.
            Defaults to False.
        rho: the penalty of "penalized", at least 0. Defaults to 1.
        theta: known probabilities of the bins, (num_bins,), which are kept as they are. None
            (default) to learn them.

    Returns:
        A `Sampler` whose draws carry log importance weights.

    Raises:
        ValueError: a name is unknown, or `theta` is not one finite number above 0 for each bin.

    Source: Deng, Lin and Liang (2020), Algorithm 1; the update is equation (10) with the continuous
    :math:`\Psi` in place of :math:`\theta(J)`.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour import EnergyPartition, robbins_monro
        >>> from numpyro_contour.core.diffusions import langevin
        >>> from numpyro_contour.core.samplers.contour import contour
        >>> from numpyro_contour.schedules import Constant
        >>> sampler = contour(langevin(), Constant(0.1), Constant(1.0),
        ...                   EnergyPartition(0.0, 20.0, 20), robbins_monro())
        >>> potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)
        >>> state = sampler.init(jax.random.key(0), jnp.ones(2), potential_and_grad)
        >>> state = sampler.step(jax.random.split(jax.random.key(1)), state, potential_and_grad)
        >>> int(state.theta.bin_counts.sum())
        1
    """
    checks.one_of("random_field", random_field, RANDOM_FIELDS)
    checks.one_of("weight", weight, WEIGHTS)
    first_theta = initial_theta(partition.num_bins, theta)

    def look(state: ContourSamplerState, chain: Chain) -> tuple[ContourSamplerState, jax.Array]:
        """The state at a new place of the chain, and its log field, by the theta that led there."""
        energy = chain.potential_energy
        energy_bin = state.partition.index(energy)
        psi = log_psi(
            state.theta.log_theta, energy, state.partition, temperature(chain.steps), flattening
        )
        state = state._replace(
            chain=chain,
            energy_bin=energy_bin,
            gradient_multiplier=psi.gradient_multiplier,
            log_flattening=log_flattening(state.theta, psi, energy_bin, flattening, weight),
        )
        return state, log_field(random_field, state.theta, psi, energy_bin, flattening)

    def taught(before: ThetaState, moved: ContourSamplerState, log_shared: jax.Array) -> ThetaState:
        """Theta after a step: learnt from where it led, or only its visits counted."""
        if theta is not None:
            here = jnp.arange(partition.num_bins) == moved.energy_bin
            return before._replace(bin_counts=before.bin_counts + here)
        # A refused attempt stands for no time: it teaches theta nothing.
        chain = moved.chain
        log_omega = jnp.where(chain.accepted, jnp.log(gain(chain.steps)), -jnp.inf)
        return learn(random_field, before, moved.energy_bin, log_omega, log_shared, rho)

    def multiplier_noise(state: ContourSamplerState) -> jax.Array | float:
        """The variance that the noise of the energy gives to the multiplier."""
        if not noisy:
            return 0.0
        sd = jnp.sqrt(state.energy_noise)

        def multiplier(away: jax.Array) -> jax.Array:
            return log_psi(
                state.theta.log_theta,
                state.chain.potential_energy + sd * away,
                state.partition,
                temperature(state.chain.steps),
                flattening,
            ).gradient_multiplier

        found = jax.vmap(multiplier)(jnp.asarray(_QUADRATURE[0], sd.dtype))
        shares = jnp.asarray(_QUADRATURE[1] / _QUADRATURE[1].sum(), sd.dtype)
        return jnp.sum(shares * (found - jnp.sum(shares * found)) ** 2)

    def init(
        key: jax.Array, position: Any, potential_and_grad: PotentialAndGrad
    ) -> ContourSamplerState:
        chain = start(key, position, potential_and_grad, diffusion)
        dtype = jnp.result_type(float)
        edges = EnergyPartition.tree_unflatten(
            partition.num_bins,
            (jnp.asarray(partition.lower, dtype), jnp.asarray(partition.upper, dtype)),
        )
        blank = jnp.zeros((), dtype)
        count = jnp.zeros((), jnp.int32)
        state = ContourSamplerState(
            chain=chain,
            theta=first_theta,
            partition=edges,
            energy_bin=count,
            gradient_multiplier=blank,
            log_flattening=blank,
            bounded=count,
            energy_noise=blank,
        )
        return look(state, chain)[0]

    def step(
        keys: jax.Array, state: ContourSamplerState, potential_and_grad: PotentialAndGrad
    ) -> ContourSamplerState:
        drift = log_psi(
            state.theta.log_theta,
            state.chain.potential_energy,
            state.partition,
            temperature(state.chain.steps),
            flattening,
        )
        chain = advance(
            keys,
            state.chain,
            potential_and_grad,
            diffusion,
            step_size,
            temperature,
            drift.gradient_multiplier,
            None if margin is None else state.partition.upper + margin,
            multiplier_noise(state),
            noisy,
        )
        if noisy:
            seen = jnp.where(chain.accepted, noise_of_move(state.chain, chain), state.energy_noise)
            changed = state.energy_noise + _NOISE_RATE * (seen - state.energy_noise)
            state = state._replace(energy_noise=jnp.nan_to_num(changed))
        moved, log_shared = look(state, chain)
        return moved._replace(
            theta=taught(state.theta, moved, log_shared),
            bounded=state.bounded + jnp.where(drift.bounded, 1, 0),
        )

    def observe(state: ContourSamplerState) -> ContourDraw:
        chain = state.chain
        return ContourDraw(
            chain.position,
            chain.potential_energy,
            state.log_flattening + time_weight(chain),
            next_step_size(chain, step_size),
            time_weight(chain),
            state.energy_bin,
            state.gradient_multiplier,
        )

    def relocate(state: ContourSamplerState, chain: Chain) -> ContourSamplerState:
        return look(state, chain)[0]

    return Sampler(init, step, observe, relocate)
