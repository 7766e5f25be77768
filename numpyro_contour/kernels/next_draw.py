"""The next draw of all chains: of a warm-up that is traced with it, or after one on the host."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax

from numpyro_contour.adaptation.driver import caught_up, next_draw
from numpyro_contour.kernels.all_chains import AllChains
from numpyro_contour.kernels.parts import Parts


def drawn(parts: Parts, state: Any, model_args: tuple, model_kwargs: dict) -> Any:
    """The state after the next draw.

    Where the warm-up is traced, the first draw of a run also makes what is missing of it. Where the
    host has made it, the draws of NumPyro's warm-up change nothing.

    Args:
        parts: the parts of the kernel.
        state: the state of one chain or of all.
        model_args: arguments of the model.
        model_kwargs: its keyword arguments.
    """
    data = model_args, model_kwargs
    if parts.plan is None:
        chains, state = AllChains.of(parts, *data, state)
        return chains.sampled(state)[0]
    if not state.warmup.is_over:
        return caught_up(partial(_of_the_plan, parts, *data), state)
    idle = state.warmup.idle
    rests = lambda s: s._replace(warmup=s.warmup._replace(idle=idle - 1))
    return lax.cond(jnp.max(idle) > 0, rests, partial(kept_draw, parts, *data), state)


def kept_draw(parts: Parts, model_args: tuple, model_kwargs: dict, state: Any) -> Any:
    """The state after a draw that is kept."""
    chains, state = AllChains.of(parts, model_args, model_kwargs, state)
    after = chains.lift(chains.draws.end_kept_draw)(*chains.sampled(state))
    warmup = after.warmup._replace(idle=jnp.full_like(after.warmup.idle, -1))
    return chains.join(after._replace(warmup=warmup), chains.known)


def _of_the_plan(parts: Parts, model_args: tuple, model_kwargs: dict, state: Any) -> Any:
    """The state after a draw of whatever the plan says, in one program."""
    chains, state = AllChains.of(parts, model_args, model_kwargs, state)
    plan, known = chains.plan, chains.known
    state = chains.suited(state)
    iteration, length = (jnp.ravel(x)[0] for x in (state.warmup.iteration, state.warmup.length))
    after = next_draw(plan, chains.lift, chains.programs(), state)
    if known and state.warmup.tuning.descent:
        number = plan.progress(iteration, length).number
        every = chains.searches_every(length)
        due = (iteration % every == every - 1) & ~plan.flag("descends", number)
        known = chains.searched(chains.asked(), due & (iteration < length), after)
    return chains.join(after, known)
