"""Contour: any diffusion on the density that the learnt theta flattens."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.core.diffusions import Diffusion
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.core.flattening.normaliser import MeanTheta, initial_mean_theta
from numpyro_contour.core.flattening.psi import (
    WEIGHTS,
    Flattening,
    LogPsi,
    log_flattening,
    log_psi,
)
from numpyro_contour.core.flattening.theta import (
    ThetaState,
    count_visit,
    initial_theta,
    update_theta_by,
)
from numpyro_contour.core.flattening.theta_updates import RANDOM_FIELDS, learn, log_field
from numpyro_contour.core.samplers.adjusted import advance_adjusted
from numpyro_contour.core.samplers.chain import (
    Chain,
    PotentialAndGrad,
    Sampler,
    Stretches,
    advance,
    log_time_weight,
    next_step_size,
    noise_of,
    start,
)
from numpyro_contour.core.samplers.energy_noise import update_energy_noise, variance_under_noise
from numpyro_contour.schedules import Schedule

_DEFAULT_FLATTENING = Flattening()


class ContourDraw(NamedTuple):
    """One position of a contour chain: its fields are those of `Draw` and of the flattening."""

    #: the position, any pytree
    position: Any
    #: potential energy as the chain saw it, in nats
    potential_energy: jax.Array
    #: log importance weight of this position alone, with its time weight
    log_weight: jax.Array
    #: step size of the step that leaves the position
    step_size: jax.Array
    #: the log time weight that `log_weight` contains, 0 unless the guard has reduced the step
    log_time_weight: jax.Array
    #: bin of the potential energy, from 0
    energy_bin: jax.Array
    #: 1 + zeta * tau * dlogPsi/du at the potential energy
    gradient_multiplier: jax.Array


class ContourSamplerState(NamedTuple):
    """State of `contour`: the chain and everything it has learnt."""

    #: where the chain is
    chain: Chain
    #: the estimate of theta
    theta: ThetaState
    #: the chain's own partition, so that chains may differ
    partition: EnergyPartition
    #: bin of the potential energy, from 0
    energy_bin: jax.Array
    #: gradient multiplier at the position, by the theta that weighs it
    gradient_multiplier: jax.Array
    #: log Psi(U)**zeta at the position, by theta before the update that the position itself made
    log_flattening: jax.Array
    #: steps whose multiplier was at its bound
    bounded: jax.Array
    #: variance of the noise of energies where the chain is, 0 if they are exact
    energy_noise: jax.Array
    #: the mean of theta over windows of steps, as a kernel updates it
    mean_theta: MeanTheta
    #: log of the normaliser that multiplies the weights of the last window, 0 where there is none
    log_normaliser: jax.Array


class _AtEnergy(NamedTuple):
    """What theta makes of a potential energy."""

    psi: LogPsi
    #: the bin, from 0
    energy_bin: jax.Array
    #: log of the weight and of the field, as `log_flattening` and `log_field` have them
    log_flattening: jax.Array
    log_field: jax.Array


class _ByTheta(NamedTuple):
    """How theta flattens."""

    temperature: Schedule
    flattening: Flattening
    random_field: str
    weight: str

    def at(self, state: ContourSamplerState, energy: jax.Array, count: jax.Array) -> _AtEnergy:
        """What the theta of a state makes of an energy after a number of steps."""
        theta, partition, temperature = state.theta, state.partition, self.temperature(count)
        psi = log_psi(theta.log_theta, energy, partition, temperature, self.flattening)
        energy_bin = partition.index(energy)
        by_bin = psi, energy_bin, self.flattening
        return _AtEnergy(
            psi,
            energy_bin,
            log_flattening(theta, *by_bin, self.weight),
            log_field(self.random_field, theta, *by_bin),
        )


class _Visits(NamedTuple):
    """What theta learns from the bins that a chain visits. A known theta only counts them."""

    gain: Schedule
    random_field: str
    is_known: bool
    noise_limit: float | None
    rho: float
    chains: str | None

    def log_gain(self, count: jax.Array, moved: jax.Array, noise: jax.Array) -> jax.Array:
        """Log of the gain of a step, -inf if theta learns nothing from it."""
        # A refused attempt takes no time.
        learns = moved if self.noise_limit is None else moved & (noise <= self.noise_limit)
        return jnp.where(learns, jnp.log(self.gain(count)), -jnp.inf)

    def of_step(
        self, theta: ThetaState, energy_bin: jax.Array, log_shared: jax.Array, chain: Chain
    ) -> ThetaState:
        """Theta after a step."""
        if self.is_known:
            return count_visit(theta, energy_bin)
        log_omega = self.log_gain(chain.steps, chain.accepted, chain.energy_noise)
        visited = energy_bin, log_omega, log_shared
        return learn(self.random_field, theta, *visited, self.rho, self.chains)

    def of_stretch(
        self,
        theta: ThetaState,
        energy_bins: jax.Array,
        log_shared: jax.Array,
        counts: jax.Array,
        moved: jax.Array,
        noise: jax.Array,
    ) -> ThetaState:
        """Theta after a stretch of steps; of each of these the arguments of `of_step`, (steps,)."""
        log_omega = jax.vmap(self.log_gain)(counts, moved & (not self.is_known), noise)
        return update_theta_by(theta, energy_bins, log_omega + log_shared)


def _first_state(
    chain: Chain, theta: ThetaState, partition: EnergyPartition
) -> ContourSamplerState:
    """The state before the first step, without what theta makes of its energy."""
    dtype = jnp.result_type(float)
    zero, count = jnp.zeros((), dtype), jnp.zeros((), jnp.int32)
    return ContourSamplerState(
        chain=chain,
        theta=theta,
        partition=jax.tree.map(lambda edge: jnp.asarray(edge, dtype), partition),
        energy_bin=count,
        gradient_multiplier=zero,
        log_flattening=zero,
        bounded=count,
        energy_noise=zero,
        mean_theta=initial_mean_theta(theta.log_theta),
        log_normaliser=zero,
    )


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
    noise_limit: float | None = None,
    rho: float = 1.0,
    theta: Any = None,
    chains: str | None = None,
    in_stretches: bool = False,
) -> Sampler:
    r"""A diffusion on the flattened density :math:`\pi(x) / \Psi_\theta(U(x))^\zeta`.

    One step moves x with the gradient multiplier
    :math:`1 + \zeta\tau\, \partial\log\Psi_{\theta_k} / \partial u`, evaluates the potential energy
    and its gradient once at the new point, weighs it by :math:`\Psi_{\theta_k}(U)^\zeta` and then
    updates theta:

    .. math:: \theta_{k+1} = \theta_k + \omega_{k+1} \Psi_{\theta_k}(U)^\zeta (1_J - \theta_k)

    Args:
        diffusion: for instance `diffusions.langevin()`. The moves of one with a test, such as
            `diffusions.leapfrog()`, are accepted by Metropolis-Hastings for the flattened density
            by the theta of the step; `margin` and `noise_limit` have no effect then.
        step_size: schedule of :math:`\epsilon > 0`.
        temperature: schedule of :math:`\tau > 0`. It may end at 0, where nothing is flattened.
        partition: the energy partition.
        gain: schedule of :math:`\omega` in (0, 1), called with counts from 1.
        flattening: zeta and the shape of Psi. Defaults to `Flattening()`.
        random_field: "consistent" (default), the update above, or one of the paper's: "csgld",
            "scalable" or "penalized", equations (10), (15) and (57). See `log_field`.
        weight: "consistent" (default), :math:`\Psi(U)^\zeta`, or "piecewise", the paper's
            :math:`\theta(J)^\zeta`, which is biased by the bin width.
        margin: moves that rise to more than this above the top of the partition are refused, in
            nats. None (default) to refuse none. With noisy energies, steps that the guard has
            reduced to a 32nd are not refused for this.
        noise_limit: the variance of an energy's noise up to which theta learns from it, where the
            noise is told. The noise is then estimated from each move too, and the injected noise is
            reduced by what it adds to the drift through the multiplier. None (default) where
            energies are exact.
        rho: the penalty of "penalized", at least 0. Defaults to 1.
        theta: known probabilities of the bins, (num_bins,), which stay as they are. None (default)
            to learn them.
        chains: the name of the axis of chains, of the `jax.vmap` around the steps, whose chains
            share the theta that they learn: a step moves it by the mean of what each chain adds.
            They must begin with the same theta and have the same bins. None (default) for a theta
            of each chain's own.
        in_stretches: whether theta stays as it is in a stretch of steps and learns at its end from
            all of them, which costs far less in small models. Not with "penalized" or `chains`.
            Defaults to False.

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

    by_theta = _ByTheta(temperature, flattening, random_field, weight)
    visits = _Visits(gain, random_field, theta is not None, noise_limit, rho, chains)

    def at_chain(state: ContourSamplerState, chain: Chain) -> tuple[ContourSamplerState, jax.Array]:
        """The state with its chain at a new position, and the log field there, by the old theta."""
        here = by_theta.at(state, chain.potential_energy, chain.steps)
        state = state._replace(
            chain=chain,
            energy_bin=here.energy_bin,
            gradient_multiplier=here.psi.gradient_multiplier,
            log_flattening=here.log_flattening,
        )
        return state, here.log_field

    def begin_stretch(state: ContourSamplerState) -> ContourSamplerState:
        """The state with the multiplier by the theta that holds in the stretch."""
        here = by_theta.at(state, state.chain.potential_energy, state.chain.steps)
        return state._replace(gradient_multiplier=here.psi.gradient_multiplier)

    def end_stretch(
        state: ContourSamplerState, draws: ContourDraw, noise: jax.Array
    ) -> ContourSamplerState:
        """The state after a stretch of steps, with what theta learns from them."""
        number = draws.energy_bin.shape[0]
        counts = state.chain.steps - number + 1 + jnp.arange(number)
        fields = jax.vmap(partial(by_theta.at, state))(draws.potential_energy, counts).log_field
        moved = jnp.isfinite(draws.log_time_weight)
        return state._replace(
            theta=visits.of_stretch(state.theta, draws.energy_bin, fields, counts, moved, noise)
        )

    def flattening_at(state: ContourSamplerState, energy: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The log weight and the multiplier at an energy, by the theta of the step."""
        here = by_theta.at(state, energy, state.chain.steps)
        return here.log_flattening, here.psi.gradient_multiplier

    def multiplier_variance(state: ContourSamplerState) -> jax.Array | float:
        """The variance of the gradient multiplier that the noise of the energy causes."""
        if noise_limit is None:
            return 0.0
        steps = state.chain.steps
        return variance_under_noise(
            lambda energy: by_theta.at(state, energy, steps).psi.gradient_multiplier,
            state.chain.potential_energy,
            state.energy_noise,
        )

    def drift_at(state: ContourSamplerState) -> tuple[jax.Array, jax.Array]:
        """The multiplier of the drift, and whether it is at its bound."""
        if in_stretches:
            # That of the last step, or of the beginning of the stretch, by the same theta.
            multiplier, bound = state.gradient_multiplier, flattening.multiplier_bound
            if bound is None:
                return multiplier, jnp.zeros((), bool)
            return multiplier, 1 - multiplier >= (1 - 1e-4) * (1 - bound)
        psi = by_theta.at(state, state.chain.potential_energy, state.chain.steps).psi
        return psi.gradient_multiplier, psi.bounded

    def init(
        key: jax.Array, position: Any, potential_and_grad: PotentialAndGrad
    ) -> ContourSamplerState:
        chain = start(key, position, potential_and_grad, diffusion)
        state = _first_state(chain, first_theta, partition)
        return at_chain(state, chain)[0]

    def step(
        keys: jax.Array, state: ContourSamplerState, potential_and_grad: PotentialAndGrad
    ) -> ContourSamplerState:
        multiplier, at_bound = drift_at(state)
        moved_by = keys, state.chain, potential_and_grad, diffusion, step_size, temperature
        if diffusion.accept is None:
            chain = advance(
                *moved_by,
                multiplier,
                None if margin is None else state.partition.upper + margin,
                multiplier_variance(state),
                noise_limit,
            )
        else:
            chain = advance_adjusted(*moved_by, partial(flattening_at, state))
        if noise_limit is not None:
            energy_noise = update_energy_noise(state.energy_noise, state.chain, chain)
            state = state._replace(energy_noise=energy_noise)
        moved, log_shared = at_chain(state, chain)
        moved = moved._replace(bounded=state.bounded + jnp.where(at_bound, 1, 0))
        if in_stretches:
            return moved
        return moved._replace(
            theta=visits.of_step(state.theta, moved.energy_bin, log_shared, chain)
        )

    def observe(state: ContourSamplerState) -> ContourDraw:
        chain = state.chain
        return ContourDraw(
            chain.position,
            chain.potential_energy,
            state.log_flattening + log_time_weight(chain),
            next_step_size(chain, step_size),
            log_time_weight(chain),
            state.energy_bin,
            state.gradient_multiplier,
        )

    def relocate(state: ContourSamplerState, chain: Chain) -> ContourSamplerState:
        return at_chain(state, chain)[0]

    return Sampler(
        init,
        step,
        observe,
        relocate,
        flattening_at,
        draw=noise_of(diffusion),
        stretches=Stretches(begin_stretch, end_stretch) if in_stretches else None,
    )
