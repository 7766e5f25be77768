"""The draws of all chains that run together, on the data of one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from numpyro.util import is_prng_key

from numpyro_contour.core.samplers.chain import PotentialAndGrad
from numpyro_contour.core.samplers.window import Length
from numpyro_contour.energies.first_anchors import anchored, place_anchor
from numpyro_contour.energies.following import follow, followed, noted
from numpyro_contour.energies.source import Energies
from numpyro_contour.kernels.parts.draws import ChainDraws
from numpyro_contour.kernels.parts.jumping import (
    Jumping,
    jumps_of_a_draw,
    search,
    searches_every,
    stretches_of,
)
from numpyro_contour.kernels.parts.parts import Parts
from numpyro_contour.models.relabelling import Relabel, relabelling_of
from numpyro_contour.modes.found_modes import FoundModes
from numpyro_contour.warmup.stages.draw_length import DRAWS, by_correlation
from numpyro_contour.warmup.stages.plan import TUNE, Plan
from numpyro_contour.warmup.stages.rescue import rescue
from numpyro_contour.warmup.stages.steps_that_fit import suited_to_modes
from numpyro_contour.warmup.stages.tuning import Tuning

# Numbers in the positions of all steps of a stretch, which are kept until it ends.
_AT_ONCE = 2**20

#: name of the axis of the chains that run together
CHAINS = "chains"


@dataclass(frozen=True)
class AllChains:
    """What all chains do next, from the state that they are in.

    It is made for each draw while a program is traced. The modes that are known are those of
    all chains: they are not in the states that its functions take and return.
    """

    parts: Parts
    #: whether states have an axis of chains
    batched: bool
    energies: Energies
    draws: ChainDraws
    #: makes the `potential_and_grad` of a chain from its warm-up, whether or not it tells the noise
    estimator: Callable[..., Callable[[Any], PotentialAndGrad]]
    known: FoundModes | tuple[()]
    #: whether there may be two modes that are known
    several: bool

    @classmethod
    def of(
        cls,
        parts: Parts,
        model_args: tuple,
        model_kwargs: dict,
        state: Any,
        several: bool = True,
    ) -> tuple[AllChains, Any]:
        """What chains do from a state, and the state without the modes.

        Args:
            parts: the parts of the kernel.
            model_args: arguments of the model.
            model_kwargs: its keyword arguments.
            state: the state of one chain or of all.
            several: whether two modes may be known. False for a program without jumps. Defaults to
                True.
        """
        batched = not is_prng_key(state.rng_key)
        if batched:
            parts = replace(parts, method=parts.method.among(CHAINS))
        potential = parts.source.potential(model_args, model_kwargs)
        like = jax.tree.map(lambda x: x[0], state.z) if batched else state.z
        draws = ChainDraws(parts, potential, len(state.rng_key) if batched else 1)
        energies = parts.energies(potential, like)
        estimator = partial(energies.of_chains, state.warmup)
        known = state.warmup.modes if parts.plan is not None else ()
        if known:
            # No other program is to copy them.
            state = _with_modes(state, ())
        return cls(parts, batched, energies, draws, estimator, known, several), state

    @property
    def plan(self) -> Plan:
        """The plan of the warm-up."""
        plan = self.parts.plan
        assert plan is not None
        return plan

    def lift(self, function: Callable) -> Callable:
        """A function of one chain as one of all."""
        return jax.vmap(function, axis_name=CHAINS) if self.batched else function

    def lift_in_turn(self, function: Callable) -> Callable:
        """A function of one chain as one of all, one chain after the other."""
        return partial(lax.map, function) if self.batched else function

    def with_axis(self, state: Any) -> Any:
        """A state with a leading axis of chains."""
        return state if self.batched else jax.tree.map(lambda x: x[None], state)

    def as_it_was(self, state: Any) -> Any:
        """A state with a leading axis, without it where chains have none."""
        return state if self.batched else jax.tree.map(lambda x: x[0], state)

    # ------------------------------------------------------------------ draws

    def sampled(self, state: Any, warms_up: Any) -> tuple[Any, Any]:
        """A draw of the kernel's own sampler, and its steps in the warm-up.

        Args:
            state: the state.
            warms_up: whether it is a draw of the warm-up, which has the most steps. A bool decides
                while the program is traced.
        """
        energy, telling = self.estimator(), None
        jumping: Jumping | None = None
        number = self.steps_of_a_draw(state, warms_up)
        share = self.parts.jumps.exact if self.energies.exact else self.parts.jumps.noisy
        # Of large positions as many at once as there is room for.
        at_once = min(self.draws.most_at_once, _AT_ONCE // state.sampler.chain.position.size)
        # Where nothing is tried, stretches are as long as they may be.
        unit = self.draws.unit
        stretch, every = stretches_of(unit, share or 1 / unit, at_once)
        if self.known and self.several:
            if not self.energies.exact:
                telling = self.estimator(tells_noise=True)
            steps = jnp.ravel(state.sampler.chain.steps)[0]
            jumping = jumps_of_a_draw(self.known, steps, stretch, every)
        length = Length(number // stretch, stretch)
        traced = None if warms_up is False else self.parts.num_steps

        def of_chain(chain: Any) -> Any:
            tells = telling and telling(chain.warmup)
            return self.draws.sampled(chain, energy(chain.warmup), length, traced, jumping, tells)

        return self.lift(of_chain)(state)

    def steps_of_a_draw(self, state: Any, warms_up: Any) -> Any:
        """The steps of a draw, the same for all chains, as for `sampled`."""
        most = self.parts.num_steps
        if warms_up is True or not (state.warmup and state.warmup.draw_length):
            return most
        return jnp.where(warms_up, most, jnp.max(state.warmup.draw_length.number))

    def measured(self, state: Any, descends: Any) -> Any:
        """A draw of descent, tuning or settling."""
        return self.draws.measured_of_all(self.plan, self.lift, self.estimator(), state, descends)

    def rescued(self, before: Any, after: Any) -> Any:
        """The states after a draw of descent, without chains whose descent has led nowhere."""
        return rescue(self.plan, before, after) if self.batched else after

    def warmed_up(self, state: Any, trace: Any) -> Any:
        """The states after a draw of the sampler in the warm-up, with what it teaches."""
        return self.lift(partial(self.draws.end_warmup_draw, self.plan))(state, trace)

    def kept(self, state: Any) -> Any:
        """The states after a draw that is kept."""
        return self.lift(self.draws.end_kept_draw)(state)

    def mixed(self, state: Any) -> Any:
        """The states after a draw of NumPyro's warm-up in which correlations are measured.

        The last of them decides how many steps a draw takes.
        """
        after = self.with_axis(self.lift(self.draws.end_mixing_draw)(state))
        warmup, parts = after.warmup, self.parts
        found, given = warmup.draw_length, warmup.given[0]
        made = given - warmup.idle[0] + 1
        number = by_correlation(found, made, self.draws.limits, parts.draw)
        is_last = made == jnp.minimum(given, DRAWS)
        found = found._replace(number=jnp.where(is_last, number, found.number))
        return self.as_it_was(after._replace(warmup=warmup._replace(draw_length=found)))

    # ------------------------------------------------------------------ anchors

    def placed(self, before: Any, after: Any) -> Any:
        """The states after a tuning draw, with the first anchor where a stage ends."""
        around = self.plan, self.energies, self.parts.method
        return place_anchor(*around, self.lift_in_turn, before, after)

    def follow(self, state: Any) -> Any:
        """The states after a draw, with a further anchor where noise asks for one."""
        around = self.plan, self.energies, self.parts.method
        return self.as_it_was(follow(*around, self.with_axis(state), self.known))

    def mean_of_stage(self, state: Any) -> jax.Array:
        """The mean position of each chain over the tuning steps of the stage so far."""
        return self.lift(lambda tuning: tuning.mean_position)(state.warmup.tuning)

    def noted(self, state: Any) -> tuple[Any, jax.Array]:
        """The states after a draw of the warm-up, and whether noise asks for an anchor."""
        after, asks = noted(self.plan, self.parts.method, self.with_axis(state), self.known)
        return self.as_it_was(after), asks

    def followed(self, state: Any) -> Any:
        """The states with less noise, where it asks for that."""
        around = self.plan, self.energies, self.parts.method
        return self.as_it_was(followed(*around, self.with_axis(state), self.known))

    def anchored(self, state: Any, mean: jax.Array, descended: bool) -> Any:
        """The states with the anchors that are placed where a stage ends."""
        of_each = jnp.broadcast_to(descended, jnp.shape(state.warmup.iteration))
        place = partial(anchored, self.energies, self.parts.method)
        return self.lift_in_turn(place)((state, mean, of_each))

    def suited(self, state: Any) -> Any:
        """The states before a draw of the warm-up, with steps that suit the modes.

        So it is once step sizes have been searched for.
        """
        known = self.known
        if not (known and self.several and self.parts.scaling.is_found):
            return state
        after = self.with_axis(state)
        warmup = after.warmup
        iteration, length = warmup.iteration[0], warmup.length[0]
        number = self.plan.progress(iteration, length).number
        due = (iteration < length) & (number > self.plan.last(TUNE))
        jumps = jax.tree.map(lambda n: n.sum(0), warmup.jumps)
        temperature = self.parts.temperature(after.sampler.chain.steps[0])

        def suited(tuning: Tuning) -> Tuning:
            return suited_to_modes(tuning, known, jumps, temperature)

        tuning = lax.cond(due, jax.vmap(suited), lambda x: x, warmup.tuning)
        return self.as_it_was(after._replace(warmup=warmup._replace(tuning=tuning)))

    # ------------------------------------------------------------------ modes

    def asked(self, is_answered: Any = True) -> FoundModes | tuple[()]:
        """The modes after a draw: each of them asks for an anchor once.

        Args:
            is_answered: whether that has been looked at. Defaults to True.
        """
        if not self.known:
            return self.known
        noise = self.known.noise
        noise = jnp.where(is_answered, noise.at[jnp.argmax(noise)].set(0.0), noise)
        return self.known._replace(noise=noise)

    def relabelling(self) -> Relabel | None:
        """Gives a position other labels; None where the model has none."""
        potential = self.energies.potential
        return None if potential is None else relabelling_of(potential, self.energies.like)

    def searched(self, known: Any, due: Any, state: Any) -> FoundModes:
        """The modes that are known after a search from where the chains are, if it is due."""
        parts = self.parts
        telling = None if self.energies.exact else self.estimator(tells_noise=True)
        energies = self.estimator(tells_noise=False), telling
        around = parts.method, parts.temperature, *energies, self.relabelling()
        return search(*around, known, due, self.with_axis(state))

    def searches_every(self, length: Any) -> Any:
        """The number of draws from one search to the next in a warm-up of this length."""
        return searches_every(length, self.relabelling(), self.parts.num_steps)

    def join(self, state: Any, known: FoundModes | tuple[()]) -> Any:
        """The state with the modes in it."""
        return _with_modes(state, known) if known else state


def _with_modes(state: Any, modes: Any) -> Any:
    return state._replace(warmup=state.warmup._replace(modes=modes))
