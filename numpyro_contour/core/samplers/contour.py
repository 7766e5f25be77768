"""Contour: any diffusion on the density that the learnt theta flattens."""

from __future__ import annotations

from collections.abc import Callable
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
    log_psi_by_nodes,
    log_psi_of_all_nodes,
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
    Passed,
    PotentialAndGrad,
    Sampler,
    Stretch,
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

    def nodes(self, state: ContourSamplerState) -> jax.Array:
        """Log Psi at all nodes by the theta of a state."""
        at = state.partition, self.temperature(state.chain.steps), self.flattening
        return log_psi_of_all_nodes(state.theta.log_theta, *at)

    def at(
        self,
        state: ContourSamplerState,
        energy: jax.Array,
        count: jax.Array,
        nodes: jax.Array | None = None,
    ) -> _AtEnergy:
        """What the theta of a state makes of an energy after a number of steps.

        Args:
            state: the state.
            energy: the energy.
            count: the number of steps.
            nodes: log Psi at all nodes, if that is known. Defaults to None.
        """
        theta, partition, temperature = state.theta, state.partition, self.temperature(count)
        by = energy, partition, temperature, self.flattening
        psi = log_psi(theta.log_theta, *by) if nodes is None else log_psi_by_nodes(nodes, *by)
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


class _Moves(NamedTuple):
    """How chains move; the fields are the arguments of `contour`."""

    diffusion: Diffusion
    step_size: Schedule
    temperature: Schedule
    by_theta: _ByTheta
    visits: _Visits
    margin: jax.Array | None
    noise_limit: float | None

    def at_chain(
        self, state: ContourSamplerState, chain: Chain
    ) -> tuple[ContourSamplerState, jax.Array]:
        """The state with its chain at a new position, and the log field there, by the old theta."""
        here = self.by_theta.at(state, chain.potential_energy, chain.steps)
        state = state._replace(
            chain=chain,
            energy_bin=here.energy_bin,
            gradient_multiplier=here.psi.gradient_multiplier,
            log_flattening=here.log_flattening,
        )
        return state, here.log_field

    def advanced(
        self,
        keys: jax.Array,
        state: ContourSamplerState,
        potential_and_grad: PotentialAndGrad,
        at: Callable[[jax.Array], _AtEnergy],
        multiplier: jax.Array,
    ) -> ContourSamplerState:
        """The state with its chain moved, by what theta makes of energies."""
        schedules = self.step_size, self.temperature
        moved_by = keys, state.chain, potential_and_grad, self.diffusion, *schedules
        if self.diffusion.accept is not None:

            def flattened(energy: jax.Array) -> tuple[jax.Array, jax.Array]:
                here = at(energy)
                return here.log_flattening, here.psi.gradient_multiplier

            return state._replace(chain=advance_adjusted(*moved_by, flattened))
        variance: jax.Array | float = 0.0
        if self.noise_limit is not None:
            by_energy = lambda energy: at(energy).psi.gradient_multiplier
            of_energy = state.chain.potential_energy, state.energy_noise
            variance = variance_under_noise(by_energy, *of_energy)
        ceiling = None if self.margin is None else state.partition.upper + self.margin
        chain = advance(*moved_by, multiplier, ceiling, variance, self.noise_limit)
        if self.noise_limit is not None:
            noise = update_energy_noise(state.energy_noise, state.chain, chain)
            state = state._replace(energy_noise=noise)
        return state._replace(chain=chain)

    def step(
        self, keys: jax.Array, state: ContourSamplerState, potential_and_grad: PotentialAndGrad
    ) -> ContourSamplerState:
        """The state after one step, from which theta has learnt."""
        count = state.chain.steps
        psi = self.by_theta.at(state, state.chain.potential_energy, count).psi
        at = lambda energy: self.by_theta.at(state, energy, count)
        after = self.advanced(keys, state, potential_and_grad, at, psi.gradient_multiplier)
        moved, log_shared = self.at_chain(after, after.chain)
        theta = self.visits.of_step(state.theta, moved.energy_bin, log_shared, after.chain)
        return moved._replace(theta=theta, bounded=state.bounded + jnp.where(psi.bounded, 1, 0))

    def stretch(self, begun: ContourSamplerState) -> Stretch:
        """Steps by the theta that holds now, which learns from all of them at the end."""
        nodes, steps = self.by_theta.nodes(begun), begun.chain.steps
        before = self.by_theta.at(begun, begun.chain.potential_energy, steps, nodes).psi

        def step(
            keys: jax.Array, state: ContourSamplerState, potential_and_grad: PotentialAndGrad
        ) -> ContourSamplerState:
            count = state.chain.steps
            at = partial(self.by_theta.at, begun, nodes=nodes)
            at_once = partial(at, count=count)
            after = self.advanced(
                keys, state, potential_and_grad, at_once, state.gradient_multiplier
            )
            there = at(after.chain.potential_energy, count + 1).psi
            return after._replace(gradient_multiplier=there.gradient_multiplier)

        def end(
            state: ContourSamplerState, seen: Passed
        ) -> tuple[ContourSamplerState, ContourDraw]:
            counts = steps + 1 + jnp.arange(seen.accepted.shape[0])
            at = jax.vmap(partial(self.by_theta.at, begun, nodes=nodes))
            here = at(seen.potential_energy, counts)
            log_time = seen.log_time_weight
            draws = ContourDraw(
                seen.position,
                seen.potential_energy,
                here.log_flattening + log_time,
                jax.vmap(self.step_size)(counts) * seen.step_scale,
                log_time,
                here.energy_bin,
                here.psi.gradient_multiplier,
            )
            visited = here.energy_bin, here.log_field, counts, seen.accepted, seen.energy_noise
            # A step has the multiplier of the place that it leaves.
            at_bound = before.bounded + jnp.sum(here.psi.bounded[:-1])
            return state._replace(
                theta=self.visits.of_stretch(begun.theta, *visited),
                energy_bin=here.energy_bin[-1],
                log_flattening=here.log_flattening[-1],
                bounded=begun.bounded + at_bound,
            ), draws

        return Stretch(begun._replace(gradient_multiplier=before.gradient_multiplier), step, end)


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
    moves = _Moves(diffusion, step_size, temperature, by_theta, visits, margin, noise_limit)

    def flattening_at(state: ContourSamplerState, energy: jax.Array) -> tuple[jax.Array, jax.Array]:
        """The log weight and the multiplier at an energy, by the theta of the step."""
        here = by_theta.at(state, energy, state.chain.steps)
        return here.log_flattening, here.psi.gradient_multiplier

    def init(
        key: jax.Array, position: Any, potential_and_grad: PotentialAndGrad
    ) -> ContourSamplerState:
        chain = start(key, position, potential_and_grad, diffusion)
        state = _first_state(chain, first_theta, partition)
        return moves.at_chain(state, chain)[0]

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
        return moves.at_chain(state, chain)[0]

    return Sampler(
        init,
        moves.step,
        observe,
        relocate,
        flattening_at,
        draw=noise_of(diffusion),
        stretch=moves.stretch if in_stretches else None,
    )
