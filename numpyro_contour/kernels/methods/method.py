"""What a method is: its sampler, what the warm-up makes of it, and its states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from numpyro_contour.core.diffusions import Diffusion
from numpyro_contour.core.flattening.psi import Flattening
from numpyro_contour.core.samplers.chain import Chain, PotentialAndGrad, Sampler, evaluate
from numpyro_contour.core.samplers.window import Trace, Window
from numpyro_contour.kernels.methods.plain_state import SGLDState, middle, spread
from numpyro_contour.schedules import Schedule
from numpyro_contour.warmup.stages.plan import (
    ADAPT,
    DESCEND,
    FIND_PARTITION,
    FIND_STEP_SIZE,
    MEASURE_NOISE,
    Plan,
)
from numpyro_contour.warmup.stages.state import end_draw, record_draw


class Setup(NamedTuple):
    """What a method makes its sampler from."""

    diffusion: Diffusion
    step_size: Schedule
    temperature: Schedule
    #: the plan of the warm-up and the warm-up of one chain; None and () where everything is given
    plan: Plan | None
    warmup: Any
    #: number of coordinates
    size: int
    #: whether the step size was found in the warm-up
    finds_step_size: bool
    #: whether the sampler is to make steps on noisy energies
    noisy: bool


class Carried(NamedTuple):
    """What a state carries beside its draw."""

    #: state of the pure sampler
    sampler: Any
    #: random key of the next draw
    rng_key: jax.Array
    warmup: Any
    #: the draw as one vector where its energy is to be computed over all rows, else of length 0
    unconstrained: jax.Array


class Method(ABC):
    """The method around the moves, a value without state. A method defines `sampler` at least."""

    #: how the density is flattened, None where it is not
    flattening: Flattening | None = None
    #: whether an energy partition is found in the warm-up
    finds_partition = False
    #: whether a part of the warm-up is left to what adapts while the sampler runs
    settles = False
    #: whether chains may jump between modes that are known
    jumps = True
    #: the most steps of a draw where nothing is said, so that a thousand draws are a run
    steps_a_draw = 100
    #: whether fewer may be found, from how fast chains forget where they were
    finds_steps = True
    #: the condition number that a diagonal preconditioner has to leave for a dense one to be taken
    #: by default. One mode decides of it, and others that lie differently pay: on two normals of
    #: correlations .9 and -.9, where it is 19, contour crosses with a diagonal only
    turns_from: float = 30.0
    #: the state's fields that are collected for each draw
    fields: tuple[str, ...] = (
        "z",
        "potential_energy_estimate",
        "log_weight",
        "draw_log_weight",
        "step_size",
        "steps",
        "refused",
        "clipped",
    )

    @property
    def settings(self) -> dict[str, Any]:
        """The method's arguments by name."""
        return {}

    def among(self, chains: str) -> Method:
        """The method of chains that run together, along an axis of this name."""
        return self

    @abstractmethod
    def sampler(self, setup: Setup) -> Sampler:
        """The pure sampler."""

    # ------------------------------------------------------------------ what it asks of others

    def check_energy(self, chosen: str | Callable) -> None:  # noqa: B027
        """Refuse an estimator of the energy that the method cannot work with.

        Raises:
            ValueError: with what it takes.
        """

    def check_temperature(self, temperature: Any, schedule: Schedule) -> Schedule:
        """The schedule of the temperature: that of the argument, or one of the method's own.

        Args:
            temperature: the argument as it was given.
            schedule: the same as a schedule.

        Raises:
            ValueError: the method has no meaning at such a temperature.
        """
        return schedule

    # ------------------------------------------------------------------ the warm-up

    def plan(self, finds_step_size: bool, anchors: bool, moves_settle: bool) -> Plan | None:
        """The plan of the warm-up, None where nothing is to be found.

        Args:
            finds_step_size: whether the step size is to be found.
            anchors: whether a descent is needed, for the anchor of a control variate.
            moves_settle: whether a part is left to moves that adapt while they sample.
        """
        if not (finds_step_size or anchors or self.finds_partition):
            return None
        rows = DESCEND + (FIND_STEP_SIZE if finds_step_size else MEASURE_NOISE)
        if self.finds_partition:
            rows += FIND_PARTITION
        elif self.settles or moves_settle:
            rows += ADAPT
        return Plan.of(rows)

    def to_be_found(self, finds_step_size: bool, anchors: bool) -> list[str]:
        """What the warm-up is to find, as a message names it."""
        names = ["`step_size`"] if finds_step_size else []
        names += ["the anchor of the control variate"] if anchors else []
        return [*names, "`partition`"] if self.finds_partition else names

    def end_warmup_draw(self, plan: Plan, state: Any, trace: Trace, temperature: jax.Array) -> Any:
        """The state after a draw of the warm-up by the sampler, with what the draw teaches.

        Args:
            plan: the plan of the warm-up.
            state: the state of one chain after the draw.
            trace: the steps of the draw.
            temperature: tau.
        """
        warmup, seen = record_draw(plan, state.warmup, *trace)
        return state._replace(warmup=end_draw(warmup, seen, state.sampler.chain.steps, None))

    def trust(self, plan: Plan | None, warmup: Any, energy_is_callable: bool) -> jax.Array | float:
        """How much of what the log weights of a run on noisy energies tell is not noise."""
        return 1.0

    def begin_window(self, sampler: Any) -> Any:
        """The sampler's state before a window of steps."""
        return sampler

    def end_window(
        self, sampler: Any, window: Window, temperature: jax.Array
    ) -> tuple[Any, Window]:
        """The sampler's state and the window after its steps, with what only both can tell."""
        return sampler, window

    # ------------------------------------------------------------------ states

    def state(self, z: Any, window: Window, carried: Carried) -> Any:
        """The public state around a window of steps."""
        return SGLDState(
            z=z,
            potential_energy_estimate=window.draw.potential_energy,
            log_weight=window.log_weight,
            draw_log_weight=window.draw.log_weight,
            step_size=window.draw.step_size,
            sampler=carried.sampler,
            rng_key=carried.rng_key,
            warmup=carried.warmup,
        )

    def raise_energies(self, sampler: Any, rise: jax.Array) -> Any:
        """A sampler's state after the energies of its chain were raised: with all others raised."""
        return sampler

    def visited(self, sampler: Any) -> Chain:
        """The chains that a sampler moves, along a leading axis."""
        return jax.tree.map(lambda x: x[None], sampler.chain)

    def evaluate_anew(self, key: jax.Array, sampler: Any, energy: PotentialAndGrad) -> Any:
        """A sampler's state with energy and gradient evaluated anew where it is."""
        chain = sampler.chain
        found = evaluate(energy, key, chain.position)
        chain = chain._replace(
            potential_energy=found.energy, gradient=found.gradient, energy_noise=found.noise
        )
        return sampler._replace(chain=chain)

    def progress_text(self, state: Any) -> str:
        """The text of the progress bar, of one chain or of all that run together."""
        energy, step_size = state.potential_energy_estimate, state.step_size
        return f"energy {spread(energy, '.1f')}, step size {middle(step_size, '.1e')}"
