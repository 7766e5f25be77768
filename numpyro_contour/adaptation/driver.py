"""The driver of a run with a warm-up: which program makes the next draw of all chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.warmup import progress


class Programs(NamedTuple):
    """What a kernel does in a draw, as functions of the states of all chains.

    A state is any NamedTuple with a field `warmup`, the `Warmup` of each chain.
    """

    #: `(state, whether to descend) -> state`, a draw of measured moves
    measured_draw: Callable[[Any, Any], Any]
    #: `(state before, state after) -> state`, without chains whose descent has led nowhere
    rescue: Callable[[Any, Any], Any]
    #: `(state before, state after) -> state`, with an anchor where one is to be placed
    place_anchor: Callable[[Any, Any], Any]
    #: `(state) -> state`, with a further anchor where the noise of energies asks for one
    follow: Callable[[Any], Any]
    #: `(state) -> (state, trace)`, a draw of the kernel's own sampler
    sampled_draw: Callable[[Any], tuple[Any, Any]]
    #: `(state, trace) -> state`, what a draw of the warm-up teaches
    end_warmup_draw: Callable[[Any, Any], Any]
    #: `(state, trace) -> state`, what a draw that is kept adds
    end_kept_draw: Callable[[Any, Any], Any]


def caught_up(draw: Callable[[Any], Any], state: Any) -> Any:
    """The state after a draw; the first one of a run also makes the warm-up that is missing.

    What is to be found takes some draws of warm-up. Where the run has fewer, or none, the others
    are made here, so that a warm-up of any length finds what it can.

    Args:
        draw: makes the next draw of all chains.
        state: the state of all chains before the draw.
    """
    warmup = state.warmup
    begins = jnp.max(warmup.iteration) == 0
    missing = jnp.where(begins, jnp.max(warmup.length - warmup.given), 0)
    return lax.fori_loop(0, 1 + missing, lambda _, state: draw(state), state)


def next_draw(plan: Plan, lift: Callable, programs: Programs, state: Any) -> Any:
    """The state of all chains after their next draw.

    Chains share their plan, so that one decision is made for all of them: a decision of each chain
    of its own would run both sides for all.

    Args:
        plan: the plan of the warm-up.
        lift: makes a function of one chain one of all chains.
        programs: what the kernel does in a draw.
        state: the state of all chains before the draw.
    """
    warmup = state.warmup
    warms_up = jnp.any(warmup.iteration < warmup.length)
    stage = lift(lambda w: progress(plan, w).number)(warmup)

    def measured(state: Any) -> Any:
        if not state.warmup.tuning.descent:  # chains have begun in modes
            return programs.place_anchor(state, programs.measured_draw(state, False))
        # One decision for all chains: what only a descent needs is computed in no other stage.
        descends = jnp.any(plan.flag("descends", stage))
        moved = programs.rescue(state, programs.measured_draw(state, descends))
        return programs.place_anchor(state, moved)

    def sampled(state: Any) -> Any:
        ends = programs.end_warmup_draw, programs.end_kept_draw
        return lax.cond(warms_up, *ends, *programs.sampled_draw(state))

    state = lax.cond(jnp.any(plan.flag("measures", stage)), measured, sampled, state)
    state = lax.cond(warms_up, programs.follow, lambda x: x, state)
    counted = jnp.where(warms_up, state.warmup.iteration + 1, state.warmup.iteration)
    return state._replace(warmup=state.warmup._replace(iteration=counted))
