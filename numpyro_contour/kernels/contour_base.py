"""What contour kernels share: any diffusion on the flattened density as a NumPyro kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour import checks
from numpyro_contour.adaptation.energies import BIN_WIDTH
from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.warmup import noted, observed, renewed
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.core.flattening.psi import (
    INTERPOLATIONS,
    NODE_OFFSETS,
    WEIGHTS,
    Flattening,
    log_flattening,
    log_psi,
    log_psi_at_nodes,
)
from numpyro_contour.core.flattening.theta import known_theta
from numpyro_contour.core.flattening.theta_updates import RANDOM_FIELDS
from numpyro_contour.core.samplers.chain import Sampler
from numpyro_contour.core.samplers.contour import ContourSamplerState, contour
from numpyro_contour.core.samplers.window import Trace, Window
from numpyro_contour.kernels.base import SGMCMCKernel
from numpyro_contour.kernels.contour_state import ContourState
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.schedules import Schedule, check_positive_temperature, robbins_monro

# Moves may rise above the top of a partition that was found by so many sds of the energy's noise,
# and by so many nats more than there are coordinates.
_NOISE_MARGIN = 4.0
_LEAST_MARGIN = 20.0


class ContourKernel(SGMCMCKernel):
    """Base of the contour kernels: any diffusion on the flattened density.

    A kernel with another diffusion defines `_make_diffusion`, or has a base that does before it.

    Args:
        partition, num_bins, zeta, gain, interpolation, one_sided: as for `ContourSGLD`.
        multiplier_bound, random_field, rho, weight, theta: as for `ContourSGLD`.
        collect_theta, temperature: as for `ContourSGLD`.
        model, potential_fn, step_size, preconditioner, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise: as for `SGLD`.
        init_strategy, chunk_bytes: as for `SGLD`.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Example:
        >>> from numpyro_contour.kernels.contour_base import ContourKernel
        >>> from numpyro_contour.kernels.momentum import Underdamped
        >>> class MyContourSGHMC(Underdamped, ContourKernel):
        ...     pass
        >>> kernel = MyContourSGHMC(potential_fn=lambda x: x**2 / 2, momentum=0.8)
        >>> kernel.settings["momentum"], kernel.settings["zeta"]
        (0.8, 0.75)
    """

    #: width of a bin of a partition that is found, in standard deviations of the energy
    _bin_width = BIN_WIDTH

    def __init__(
        self,
        model: Callable | None = None,
        potential_fn: Callable | None = None,
        *,
        partition: EnergyPartition | None = None,
        num_bins: int = 128,
        zeta: float = 0.75,
        gain: Schedule | None = None,
        interpolation: str = "forward",
        one_sided: bool = True,
        multiplier_bound: float | None = -1.0,
        random_field: str = "consistent",
        rho: float = 1.0,
        weight: str = "consistent",
        theta: Any = None,
        collect_theta: bool = True,
        **arguments: Any,
    ):
        super().__init__(model, potential_fn, **arguments)
        if partition is not None and not isinstance(partition, EnergyPartition):
            raise checks.fail("partition", partition, "None or an EnergyPartition")
        check_positive_temperature(arguments.get("temperature", 1.0))
        if multiplier_bound is not None:
            multiplier_bound = checks.number("multiplier_bound", multiplier_bound)
            if multiplier_bound >= 1:
                raise checks.fail("multiplier_bound", multiplier_bound, "a number below 1 or None")
        self._partition = partition
        self._num_bins = checks.integer("num_bins", num_bins, at_least=3)
        if partition is not None:
            self._num_bins = partition.num_bins
        self._gain = robbins_monro() if gain is None else checks.function("gain", gain)
        self._flattening = Flattening(
            checks.non_negative("zeta", zeta),
            checks.one_of("interpolation", interpolation, INTERPOLATIONS),
            checks.boolean("one_sided", one_sided),
            multiplier_bound,
        )
        self._random_field = checks.one_of("random_field", random_field, RANDOM_FIELDS)
        self._rho = checks.non_negative("rho", rho)
        self._weight = checks.one_of("weight", weight, WEIGHTS)
        if theta is not None:
            if partition is None:
                raise checks.fail("partition", None, "an EnergyPartition where `theta` is given")
            theta = known_theta(theta, self._num_bins)
        self._theta = theta
        self._collect_theta = checks.boolean("collect_theta", collect_theta)

    @property
    def default_fields(self) -> tuple[str, ...]:
        """The state fields that are collected for each draw."""
        fields = (
            "z",
            "potential_energy_estimate",
            "log_weight",
            "draw_log_weight",
            "log_time_weight",
            "energy_bin",
            "gradient_multiplier",
            "step_size",
            "lowest_energy",
            "highest_energy",
            "steps",
            "refused",
            "clipped",
            "bounded",
            "unconstrained",
        )
        return (*fields, "log_theta") if self._collect_theta else fields

    @property
    def settings(self) -> dict[str, Any]:
        """The kernel's settings by the names of its arguments, without its model."""
        shape = self._flattening
        return super().settings | {
            "zeta": shape.zeta,
            "num_bins": self._num_bins,
            "gain": self._gain,
            "interpolation": shape.interpolation,
            "one_sided": shape.one_sided,
            "multiplier_bound": shape.multiplier_bound,
            "random_field": self._random_field,
            "rho": self._rho,
            "weight": self._weight,
            "theta": "learnt" if self._theta is None else "given",
        }

    @property
    def _plan(self) -> Plan | None:
        return Plan.of(
            self._step_size is None,
            adapts=True,
            finds_partition=self._partition is None,
            anchors=self._anchors,
        )

    def _to_be_found(self) -> list[str]:
        partition = ["`partition`"] if self._partition is None else []
        return super()._to_be_found() + partition

    def _sampler(self, warmup: Any, z: Any, noisy: bool = False) -> Sampler:
        diffusion, step_size = self._diffusion(warmup, z)
        partition, gain = self._partition, self._gain
        if partition is None:
            # Theta stays uniform, and nothing is flattened, until the pilot has found the bins.
            partition = EnergyPartition(0.0, float(self._num_bins), self._num_bins)
        margin = None
        if self._plan is not None:
            learns = self._learns(warmup)
            gain = self._gain_after(warmup, learns)
            if self._partition is None:
                margin = jnp.where(learns, self._margin(warmup, z), jnp.inf)
        return contour(
            diffusion,
            step_size,
            self._temperature,
            partition,
            gain,
            self._flattening,
            self._random_field,
            self._weight,
            margin,
            noisy and self._plan is not None,
            self._rho,
            self._theta,
        )

    def _margin(self, warmup: Any, z: Any) -> jax.Array:
        """How far above the top of a partition that was found moves may rise, in nats."""
        # A pilot of a few steps may have seen almost no spread, which must not fence the chain in.
        spread = self._temperature(warmup.gain_origin) * (_LEAST_MARGIN + ravel(z).shape[0])
        return spread + _NOISE_MARGIN * jnp.sqrt(warmup.tuning.energy_noise)

    def _learns(self, warmup: Any) -> jax.Array:
        """Whether theta is updated: not before the partition is known."""
        plan = self._plan
        assert plan is not None
        number = plan.number(warmup.iteration, warmup.length)
        return plan.is_one_of(number, "window", "learn", "sample")

    def _gain_after(self, warmup: Any, learns: jax.Array) -> Schedule:
        """The gain, whose count begins where theta is first updated."""

        def gain(count: jax.Array) -> jax.Array:
            value = self._gain(jnp.maximum(count - warmup.gain_origin, 1))
            return jnp.where(learns, value, 0.0)

        return gain

    def _explored(self, plan: Plan, state: ContourState, trace: Trace) -> ContourState:
        sampler = state.sampler
        warmup, seen = observed(plan, state.warmup, *trace)
        if self._partition is None:
            assert isinstance(sampler, ContourSamplerState)
            partition, theta = renewed(
                *(warmup, seen, sampler.partition, sampler.theta, self._bin_width)
            )
            sampler = sampler._replace(partition=partition, theta=theta)
        warmup = noted(warmup, seen, sampler.chain.steps, sampler.partition)
        return state._replace(sampler=sampler, warmup=warmup)

    def log_flattening(self, state: ContourState, energy: jax.Array) -> jax.Array:
        """The log weight of potential energies by the theta of one chain.

        Args:
            state: the state of one chain.
            energy: potential energies in nats, (n,).

        Returns:
            Log weights, (n,), up to a constant of the chain.
        """
        sampler = state.sampler
        tau = self._temperature(sampler.chain.steps)

        def weigh(u: jax.Array) -> jax.Array:
            psi = log_psi(sampler.theta.log_theta, u, sampler.partition, tau, self._flattening)
            energy_bin = sampler.partition.index(u)
            return log_flattening(sampler.theta, psi, energy_bin, self._flattening, self._weight)

        return jax.vmap(weigh)(energy)

    def log_psi_nodes(self, state: ContourState, log_theta: jax.Array) -> jax.Array:
        """Log Psi at the nodes of the bins.

        Args:
            state: the state of one chain, for its partition and temperature.
            log_theta: log theta of that chain at any time, (num_bins,).

        Returns:
            Log Psi, (num_bins,), at the node of each bin.
        """
        sampler = state.sampler
        tau = self._temperature(sampler.chain.steps)
        places = jnp.arange(log_theta.shape[-1])
        return log_psi_at_nodes(log_theta, places, sampler.partition, tau, self._flattening)

    @property
    def node_offset(self) -> float:
        """Distance from a bin's left edge to its node in bin widths, 0, 0.5 or 1."""
        return NODE_OFFSETS[self._flattening.interpolation]

    def _trust(self, warmup: Any) -> jax.Array | float:
        """The share of the variance of the energies that is not noise; 0 before it is known."""
        if self._plan is None:
            # Nothing was measured: minibatches are mostly noise, potentials of one's own are not.
            return 1.0 if callable(self._energy) else 0.0
        variance = warmup.history.energy_sd[-1] ** 2
        share = jnp.clip(1 - warmup.tuning.energy_noise / variance, 0.0, 1.0)
        return jnp.nan_to_num(share)

    def _keeps_unconstrained(self, potential: ModelPotential | None) -> bool:
        return potential is not None and self._chosen(potential) != "full"

    def _unconstrained_size(self, state: ContourState) -> int:
        return state.unconstrained.shape[-1]

    def _shifted(self, sampler: ContourSamplerState, rise: jax.Array) -> ContourSamplerState:
        """With a partition of the user's moved along; one to be found does not exist yet."""
        if self._partition is None:
            return sampler
        edges = sampler.partition.lower + rise, sampler.partition.upper + rise
        partition = EnergyPartition.tree_unflatten(sampler.partition.num_bins, edges)
        return sampler._replace(partition=partition)

    def _state(
        self,
        z: Any,
        window: Window,
        sampler_state: Any,
        rng_key: jax.Array,
        warmup: Any,
        unconstrained: jax.Array,
    ) -> ContourState:
        return ContourState(
            z=z,
            potential_energy_estimate=window.draw.potential_energy,
            log_weight=window.log_weight,
            draw_log_weight=window.draw.log_weight,
            log_time_weight=window.draw.log_time_weight,
            energy_bin=window.draw.energy_bin,
            gradient_multiplier=window.draw.gradient_multiplier,
            step_size=window.draw.step_size,
            lowest_energy=window.lowest_energy,
            highest_energy=window.highest_energy,
            sampler=sampler_state,
            rng_key=rng_key,
            unconstrained=unconstrained,
            warmup=warmup,
        )

    def get_diagnostics_str(self, state: ContourState) -> str:
        """The text of the progress bar."""
        visited = np.mean(np.asarray(state.sampler.theta.bin_counts) > 0)
        return (
            f"{self._stage_text(state)}energy {float(state.potential_energy_estimate):.1f}, "
            f"step size {float(state.step_size):.1e}, "
            f"multiplier {float(state.gradient_multiplier):.2f}, "
            f"bins visited {visited:.0%}"
        )
