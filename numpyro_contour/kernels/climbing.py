"""Contour kernels that are told how high the barriers are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.adaptation.climbing import (
    NUM_BINS,
    renewed_climb,
    tuned_steps,
    unknown_partition,
)
from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.warmup import noted, observed
from numpyro_contour.core.samplers.chain import Sampler
from numpyro_contour.core.samplers.climbing import FLATTENING, ClimbingState, climbing
from numpyro_contour.core.samplers.window import Trace
from numpyro_contour.kernels.contour_base import ContourKernel
from numpyro_contour.kernels.contour_state import ContourState
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.schedules import Constant, robbins_monro

# What the barrier decides, and must not be given beside it: argument and its default.
_DECIDED = {
    "partition": None,
    "theta": None,
    "zeta": None,
    "step_size": None,
    "preconditioner": None,
    "noise": "averaged",
    "interpolation": "forward",
    "one_sided": True,
    "multiplier_bound": -1.0,
    "random_field": "consistent",
    "weight": "consistent",
}


class ClimbingKernel(ContourKernel):
    """A contour kernel with the argument `barrier`, described at `ContourSGLD`."""

    def __init__(
        self,
        model: Callable | None = None,
        potential_fn: Callable | None = None,
        *,
        barrier: float | None = None,
        num_bins: int | None = None,
        zeta: float | None = None,
        **arguments: Any,
    ):
        if barrier is None:
            zeta = 0.75 if zeta is None else zeta
            num_bins = 128 if num_bins is None else num_bins
        else:
            barrier = checks.positive("barrier", barrier)
            for name, default in _DECIDED.items():
                value = zeta if name == "zeta" else arguments.get(name, default)
                same = isinstance(value, str | float | int) and value == default
                if value is not default and not same:
                    raise checks.fail(name, value, f"{default!r} where `barrier` is given")
            zeta = FLATTENING.zeta
            num_bins = NUM_BINS if num_bins is None else num_bins
            num_bins = checks.integer("num_bins", num_bins, at_least=3)
            if arguments.get("gain") is None:
                arguments["gain"] = robbins_monro(num_bins, 1.0, 0.0, maximum=0.5)
            arguments |= {
                name: getattr(FLATTENING, name)
                for name in ("interpolation", "one_sided", "multiplier_bound")
            }
        super().__init__(model, potential_fn, num_bins=num_bins, zeta=zeta, **arguments)
        self._barrier = barrier
        if barrier is not None and not isinstance(self._temperature, Constant):
            takes = "a number where `barrier` is given"
            raise checks.fail("temperature", arguments["temperature"], takes)

    @property
    def settings(self) -> dict[str, Any]:
        """The kernel's settings by the names of its arguments, without its model."""
        settings = super().settings | {"barrier": self._barrier}
        # Its moves have an acceptance, whose noise cannot be averaged over two of them.
        return settings if self._barrier is None else settings | {"noise": "independent"}

    @property
    def _plan(self) -> Plan | None:
        return super()._plan if self._barrier is None else Plan.climbing()

    def _to_be_found(self) -> list[str]:
        if self._barrier is None:
            return super()._to_be_found()
        return ["the step sizes", "theta of `barrier`"]

    def _chosen(self, potential: ModelPotential | None) -> str | Callable:
        chosen = super()._chosen(potential)
        if self._barrier is not None and chosen != "full":
            got = "a callable" if callable(chosen) else repr(chosen)
            raise ValueError(
                "`energy` takes 'full' where `barrier` is given and rows are subsampled, since "
                f"its moves are accepted by exact potential energies, but got {got}."
            )
        return chosen

    def _sampler(self, warmup: Any, z: Any, noisy: bool = False) -> Sampler:
        plan = self._plan
        if self._barrier is None or plan is None:
            return super()._sampler(warmup, z, noisy)
        number = plan.number(warmup.iteration, warmup.length)
        learning = plan.is_one_of(number, "window", "learn")
        return climbing(
            self._temperature,
            self._gain,
            tuned_steps(warmup.tuning, self._temperature(jnp.zeros((), jnp.int32))),
            unknown_partition(self._num_bins),
            learns_steps=learning | plan.is_one_of(number, "pilot"),
            learns_theta=learning | plan.is_one_of(number, "sample"),
            halves_gain=learning,
        )

    def _explored(self, plan: Plan, state: ContourState, trace: Trace) -> ContourState:
        if self._barrier is None:
            return super()._explored(plan, state, trace)
        warmup, seen = observed(
            plan, state.warmup, *trace, lambda energy: self.log_flattening(state, energy)
        )
        tau = self._temperature(state.sampler.chain.steps)
        assert isinstance(state.sampler, ClimbingState)
        sampler = renewed_climb(state.sampler, seen, self._barrier, tau)
        warmup = noted(warmup, seen, sampler.chain.steps, sampler.partition)
        return state._replace(sampler=sampler, warmup=warmup)
