"""The warm-up in one program, and the next draw of all chains: of it, or after one on the host.

What the next draw is, is decided for all chains while the program runs. They share their plan: a
decision of each chain of its own would run all sides for all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from numpyro_contour.kernels.parts.parts import Parts
from numpyro_contour.warmup.all_chains import AllChains
from numpyro_contour.warmup.stages.draw_length import DRAWS
from numpyro_contour.warmup.stages.state import progress


def drawn(parts: Parts, state: Any, model_args: tuple, model_kwargs: dict) -> Any:
    """The state after the next draw.

    Where the warm-up is traced, the first draw of a run also makes what is missing of it. Where the
    host has made it, the draws of NumPyro's warm-up change nothing but the number of steps of a
    draw, where that is found.

    Args:
        parts: the parts of the kernel.
        state: the state of one chain or of all.
        model_args: arguments of the model.
        model_kwargs: its keyword arguments.
    """
    data = model_args, model_kwargs
    if parts.plan is None:
        chains, state = AllChains.of(parts, *data, state)
        return chains.sampled(state, False)[0]
    if not state.warmup.is_over:
        return caught_up(partial(_of_the_plan, parts, *data), state)
    warmup = state.warmup
    idle = jnp.max(warmup.idle)
    rests = idle > 0
    if warmup.draw_length:
        rests &= jnp.max(warmup.given) - idle >= DRAWS
    next_idle = lambda s: s._replace(
        warmup=s.warmup._replace(idle=jnp.maximum(s.warmup.idle, 0) - 1)
    )
    return next_idle(lax.cond(rests, lambda s: s, partial(own_draw, parts, *data), state))


def own_draw(parts: Parts, model_args: tuple, model_kwargs: dict, state: Any) -> Any:
    """The state after a draw of the kernel's sampler that the host's warm-up has left to NumPyro.

    It is kept, or one of NumPyro's warm-up from which the steps of a draw are found.
    """
    chains, state = AllChains.of(parts, model_args, model_kwargs, state)
    after, _ = chains.sampled(state, False)
    if after.warmup.draw_length and not isinstance(after.warmup.draw_length.draws, tuple):
        warms_up = jnp.max(after.warmup.idle) > 0
        after = lax.cond(warms_up, chains.mixed, chains.kept, after)
    else:
        after = chains.kept(after)
    return chains.join(after, chains.known)


def _of_the_plan(parts: Parts, model_args: tuple, model_kwargs: dict, state: Any) -> Any:
    """The state after a draw of whatever the plan says, in one program."""
    chains, state = AllChains.of(parts, model_args, model_kwargs, state)
    plan, known = chains.plan, chains.known
    state = chains.suited(state)
    iteration, length = (jnp.ravel(x)[0] for x in (state.warmup.iteration, state.warmup.length))
    after = next_draw(chains, state)
    if known and state.warmup.tuning.descent:
        number = plan.progress(iteration, length).number
        every = chains.searches_every(length)
        due = (iteration % every == every - 1) & ~plan.flag("descends", number)
        known = chains.searched(chains.asked(), due & (iteration < length), after)
    return chains.join(after, known)


def next_draw(chains: AllChains, state: Any) -> Any:
    """The state of all chains after the draw that the plan says is next.

    Args:
        chains: what all chains do.
        state: their state before the draw.
    """
    warmup, plan = state.warmup, chains.plan
    warms_up = jnp.any(warmup.iteration < warmup.length)
    stage = chains.lift(lambda w: progress(plan, w).number)(warmup)

    def measured(state: Any) -> Any:
        if not state.warmup.tuning.descent:  # chains have begun in modes
            return chains.placed(state, chains.measured(state, False))
        # One decision for all chains: what only a descent needs is computed in no other stage.
        descends = jnp.any(plan.flag("descends", stage))
        moved = chains.rescued(state, chains.measured(state, descends))
        return chains.placed(state, moved)

    def sampled(state: Any) -> Any:
        kept = lambda state, trace: chains.kept(state)
        return lax.cond(warms_up, chains.warmed_up, kept, *chains.sampled(state, warms_up))

    state = lax.cond(jnp.any(plan.flag("measures", stage)), measured, sampled, state)
    state = lax.cond(warms_up, chains.follow, lambda x: x, state)
    counted = jnp.where(warms_up, state.warmup.iteration + 1, state.warmup.iteration)
    return state._replace(warmup=state.warmup._replace(iteration=counted))


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
