"""Modes that the warm-up finds for all chains, and when chains jump between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

from numpyro_contour import checks
from numpyro_contour.adaptation.found_modes import FoundModes, is_known, with_modes
from numpyro_contour.adaptation.mode_search import (
    DESCENT_LENGTH,
    MOST_DENSE,
    scales_at,
    shape_at,
    way_down,
)
from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.warmup import progress
from numpyro_contour.core.samplers.chain import PotentialAndGrad, evaluate
from numpyro_contour.kernels.methods.method import Method
from numpyro_contour.schedules import Schedule

#: the share of steps that are tries to jump
SHARE = 0.1
# Searches of a warm-up at most, and the share of its gradients that they take at most.
_MOST_SEARCHES = 32
_SHARE_OF_WARMUP = 0.15


def check_jumps(value: Any) -> tuple[float, bool]:
    """The argument `jumps`: the share of steps that are tries, and whether it was asked for.

    Raises:
        ValueError: it is neither None, nor True or False, nor a share.
    """
    if value is None or isinstance(value, bool | np.bool_):
        return (0.0 if value is False else SHARE), value is not None and bool(value)
    takes = "None, True, False or a share of the steps in (0, 0.5]"
    try:
        share = float(value)
    except (TypeError, ValueError):
        raise checks.fail("jumps", value, takes) from None
    if not 0 < share <= 0.5:
        raise checks.fail("jumps", value, takes)
    return share, True


def jump_times(state: Any, num_steps: int, share: float) -> jax.Array:
    """In place of which of the next steps chains try to jump, (num_steps,), the same for all.

    Args:
        state: the state of one chain or of all.
        num_steps: steps of a draw.
        share: the share of steps that are tries.
    """
    every = max(2, round(1 / share))
    steps = jnp.ravel(state.sampler.chain.steps)[0] + jnp.arange(num_steps)
    return (steps % every == every - 1) & jnp.any(state.warmup.modes.several)


def search(
    plan: Plan,
    method: Method,
    temperature: Schedule,
    num_steps: int,
    energy: Callable[[Any], PotentialAndGrad],
    state: Any,
) -> Any:
    """The states of all chains after a draw of the warm-up, with the modes that it has found.

    From time to time a descent goes down from where each chain is. All chains know the modes that
    any of them has found. None is added once draws are kept.

    Args:
        plan: the plan of the warm-up.
        method: the kernel's method.
        temperature: schedule of tau.
        num_steps: steps of a draw.
        energy: from the warm-up of a chain to its `potential_and_grad`.
        state: the states of all chains, with a leading axis.
    """
    warmup = jax.tree.map(lambda x: x[0], state.warmup)
    if not warmup.modes:
        return state
    least = math.ceil(DESCENT_LENGTH / (_SHARE_OF_WARMUP * num_steps))
    every = jnp.maximum(warmup.length // _MOST_SEARCHES, least)
    here = progress(plan, warmup)
    tau = temperature(state.sampler.chain.steps[0])
    due = (warmup.iteration % every == every - 1) & ~plan.flag("descends", here.number)
    due &= (warmup.iteration < warmup.length) & (tau > 0)
    of_first = energy(warmup)

    def searched(found: FoundModes) -> FoundModes:
        # The rows of a minibatch are the same for all.
        key = random.fold_in(state.rng_key[0], 3)
        visited = jax.vmap(method.visited)(state.sampler).position
        positions = visited.reshape(-1, visited.shape[-1])
        bottoms = jax.vmap(partial(way_down, key, of_first))(positions)
        new = ~jax.vmap(partial(is_known, found.modes))(bottoms)

        def added(found: FoundModes) -> FoundModes:
            if visited.shape[-1] <= MOST_DENSE:
                shaped = partial(shape_at, key, of_first, temperature=tau)
                shapes = jax.vmap(shaped)(bottoms)
            else:
                # One scale for all modes: what many coordinates are off by adds up.
                scales = jnp.sqrt(tau * bottoms.inverse_curvature[0])
                first = found.modes.factor[jnp.argmax(found.modes.known)]
                scales = jnp.where(jnp.any(found.modes.known), first, scales)
                shapes = jax.vmap(partial(scales_at, scales=scales, temperature=tau))(bottoms)
            shapes = shapes._replace(arrived=shapes.arrived & new)
            return with_modes(found, shapes, tau, lambda x: evaluate(of_first, key, x).energy)

        found = lax.cond(jnp.any(new), added, lambda x: x, found)
        return found._replace(descents=found.descents + new.shape[0])

    found = lax.cond(due, searched, lambda x: x, warmup.modes)
    several = state.sampler.chain.steps.shape[0]
    modes = jax.tree.map(lambda x: jnp.broadcast_to(x, (several, *x.shape)), found)
    return state._replace(warmup=state.warmup._replace(modes=modes))
