"""The contour method: any moves on the density flattened by the learnt theta."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.core.flattening.normaliser import (
    initial_mean_theta,
    log_normaliser,
    update_mean_theta,
)
from numpyro_contour.core.flattening.psi import INTERPOLATIONS, WEIGHTS, Flattening
from numpyro_contour.core.flattening.shared_theta import of_first_chain
from numpyro_contour.core.flattening.theta import known_theta
from numpyro_contour.core.flattening.theta_updates import RANDOM_FIELDS
from numpyro_contour.core.samplers.chain import Sampler
from numpyro_contour.core.samplers.contour import ContourSamplerState, contour
from numpyro_contour.core.samplers.window import Trace, Window
from numpyro_contour.kernels.methods.contour_state import (
    ContourState,
    contour_fields,
    contour_progress_text,
    contour_state,
    log_flattening_at,
)
from numpyro_contour.kernels.methods.method import Carried, Method, Setup
from numpyro_contour.schedules import Schedule, check_positive_temperature, robbins_monro
from numpyro_contour.warmup.stages.energies import pooled
from numpyro_contour.warmup.stages.flatten import (
    BIN_WIDTH,
    bins_in_use,
    credible,
    gain_since,
    renew_partition,
)
from numpyro_contour.warmup.stages.plan import Plan
from numpyro_contour.warmup.stages.state import end_draw, progress, record_draw
from numpyro_contour.warmup.stages.steps_that_fit import with_lower_step
from numpyro_contour.warmup.stages.tuning import bearable_noise

# Moves may rise above the top of a partition that was found by so many sds of the energy's noise,
# and by so many nats more than there are coordinates.
_NOISE_MARGIN = 4.0
_LEAST_MARGIN = 20.0


@dataclass(frozen=True)
class Contour(Method):
    """Moves on the flattened density; the arguments are those of `ContourSGLD`."""

    #: the energy partition; None to find it in the warm-up
    partition: EnergyPartition | None = None
    #: bins of a partition that is found
    num_bins: int = 128
    #: how much is flattened
    zeta: float = 0.75
    #: schedule of the stochastic approximation; None for `robbins_monro()`
    gain: Schedule | None = None
    #: where log theta of a bin stands, "forward", "midpoint" or "backward"
    interpolation: str = "forward"
    #: whether Psi never rises with the energy
    one_sided: bool = True
    #: lower bound of the gradient multiplier, or None
    multiplier_bound: float | None = -1.0
    #: update of theta, "consistent", "csgld", "scalable" or "penalized"
    random_field: str = "consistent"
    #: the penalty of "penalized"
    rho: float = 1.0
    #: "consistent" or "piecewise"
    weight: str = "consistent"
    #: known probabilities of the bins; None to learn them
    theta: Any = None
    #: whether log theta is collected for each draw
    collect_theta: bool = True
    #: width of a bin of a partition that is found, in standard deviations of the energy
    bin_width: float = BIN_WIDTH
    #: whether chains that run together share theta and the partition
    shares_theta: bool = False
    #: the name of the axis of such chains, which the kernel gives; None for a chain alone
    chains: str | None = None
    #: zeta and the shape of Psi, from the arguments above
    flattening: Flattening = field(init=False, repr=False)

    settles = True
    steps_a_draw = 200

    def __post_init__(self) -> None:
        partition, bound = self.partition, self.multiplier_bound
        if partition is not None and not isinstance(partition, EnergyPartition):
            raise checks.fail("partition", partition, "None or an EnergyPartition")
        if bound is not None:
            bound = checks.number("multiplier_bound", bound)
            if bound >= 1:
                raise checks.fail("multiplier_bound", bound, "a number below 1 or None")
        num_bins = checks.integer("num_bins", self.num_bins, at_least=3)
        if partition is not None:
            num_bins = partition.num_bins
        gain = robbins_monro() if self.gain is None else checks.function("gain", self.gain)
        flattening = Flattening(
            checks.non_negative("zeta", self.zeta),
            checks.one_of("interpolation", self.interpolation, INTERPOLATIONS),
            checks.boolean("one_sided", self.one_sided),
            bound,
        )
        checks.one_of("random_field", self.random_field, RANDOM_FIELDS)
        rho = checks.non_negative("rho", self.rho)
        checks.one_of("weight", self.weight, WEIGHTS)
        theta = self.theta
        if theta is not None:
            if partition is None:
                raise checks.fail("partition", None, "an EnergyPartition where `theta` is given")
            theta = known_theta(theta, num_bins)
        checks.boolean("collect_theta", self.collect_theta)
        checks.boolean("shares_theta", self.shares_theta)
        checked = {"num_bins": num_bins, "gain": gain, "flattening": flattening, "rho": rho}
        for name, value in (checked | {"theta": theta}).items():
            object.__setattr__(self, name, value)

    @property
    def finds_partition(self) -> bool:  # type: ignore[override]
        """Whether an energy partition is found in the warm-up."""
        return self.partition is None

    @property
    def fields(self) -> tuple[str, ...]:  # type: ignore[override]
        """The state's fields that are collected for each draw."""
        return contour_fields(self.collect_theta)

    @property
    def settings(self) -> dict[str, Any]:
        """The method's arguments by name."""
        return {
            "zeta": self.flattening.zeta,
            "num_bins": self.num_bins,
            "gain": self.gain,
            "interpolation": self.flattening.interpolation,
            "one_sided": self.flattening.one_sided,
            "multiplier_bound": self.flattening.multiplier_bound,
            "random_field": self.random_field,
            "rho": self.rho,
            "weight": self.weight,
            "theta": "learnt" if self.theta is None else "given",
            "barrier": None,
            "shares_theta": self.shares_theta,
        }

    def check_temperature(self, temperature: Any, schedule: Schedule) -> Schedule:
        """The temperature, which must be above 0 at the start."""
        check_positive_temperature(temperature)
        return schedule

    def among(self, chains: str) -> Contour:
        """The method of chains that run together, along an axis of this name."""
        return replace(self, chains=chains) if self.shares_theta and self.theta is None else self

    def sampler(self, setup: Setup) -> Sampler:
        """The pure sampler."""
        partition, gain, margin = self.partition, self.gain, None
        if partition is None:
            # Theta stays uniform, and nothing is flattened, until the pilot has found the bins.
            partition = EnergyPartition(0.0, float(self.num_bins), self.num_bins)
        assert gain is not None
        if setup.plan is not None:
            number = progress(setup.plan, setup.warmup).number
            flattens = setup.plan.flag("flattens", number)
            gain = gain_since(gain, setup.warmup.gain_origin, flattens)
            if self.partition is None:
                margin = jnp.where(flattens, _margin(setup), jnp.inf)
        return contour(
            setup.diffusion,
            setup.step_size,
            setup.temperature,
            partition,
            gain,
            self.flattening,
            self.random_field,
            self.weight,
            margin,
            bearable_noise(setup.size) if setup.noisy and setup.plan is not None else None,
            self.rho,
            self.theta,
            self.chains,
            in_stretches=self.random_field != "penalized" and self.chains is None,
        )

    def end_warmup_draw(
        self, plan: Plan, state: ContourState, trace: Trace, temperature: jax.Array
    ) -> ContourState:
        """The state after a draw of the warm-up, with the partition that its stage has found."""
        sampler = state.sampler
        clipped = sampler.chain.guard.clipped
        lowered = with_lower_step(plan, state.warmup, clipped, len(trace.potential_energy))

        def log_psi(energy: jax.Array) -> jax.Array:
            return log_flattening_at(state, energy, temperature, self.flattening)

        warmup, seen = record_draw(plan, lowered, *trace, log_psi)
        found = credible(seen.found, warmup.pilot, seen.renews)
        seen = seen._replace(found=found)
        if self.partition is None:
            assert isinstance(sampler, ContourSamplerState)
            # The low end never rises: what lies below the partition is not flattened.
            found, pilot_sd = found._replace(low=warmup.low), warmup.pilot.sd
            if self.chains is not None:
                found, pilot_sd = pooled(found, pilot_sd, warmup.anchors, self.chains)
            partition, theta = renew_partition(
                found,
                warmup.energies,
                warmup.length * len(trace.potential_energy),
                pilot_sd,
                seen.is_pilot,
                seen.renews,
                sampler.partition,
                sampler.theta,
                self.bin_width,
                self.chains,
            )
            # The mean begins anew with the bins.
            blank = initial_mean_theta(theta.log_theta)
            mean = tree_where(seen.renews, blank, sampler.mean_theta)
            sampler = sampler._replace(partition=partition, theta=theta, mean_theta=mean)
            in_use = bins_in_use(partition, warmup.low, self.bin_width)
        else:
            in_use = sampler.partition
        warmup = end_draw(warmup, seen, sampler.chain.steps, in_use)
        return state._replace(sampler=sampler, warmup=warmup)

    def begin_window(self, sampler: ContourSamplerState) -> ContourSamplerState:
        """The sampler's state before a window; chains that share theta take the first one's."""
        if self.chains is None:
            return sampler
        theta, mean = sampler.theta, sampler.mean_theta
        learnt = theta.log_theta, theta.decay, mean
        log_theta, decay, mean = of_first_chain(learnt, self.chains)
        theta = theta._replace(log_theta=log_theta, decay=decay)
        return sampler._replace(theta=theta, mean_theta=mean)

    def end_window(
        self, sampler: Any, window: Window, temperature: jax.Array
    ) -> tuple[Any, Window]:
        """The window with its weights times the normaliser of its theta, where that moves."""
        if self.theta is not None or self.weight != "consistent":
            return sampler, window
        mean = update_mean_theta(sampler.mean_theta, sampler.theta)
        log_z = log_normaliser(mean, sampler.theta, sampler.partition, temperature, self.flattening)
        draw = window.draw._replace(log_weight=window.draw.log_weight + log_z)
        window = window._replace(draw=draw, log_weight=window.log_weight + log_z)
        return sampler._replace(mean_theta=mean, log_normaliser=log_z), window

    def trust(self, plan: Plan | None, warmup: Any, energy_is_callable: bool) -> jax.Array | float:
        """The share of the variance of the energies that is not noise; 0 before it is known."""
        if plan is None:
            # Nothing was measured: minibatches are mostly noise, potentials of one's own are not.
            return 1.0 if energy_is_callable else 0.0
        variance = warmup.history.energy_sd[-1] ** 2
        share = jnp.clip(1 - warmup.tuning.energy_noise / variance, 0.0, 1.0)
        return jnp.nan_to_num(share)

    def raise_energies(self, sampler: ContourSamplerState, rise: jax.Array) -> ContourSamplerState:
        """The state with a partition of the user's raised too; one to be found is not there yet."""
        if self.partition is None:
            return sampler
        edges = sampler.partition.lower + rise, sampler.partition.upper + rise
        partition = EnergyPartition.tree_unflatten(sampler.partition.num_bins, edges)
        return sampler._replace(partition=partition)

    def state(self, z: Any, window: Window, carried: Carried) -> ContourState:
        """The public state around a window of steps."""
        return contour_state(z, window, carried)

    def progress_text(self, state: ContourState) -> str:
        """The text of the progress bar, of one chain or of all that run together."""
        return contour_progress_text(state)


def _margin(setup: Setup) -> jax.Array:
    """How far above the top of a partition that was found moves may rise, in nats."""
    warmup = setup.warmup
    # A pilot of a few steps may have seen almost no spread, which must not fence the chain in.
    spread = setup.temperature(warmup.gain_origin) * (_LEAST_MARGIN + setup.size)
    return spread + _NOISE_MARGIN * jnp.sqrt(warmup.tuning.energy_noise)
