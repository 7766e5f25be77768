"""The next draw of all chains: the programs that a run with a warm-up chooses from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from numpyro.util import is_prng_key

from numpyro_contour.adaptation.driver import Programs, caught_up, next_draw
from numpyro_contour.adaptation.found_modes import FoundModes
from numpyro_contour.adaptation.narrow_modes import suited_to_modes
from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.rescue import rescue
from numpyro_contour.adaptation.tune import TUNE
from numpyro_contour.adaptation.tuning import Tuning
from numpyro_contour.kernels.anchors import place_anchor
from numpyro_contour.kernels.draws import ChainDraws
from numpyro_contour.kernels.following import follow
from numpyro_contour.kernels.jumping import jumps_of_a_draw, search
from numpyro_contour.kernels.parts import Parts
from numpyro_contour.models.relabelling import relabelling_of

#: name of the axis of the chains that run together
CHAINS = "chains"


def drawn(parts: Parts, state: Any, model_args: tuple, model_kwargs: dict) -> Any:
    """The state after the next draw; the first one of a run also makes the warm-up that is missing.

    Args:
        parts: the parts of the kernel.
        state: the state of one chain or of all.
        model_args: arguments of the model.
        model_kwargs: its keyword arguments.
    """
    draw = partial(_drawn, parts, model_args, model_kwargs)
    return draw(state) if parts.plan is None else caught_up(draw, state)


def _drawn(parts: Parts, model_args: tuple, model_kwargs: dict, state: Any) -> Any:
    batched = not is_prng_key(state.rng_key)
    if batched:
        parts = replace(parts, method=parts.method.among(CHAINS))
    plan = parts.plan
    potential = parts.source.potential(model_args, model_kwargs)
    like = jax.tree.map(lambda x: x[0], state.z) if batched else state.z
    draws = ChainDraws(parts, potential, len(state.rng_key) if batched else 1)
    chosen = parts.estimator(potential)
    estimator = partial(parts.source.estimator, chosen, potential, like, state.warmup)
    energy = estimator()

    def lift(function: Callable) -> Callable:
        return jax.vmap(function, axis_name=CHAINS) if batched else function

    def lift_in_turn(function: Callable) -> Callable:
        return partial(lax.map, function) if batched else function

    known = state.warmup.modes if plan is not None else ()
    jumping, telling = None, None
    if known:
        if not draws.exact:
            telling = estimator(tells_noise=True)
        steps = jnp.ravel(state.sampler.chain.steps)[0]
        share = parts.jumps.exact if draws.exact else parts.jumps.noisy
        jumping = jumps_of_a_draw(known, steps, parts.num_steps, share)
        # They are those of all chains, and no other program is to copy them.
        state = state._replace(warmup=state.warmup._replace(modes=()))

    def sampled_of_chain(chain: Any) -> Any:
        tells = telling and telling(chain.warmup)
        return draws.sampled(chain, energy(chain.warmup), jumping, tells)

    sampled = lift(sampled_of_chain)
    if plan is None:
        return sampled(state)[0]

    def with_axis(state: Any) -> Any:
        return state if batched else jax.tree.map(lambda x: x[None], state)

    def follow_all(state: Any) -> Any:
        followed = follow(plan, parts.source, parts.method, potential, with_axis(state), known)
        return followed if batched else jax.tree.map(lambda x: x[0], followed)

    around = plan, parts.source, parts.method, potential
    programs = Programs(
        measured_draw=partial(draws.measured_of_all, plan, lift, energy),
        rescue=partial(rescue, plan) if batched else lambda before, after: after,
        place_anchor=partial(place_anchor, *around, lift_in_turn),
        follow=follow_all,
        sampled_draw=sampled,
        end_warmup_draw=lift(partial(draws.end_warmup_draw, plan)),
        end_kept_draw=lift(draws.end_kept_draw),
    )
    after = next_draw(plan, lift, programs, state)
    if known:
        # Each mode asks for an anchor once.
        known = known._replace(noise=known.noise.at[jnp.argmax(known.noise)].set(0.0))
        energies = estimator(tells_noise=False), telling
        relabel = None if potential is None else relabelling_of(potential, like)
        to_search = plan, parts.method, parts.temperature, parts.num_steps, *energies, relabel
        known = search(*to_search, known, with_axis(state), with_axis(after))
        after = _suited(parts, plan, known, with_axis(after))
        after = after if batched else jax.tree.map(lambda x: x[0], after)
        after = after._replace(warmup=after.warmup._replace(modes=known))
    return after


def _suited(parts: Parts, plan: Plan, known: FoundModes, state: Any) -> Any:
    """All chains, once step sizes have been searched for, with steps that suit the modes."""
    if not parts.scaling.is_found:
        return state
    warmup = state.warmup
    iteration, length = warmup.iteration[0], warmup.length[0]
    due = (iteration < length) & (plan.progress(iteration, length).number > plan.last(TUNE))
    jumps = jax.tree.map(lambda n: n.sum(0), warmup.jumps)
    temperature = parts.temperature(state.sampler.chain.steps[0])

    def suited(tuning: Tuning) -> Tuning:
        return suited_to_modes(tuning, known, jumps, temperature)

    tuning = lax.cond(due, jax.vmap(suited), lambda x: x, warmup.tuning)
    return state._replace(warmup=warmup._replace(tuning=tuning))
