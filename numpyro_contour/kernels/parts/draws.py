"""How one chain starts and makes its draws, from the parts of its kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax import random

from numpyro_contour.core.arrays.decentred import Centring
from numpyro_contour.core.arrays.vectors import ravel, unravel_like
from numpyro_contour.core.samplers.ahead import Ahead
from numpyro_contour.core.samplers.chain import PotentialAndGrad, Sampler
from numpyro_contour.core.samplers.jumps import jumps, no_counts
from numpyro_contour.core.samplers.window import Jumps, Length, Trace, Window, run_window
from numpyro_contour.energies.first_anchors import anchored_on_new_data
from numpyro_contour.kernels.methods.method import Carried, Setup
from numpyro_contour.kernels.parts.jumping import Jumping
from numpyro_contour.kernels.parts.parts import Parts
from numpyro_contour.kernels.parts.start import find_position
from numpyro_contour.models.coordinates import decentred, scales_of
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.rows_ahead import RowsAhead, rows_ahead
from numpyro_contour.modes.found_modes import slots
from numpyro_contour.warmup.stages.draw_length import DrawLength, Limits, by_relaxation, with_draw
from numpyro_contour.warmup.stages.moments import add_draw
from numpyro_contour.warmup.stages.plan import Plan
from numpyro_contour.warmup.stages.relaxation_times import slowest
from numpyro_contour.warmup.stages.state import end_tuning_draw, initial_warmup, progress
from numpyro_contour.warmup.stages.tuning_step import tuning_draw
from numpyro_contour.warmup.stages.turning import with_frames_turned

# Bytes of rows on disk that are read at once, for all chains: of the present and the next steps
# there are as many, in buffers of the host and of the device.
_AT_ONCE = 2**26
# Steps of which a draw is a multiple, where they are found. What theta learns after a stretch of
# steps costs as much as three of them, a try to jump on noisy energies takes eight minibatches, and
# rows on disk are read some steps ahead.
_UNIT, _UNIT_OF_CONTOUR, _UNIT_OF_NOISY, _UNIT_ON_DISK = 5, 10, 20, 50
# The most steps that are made before theta learns from them.
_MOST_AT_ONCE = 10


@dataclass(frozen=True)
class ChainDraws:
    """What one chain does, on the data of one run; made anew whenever a run is traced."""

    parts: Parts
    #: the model's potential energy, None for a potential function
    potential: ModelPotential | None
    #: chains that run together
    chains: int = 1

    @property
    def exact(self) -> bool:
        """Whether potential energies are exact."""
        return self.parts.estimator(self.potential) == "full"

    @property
    def unit(self) -> int:
        """Steps of which each draw is a multiple, with one loop around them."""
        if not self.parts.finds_draw_length(self.parts.estimator(self.potential)):
            return self.parts.num_steps
        if self.rows_ahead is not None:
            return _UNIT_ON_DISK
        if not self.exact:
            return _UNIT_OF_NOISY
        return _UNIT if self.parts.method.flattening is None else _UNIT_OF_CONTOUR

    @property
    def limits(self) -> Limits:
        """What the steps of a draw have to be, where they are found.

        The weight of a draw takes the energy of all rows, which is to cost no more than the draw.
        """
        unit, most = self.unit, self.parts.num_steps
        if self.exact or self.parts.method.flattening is None or self.potential is None:
            return Limits(unit, unit, most)
        sizes = self.potential.plates.sizes.values()
        passes = max((rows / taken for rows, taken in sizes), default=1.0)
        return Limits(unit, min(math.ceil(passes), most), most)

    @property
    def most_at_once(self) -> int:
        """The most steps of a stretch, in which theta stays as it is."""
        return _UNIT_ON_DISK if self.rows_ahead is not None else _MOST_AT_ONCE

    @cached_property
    def rows_ahead(self) -> RowsAhead | None:
        """How minibatches are drawn before their steps, where their rows are on disk."""
        by_rows = self.parts.estimator(self.potential) in ("minibatch", "control_variate")
        return rows_ahead(self.potential) if self.potential is not None and by_rows else None

    def _ahead(self, rng_key: jax.Array) -> Ahead | None:
        """The same for a draw after which the state has this key."""
        if self.rows_ahead is None:
            return None
        at_once = _AT_ONCE // (self.rows_ahead.size * self.chains)
        return Ahead(self.rows_ahead.draw, at_once, random.split(rng_key)[1])

    def start(
        self, centring: Centring | None, rng_key: jax.Array, init_params: Any
    ) -> tuple[Any, jax.Array]:
        """The first state, and whether energy and gradient are finite there."""
        parts, potential, plan = self.parts, self.potential, self.parts.plan
        chosen = parts.estimator(potential)
        rng_key, key_position, key_chain = random.split(rng_key, 3)
        z = find_position(key_position, potential, parts.init_strategy, init_params)
        if potential is not None:
            z = decentred(potential, z, centring)
        warmup: Any = ()
        if plan is not None:
            turns_from, adjusted = parts.method.turns_from, parts.moves.adjusted
            tuning = parts.scaling.initial_tuning(z, turns_from, adjusted)
            warmup = initial_warmup(plan, tuning)
            if parts.finds_draw_length(chosen):
                length = DrawLength(jnp.asarray(parts.num_steps, jnp.int32))
                warmup = warmup._replace(draw_length=length)
            if parts.can_jump(chosen):
                warmup = warmup._replace(jumps=no_counts(slots(ravel(z).shape[0])))
        sampler = self._sampler(warmup, z)
        # There can be no anchor yet.
        first = "minibatch" if chosen == "control_variate" else chosen
        energy = parts.source.on(potential, z, first).of_chains(warmup)(warmup)
        sampler_state = sampler.init(key_chain, ravel(z), energy)
        drawn = sampler.observe(sampler_state)
        keeps = parts.method.flattening is not None and potential is not None
        unconstrained = drawn.position if keeps and chosen != "full" else jnp.zeros((0,))
        carried = Carried(sampler_state, rng_key, warmup, unconstrained)
        state = parts.method.state(z, Window(drawn, drawn.log_weight), carried)
        chain = sampler_state.chain
        return state, jnp.isfinite(chain.potential_energy) & jnp.isfinite(chain.gradient).all()

    def sampled(
        self,
        state: Any,
        energy: PotentialAndGrad,
        length: Length,
        traced: int | None = None,
        jumping: Jumping | None = None,
        telling: PotentialAndGrad | None = None,
    ) -> tuple[Any, Trace | None]:
        """The state after a draw of the method's sampler, and the steps of the draw.

        Args:
            state: the state.
            energy: its `potential_and_grad`.
            length: the steps of the draw.
            traced: as for `run_window`. Defaults to None.
            jumping: the modes that are known, and the tries to jump. None (default) for none.
            telling: the `potential_and_grad` of tries, which tells the noise. None (default) where
                energies are exact.
        """
        parts, warmup = self.parts, state.warmup
        rng_key, key = random.split(state.rng_key)
        setup = self._setup(warmup, state.z, noisy=not self.exact)
        sampler = parts.method.sampler(setup)
        tries = None
        if jumping is not None:
            moved = setup.diffusion, setup.step_size, parts.temperature
            jump = jumps(sampler, *moved, jumping.modes, telling)
            tries = Jumps(jump, jumping.due, warmup.jumps)
        trust: jax.Array | float = 1.0
        if not self.exact:
            trust = parts.method.trust(parts.plan, state.warmup, callable(parts.source.energy))
        sampler_state, window = run_window(
            *(
                key,
                parts.method.begin_window(state.sampler),
                energy,
                sampler,
                length,
                parts.draw,
                trust,
                tries,
                self._ahead(rng_key),
                traced,
            )
        )
        if window.jumped is not None:
            # Those of the warm-up say how to move, those of kept draws how the chain got about.
            ends = warmup.iteration == warmup.length - 1
            counts = jax.tree.map(lambda n: jnp.where(ends, 0, n), window.jumped)
            warmup = warmup._replace(jumps=counts)
        temperature = parts.temperature(sampler_state.chain.steps)
        sampler_state, window = parts.method.end_window(sampler_state, window, temperature)
        return self._after(state, window, sampler_state, rng_key, warmup), window.trace

    def measured_of_all(
        self, plan: Plan, lift: Callable, energy: Callable, states: Any, descends: jax.Array
    ) -> Any:
        """The states of all chains after a draw of descent, tuning or settling."""

        def measured(state: Any) -> Any:
            return self.measured(plan, descends, state, energy(state.warmup))

        after = lift(measured)(states)
        return with_frames_turned(plan, lift, self.parts.temperature, states, after)

    def measured(
        self, plan: Plan, descends: jax.Array, state: Any, energy: PotentialAndGrad
    ) -> Any:
        """The state after a draw of descent, tuning or settling."""
        parts, potential = self.parts, self.potential
        rng_key, key = random.split(state.rng_key)
        chain, tuning = tuning_draw(
            *(key, plan, state.warmup, state.sampler.chain, energy),
            *(parts.temperature, parts.num_steps, self.exact, descends, parts.moves.aims_at),
            ahead=self._ahead(rng_key),
            scale_mask=None if potential is None else scales_of(potential, state.z),
        )
        warmup = end_tuning_draw(
            plan,
            state.warmup,
            tuning,
            parts.temperature(chain.steps),
            chain.steps,
            keep_preconditioner=not parts.scaling.finds_preconditioner,
            keep_step_size=not parts.scaling.is_found,
            adjusted=parts.moves.adjusted,
        )
        if warmup.draw_length:
            warmup = self._with_draw_length(plan, state.warmup, tuning, warmup)
        sampler = self._sampler(warmup, state.z)
        sampler_state = sampler.relocate(state.sampler, chain)
        drawn = sampler.observe(sampler_state)
        window = Window(drawn, drawn.log_weight)
        return self._after(state, window, sampler_state, rng_key, warmup)

    def end_warmup_draw(self, plan: Plan, state: Any, trace: Trace) -> Any:
        """The state after a draw of the sampler in the warm-up, with what it teaches."""
        temperature = self.parts.temperature(state.sampler.chain.steps)
        return self.parts.method.end_warmup_draw(plan, state, trace, temperature)

    def end_mixing_draw(self, state: Any) -> Any:
        """The state after a draw of NumPyro's warm-up in which correlations are measured."""
        warmup = state.warmup
        length, number = warmup.draw_length, warmup.given - warmup.idle
        position, energy = ravel(state.z), state.potential_energy_estimate
        draws = with_draw(length.draws, number, position, energy)
        warmup = warmup._replace(draw_length=length._replace(draws=draws))
        if warmup.jumps:
            none = jax.tree.map(jnp.zeros_like, warmup.jumps)
            warmup = warmup._replace(jumps=none)
        return state._replace(warmup=warmup)

    def end_kept_draw(self, state: Any) -> Any:
        """The state after a draw that is kept: what steps of a found size have covered."""
        if not self.parts.scaling.is_found:
            return state
        moments = add_draw(state.warmup.draw_moments, state.sampler.chain.position)
        return state._replace(warmup=state.warmup._replace(draw_moments=moments))

    def refreshed(self, state: Any) -> Any:
        """The state with energy and gradient evaluated anew, on other data."""
        energies = self.parts.energies(self.potential, state.z)
        state = anchored_on_new_data(energies, state)
        rng_key, key = random.split(state.rng_key)
        energy = energies.of_chains(state.warmup)(state.warmup)
        sampler = self.parts.method.evaluate_anew(key, state.sampler, energy)
        return state._replace(sampler=sampler, rng_key=rng_key)

    def _with_draw_length(self, plan: Plan, before: Any, tuning: Any, warmup: Any) -> Any:
        """The warm-up after a draw, with the steps of a draw where a stage of tuning ends.

        Args:
            plan: the plan.
            before: the warm-up before the draw.
            tuning: what was tuned, with the moments of the stage.
            warmup: the warm-up after the draw.
        """
        parts, here, length = self.parts, progress(plan, before), before.draw_length
        temperature = parts.temperature(warmup.gain_origin)
        found = parts.scaling.found_step(parts.moves, tuning, temperature)
        time = slowest(tuning, temperature, found.reach, found.fastest)
        number = by_relaxation(time, self.limits)
        number = jnp.where(here.ends, number, length.number)
        return warmup._replace(draw_length=length._replace(number=number))

    def _sampler(self, warmup: Any, z: Any) -> Sampler:
        return self.parts.method.sampler(self._setup(warmup, z))

    def _setup(self, warmup: Any, z: Any, noisy: bool = False) -> Setup:
        parts = self.parts
        diffusion, step_size = parts.scaling.diffusion(parts.moves, parts.temperature, warmup, z)
        return Setup(
            diffusion=diffusion,
            step_size=step_size,
            temperature=parts.temperature,
            plan=parts.plan,
            warmup=warmup,
            size=ravel(z).shape[0],
            finds_step_size=parts.scaling.is_found,
            noisy=noisy,
        )

    def _after(
        self, state: Any, window: Window, sampler_state: Any, rng_key: jax.Array, warmup: Any
    ) -> Any:
        """The public state after a window of steps."""
        position = window.draw.position
        size = state.unconstrained.shape[-1] if hasattr(state, "unconstrained") else 0
        carried = Carried(sampler_state, rng_key, warmup, position[:size])
        return self.parts.method.state(unravel_like(position, state.z), window, carried)
