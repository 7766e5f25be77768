"""The climbing method: Metropolis-adjusted moves up to barriers of a stated height."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from numpyro_contour import checks
from numpyro_contour.core.samplers.chain import Sampler
from numpyro_contour.core.samplers.climbing import FLATTENING, ClimbingState, climbing
from numpyro_contour.core.samplers.window import Trace, Window
from numpyro_contour.kernels.methods.contour_state import (
    ContourState,
    contour_fields,
    contour_progress_text,
    contour_state,
    log_flattening_at,
)
from numpyro_contour.kernels.methods.method import Carried, Method, Setup
from numpyro_contour.schedules import Constant, Schedule, check_positive_temperature, robbins_monro
from numpyro_contour.warmup.stages.climb import (
    NUM_BINS,
    renewed_climb,
    tuned_steps,
    unknown_partition,
)
from numpyro_contour.warmup.stages.plan import CLIMB, Plan
from numpyro_contour.warmup.stages.state import end_draw, progress, record_draw

# What the barrier decides, and must not be given beside it: argument and its default.
_DECIDED = {
    "partition": None,
    "theta": None,
    "zeta": None,
    "step_size": None,
    "preconditioner": None,
    "noise": "averaged",
    "adjusted": False,
    "interpolation": "forward",
    "one_sided": True,
    "multiplier_bound": -1.0,
    "random_field": "consistent",
    "weight": "consistent",
}

# What else says the same as a default: the scales of a climb are by coordinate.
_SAME = {"preconditioner": "diag"}

# A warm-up has a stage for each of its rows, and learns theta from nothing.
_LEAST_WARMUP = 50


@dataclass(frozen=True)
class Climbing(Method):
    """Moves that climb to barriers of a stated height; the arguments are those of `ContourSGLD`."""

    #: how many nats the barriers are above typical energies
    barrier: float
    #: bins from below typical energies to above the barriers
    num_bins: int = NUM_BINS
    #: the gain after the warm-up in nats a visit; None for m / k with m bins
    gain: Schedule | None = None
    #: without effect here, as theta is learnt by another rule
    rho: float = 1.0
    #: whether log theta is collected for each draw
    collect_theta: bool = True

    flattening = FLATTENING
    finds_partition = True
    steps_a_draw = 200
    finds_steps = False
    settles = True
    turns_from = float("inf")  # its steps are by coordinate of the position

    def __post_init__(self) -> None:
        barrier = checks.positive("barrier", self.barrier)
        num_bins = checks.integer("num_bins", self.num_bins, at_least=3)
        gain = self.gain
        if gain is None:
            gain = robbins_monro(num_bins, 1.0, 0.0, maximum=0.5)
        checks.function("gain", gain)
        rho = checks.non_negative("rho", self.rho)
        checks.boolean("collect_theta", self.collect_theta)
        checked = {"barrier": barrier, "num_bins": num_bins, "gain": gain, "rho": rho}
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def fields(self) -> tuple[str, ...]:  # type: ignore[override]
        """The state's fields that are collected for each draw."""
        return contour_fields(self.collect_theta)

    @property
    def settings(self) -> dict[str, Any]:
        """The method's arguments by name, with those that the barrier decides."""
        return {
            "zeta": FLATTENING.zeta,
            "num_bins": self.num_bins,
            "gain": self.gain,
            "interpolation": FLATTENING.interpolation,
            "one_sided": FLATTENING.one_sided,
            "multiplier_bound": FLATTENING.multiplier_bound,
            "random_field": "consistent",
            "rho": self.rho,
            "weight": "consistent",
            "theta": "learnt",
            "barrier": self.barrier,
            # Its moves have an acceptance, whose noise cannot be averaged over two of them.
            "noise": "independent",
            "adjusted": True,
        }

    def check_energy(self, chosen: str | Callable) -> None:
        """Refuse energies that are not exact: moves are accepted by them."""
        if chosen != "full":
            got = "a callable" if callable(chosen) else repr(chosen)
            raise ValueError(
                "`energy` takes 'full' where `barrier` is given and rows are subsampled, since "
                f"its moves are accepted by exact potential energies, but got {got}."
            )

    def check_temperature(self, temperature: Any, schedule: Schedule) -> Schedule:
        """The temperature, which must be a number above 0."""
        check_positive_temperature(temperature)
        if not isinstance(schedule, Constant):
            takes = "a number where `barrier` is given"
            raise checks.fail("temperature", temperature, takes)
        return schedule

    def plan(self, finds_step_size: bool, anchors: bool, moves_settle: bool) -> Plan | None:
        """The plan of the warm-up."""
        return Plan.of(CLIMB, least=_LEAST_WARMUP)

    def to_be_found(self, finds_step_size: bool, anchors: bool) -> list[str]:
        """What the warm-up is to find, as a message names it."""
        return ["the step sizes", "theta of `barrier`"]

    def sampler(self, setup: Setup) -> Sampler:
        """The pure sampler."""
        plan, warmup, gain = setup.plan, setup.warmup, self.gain
        assert plan is not None
        assert gain is not None
        number = progress(plan, warmup).number
        flattens = plan.flag("flattens", number)
        warms_up = number < len(plan.stages)
        return climbing(
            setup.temperature,
            gain,
            tuned_steps(warmup.tuning, setup.temperature(jnp.zeros((), jnp.int32))),
            unknown_partition(self.num_bins),
            learns_steps=warms_up & ~plan.flag("measures", number),
            learns_theta=flattens,
            halves_gain=flattens & warms_up,
        )

    def end_warmup_draw(
        self, plan: Plan, state: ContourState, trace: Trace, temperature: jax.Array
    ) -> ContourState:
        """The state after a draw of the warm-up, with the bins that its stage has found."""

        def log_psi(energy: jax.Array) -> jax.Array:
            return log_flattening_at(state, energy, temperature, self.flattening)

        warmup, seen = record_draw(plan, state.warmup, *trace, log_psi)
        assert isinstance(state.sampler, ClimbingState)
        sampler = renewed_climb(state.sampler, seen, self.barrier, temperature)
        warmup = end_draw(warmup, seen, sampler.chain.steps, sampler.partition)
        return state._replace(sampler=sampler, warmup=warmup)

    def state(self, z: Any, window: Window, carried: Carried) -> ContourState:
        """The public state around a window of steps."""
        return contour_state(z, window, carried)

    def progress_text(self, state: ContourState) -> str:
        """The text of the progress bar, of one chain or of all that run together."""
        return contour_progress_text(state)


def climbing_instead_of(barrier: float, arguments: dict[str, Any]) -> Climbing:
    """The climbing method of a kernel whose other arguments are these.

    Raises:
        ValueError: one of them is decided by the barrier.
    """
    barrier = checks.positive("barrier", barrier)
    for name, default in _DECIDED.items():
        value = arguments.get(name, default)
        allowed = [default, *([_SAME[name]] if name in _SAME else [])]
        same = isinstance(value, str | float | int) and value in allowed
        if value is not default and not same:
            takes = " or ".join(map(repr, allowed))
            raise checks.fail(name, value, f"{takes} where `barrier` is given")
    own = {
        name: arguments[name]
        for name in ("num_bins", "gain", "rho", "collect_theta")
        if name in arguments
    }
    return Climbing(barrier, **own)
