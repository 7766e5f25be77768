"""The warm-up of a kernel: what is not given is found before the first draw is kept."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from numpyro_contour import checks
from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.relaxation import (
    RelaxationTimes,
    relaxation_times,
    remember_draw,
)
from numpyro_contour.adaptation.tuning import (
    LARGEST_STEP_SIZE,
    Tuning,
    initial_tuning,
    tuning_step,
)
from numpyro_contour.adaptation.warmup import after_tuning, initial_warmup, noted, observed, place
from numpyro_contour.core.arrays.vectors import ravel, unravel_like
from numpyro_contour.core.diffusions import Diffusion, langevin, rmsprop
from numpyro_contour.core.samplers.chain import Sampler
from numpyro_contour.core.samplers.window import Trace, Window
from numpyro_contour.kernels.energy import EnergyKernel
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.schedules import Schedule


def check_preconditioner(value: Any) -> Any:
    """The argument `preconditioner`."""
    if isinstance(value, str) and value not in ("identity", "rmsprop"):
        raise checks.fail("preconditioner", value, "None, 'identity', 'rmsprop' or a pytree like z")
    if value is not None and not isinstance(value, str):
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(value)]
        if not all(np.all(np.isfinite(leaf) & (leaf > 0)) for leaf in leaves):
            raise checks.fail("preconditioner", value, "finite numbers above 0")
    return value


class TunedKernel(EnergyKernel):
    """The part of `SGMCMCKernel` that concerns the warm-up; all it finds lives in the state."""

    _step_size: Schedule | None
    _preconditioner: Any
    _curvature_correction: bool
    _temperature: Schedule
    _noise: str
    _num_steps: int

    @abstractmethod
    def _sampler(self, warmup: Any, z: Any, noisy: bool = False) -> Sampler:
        """The pure sampler with the kernel's settings and what the warm-up has found.

        Args:
            warmup: the warm-up of one chain.
            z: an unconstrained position.
            noisy: whether it is to make steps on noisy energies.
        """

    @abstractmethod
    def _state(
        self,
        z: Any,
        window: Window,
        sampler_state: Any,
        rng_key: jax.Array,
        warmup: Any,
        unconstrained: jax.Array,
    ) -> Any:
        """The public state around a window."""

    def _with_window(
        self, state: Any, window: Window, sampler_state: Any, rng_key: jax.Array, warmup: Any
    ) -> Any:
        """The public state after a window."""
        position = window.draw.position
        kept = position[: self._unconstrained_size(state)]
        z = unravel_like(position, state.z)
        return self._state(z, window, sampler_state, rng_key, warmup, kept)

    def _trust(self, warmup: Any) -> jax.Array | float:
        """How much of what the log weights of a run on noisy energies tell is not noise."""
        return 1.0

    def _keeps_unconstrained(self, potential: ModelPotential | None) -> bool:
        """Whether draws are kept as vectors too, for passes over all data after the run."""
        return False

    def _unconstrained_size(self, state: Any) -> int:
        """The number of coordinates that are kept of each draw beside its sites."""
        return 0

    #: whether a part of the warm-up is left to what adapts while it samples
    _adapts = False

    @property
    def _plan(self) -> Plan | None:
        """The plan of the warm-up, None where everything is given."""
        return Plan.of(
            self._step_size is None,
            adapts=self._adapts,
            finds_partition=False,
            anchors=self._anchors,
        )

    def _in_warmup(
        self,
        state: Any,
        lift: Callable,
        transition: Callable,
        energy: Callable,
        exact: bool,
        renew_anchor: Callable,
    ) -> Any:
        """The next draw of a kernel with a plan; `lift` makes a function of one chain that of all.

        One decision is made for all chains, which share their plan: a decision of each chain's own
        would run both sides for all of them.
        """
        plan = self._plan
        assert plan is not None

        def explore(state: Any) -> Any:
            moved, window = lift(transition)(state)
            return lax.cond(
                jnp.any(state.warmup.iteration < state.warmup.length),
                lift(lambda state, trace: self._explored(plan, state, trace)),
                lift(self._drawn),
                moved,
                window.trace,
            )

        def tune(state: Any) -> Any:
            tuned = lift(lambda state: self._tuned(plan, state, energy(state.warmup), exact))
            return renew_anchor(state, tuned(state))

        number = lift(plan.number)(state.warmup.iteration, state.warmup.length)
        return lax.cond(
            jnp.any(plan.is_one_of(number, "descent", "tune", "settle")),
            tune,
            explore,
            state,
        )

    def _to_be_found(self) -> list[str]:
        """What the warm-up is to find, as a message names it."""
        names = ["`step_size`"] if self._step_size is None else []
        return [*names, "the anchor of the control variate"] if self._anchors else names

    @property
    def _anchors(self) -> bool:
        """Whether a control variate is asked for by name."""
        return self._energy == "control_variate"

    def _preconditioner_name(self) -> str:
        if isinstance(self._preconditioner, str):
            return self._preconditioner
        if self._preconditioner is not None:
            return "given"
        return "tuned" if self._step_size is None else "identity"

    def _given_preconditioner(self, z: Any) -> jax.Array | None:
        """The diagonal of M if it is given, None if it is 1 or found in warm-up."""
        given = self._preconditioner
        if given is None or isinstance(given, str):
            return None
        if jax.tree.map(jnp.shape, given) != jax.tree.map(jnp.shape, z):
            raise ValueError(
                "`preconditioner` takes None, 'identity' or a pytree of the shapes of z, "
                f"{jax.tree.map(jnp.shape, z)}, but got {jax.tree.map(jnp.shape, given)}."
            )
        return ravel(given).astype(jnp.result_type(float))

    def _initial_warmup(self, z: Any, anchor: Any) -> Any:
        if self._plan is None:
            return ()
        size = ravel(z).shape[0]
        first = None if self._step_size is None else self._step_size(jnp.zeros((), jnp.int32))
        # With a preconditioner of the user's the scale of the steps is the user's too.
        limit = LARGEST_STEP_SIZE if self._preconditioner is None else np.inf
        tuning = initial_tuning(size, self._given_preconditioner(z), first, limit)
        return initial_warmup(self._plan, tuning, anchor)

    def _make_diffusion(
        self, preconditioner: Any, gradient_noise: Any = None, curvature: Any = None
    ) -> Diffusion:
        """The kernel's diffusion; the arguments are those of `diffusions.langevin`."""
        return langevin(self._noise, preconditioner, gradient_noise, curvature)

    def _diffusion(self, warmup: Any, z: Any) -> tuple[Diffusion, Schedule]:
        """The diffusion and the step size, with what the warm-up has found."""
        if self._step_size is None:
            tuning = warmup.tuning
            diffusion = self._make_diffusion(tuning.preconditioner, tuning.gradient_noise)
            return diffusion, lambda count: self._tuned_step_size(tuning, self._temperature(count))
        if isinstance(self._preconditioner, str) and self._preconditioner == "rmsprop":
            diffusion = rmsprop(
                lambda m, c: self._make_diffusion(m, None, c), curvature=self._curvature_correction
            )
            return diffusion, self._step_size
        return self._make_diffusion(self._given_preconditioner(z)), self._step_size

    def _tuned_step_size(self, tuning: Tuning, temperature: jax.Array) -> jax.Array:
        """The step size of the kernel's diffusion, from that of the Langevin steps of tuning."""
        return jnp.exp(tuning.step_size.log_average)

    def _reach(self, tuning: Tuning, temperature: jax.Array) -> tuple[jax.Array, jax.Array | float]:
        """The Langevin step size that goes as far in the long run, and a limit of forgetting.

        The limit is the largest share of its place that a chain can forget in a step.
        """
        return self._tuned_step_size(tuning, temperature), 1.0

    def _tuned(self, plan: Plan, state: Any, energy: Any, exact: bool) -> Any:
        """A draw of descent or tuning."""
        rng_key, key = random.split(state.rng_key)
        here = place(plan, state.warmup)
        descending = plan.is_one_of(here.number, "descent")
        searching = plan.is_one_of(here.number, "tune")
        steps = self._num_steps

        def step(carry: tuple, inputs: tuple) -> tuple[tuple, None]:
            keys, number = inputs
            progress = (here.since * steps + number) / (here.total * steps)
            chain, tuning = carry
            tau = self._temperature(chain.steps)
            moved = tuning_step(
                *(keys, chain, tuning, energy, tau, descending, progress, searching, exact)
            )
            return moved, None

        keys = random.split(key, (steps, 2))
        carry = (state.sampler.chain, state.warmup.tuning)
        (chain, tuning), _ = lax.scan(step, carry, (keys, jnp.arange(steps)))
        warmup = after_tuning(
            plan,
            state.warmup,
            tuning,
            self._temperature(chain.steps),
            chain.steps,
            keep_preconditioner=self._preconditioner is not None,
            keep_step_size=self._step_size is not None,
        )
        sampler = self._sampler(warmup, state.z)
        sampler_state = sampler.relocate(state.sampler, chain)
        drawn = sampler.observe(sampler_state)
        window = Window(drawn, drawn.log_weight)
        return self._with_window(state, window, sampler_state, rng_key, warmup)

    def _explored(self, plan: Plan, state: Any, trace: Trace) -> Any:
        """The state after a draw of the warm-up at the final step size."""
        warmup, seen = observed(plan, state.warmup, *trace)
        return state._replace(warmup=noted(warmup, seen, state.sampler.chain.steps, None))

    def _drawn(self, state: Any, trace: Trace) -> Any:
        """The state after a draw that is kept: what the steps of a found size have covered."""
        if self._step_size is not None:
            return state
        tuning = remember_draw(state.warmup.tuning, state.sampler.chain.position)
        return state._replace(warmup=state.warmup._replace(tuning=tuning))

    def relaxation_times(self, state: Any) -> RelaxationTimes | None:
        """Relaxation times of one chain's coordinates, and the shares of noise in their steps.

        None where the step size was given. See `adaptation.relaxation.relaxation_times`.
        """
        if self._step_size is not None:
            return None
        tuning = state.warmup.tuning
        temperature = self._temperature(state.sampler.chain.steps)
        reach = self._reach(tuning, temperature)
        return relaxation_times(tuning, self._num_steps, temperature, *reach)

    def stage_names(self) -> tuple[str, ...]:
        """The stages of the warm-up in their order; none where everything is given."""
        return () if self._plan is None else self._plan.stages

    def _stage_text(self, state: Any) -> str:
        """The stage of the warm-up for the progress bar, nothing after it."""
        if self._plan is None or int(state.warmup.iteration) >= int(state.warmup.length):
            return ""
        return f"{self._plan.stages[int(place(self._plan, state.warmup).number)]}, "
