"""The warm-up on the host: a program for each kind of stage, and Python between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.stage import Stage
from numpyro_contour.adaptation.warmup import without_scratch
from numpyro_contour.kernels.all_chains import AllChains
from numpyro_contour.kernels.parts import Parts
from numpyro_contour.models.compiled_on_data import CompiledOnData


class HostWarmup:
    """What makes the warm-up of a kernel where its first state is not traced.

    Its programs are kept: a further run on data of the same shapes compiles none of them.

    Args:
        parts: the parts of the kernel.
    """

    def __init__(self, parts: Parts):
        self._parts = parts
        self._programs = {
            "descend": CompiledOnData(partial(_measured, parts, True)),
            "measure": CompiledOnData(partial(_measured, parts, False)),
            "walk": CompiledOnData(partial(_walked, parts)),
            "search": CompiledOnData(partial(_searched, parts)),
        }

    def __call__(self, state: Any, num_warmup: int, model_args: tuple, model_kwargs: dict) -> Any:
        """The state after the whole warm-up, without what only that needs.

        Args:
            state: the first state of one chain or of all.
            num_warmup: draws that NumPyro is going to make of its own warm-up.
            model_args: arguments of the model.
            model_kwargs: its keyword arguments.
        """
        plan = self._parts.plan
        assert plan is not None
        length = max(num_warmup, plan.least)
        # Numbers of a type of their own: all programs take and return the same state.
        state = jax.tree.map(_strong, state)
        data = model_args, model_kwargs
        searches = bool(state.warmup.modes)
        kinds = list(dict.fromkeys(map(_kind, plan.stages)))
        if searches:
            kinds.insert(1, "search")
        programs: dict[str, Callable] = {}
        for kind in kinds:
            programs[kind] = self._programs[kind].begin(state, np.int32(0), *data)
        every = _searches_every(self._parts, state, length, data) if searches else 0
        for stage, begin, end in _stages(plan, length):
            for stop in _stops(begin, end, every if not stage.descends else 0):
                state = programs[_kind(stage)](state, np.int32(stop - begin))
                begin = stop
                if every and not stage.descends and stop % every == 0:
                    state = programs["search"](state, np.int32(0))
        warmup = without_scratch(state.warmup)
        idle = jnp.full_like(warmup.idle, num_warmup)
        return state._replace(warmup=warmup._replace(idle=idle))


def _strong(leaf: Any) -> Any:
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    return lax.convert_element_type(leaf, leaf.dtype)


def _kind(stage: Stage) -> str:
    """The program that makes the draws of a stage."""
    if stage.descends:
        return "descend"
    return "measure" if stage.measures else "walk"


def _stages(plan: Plan, length: int) -> list[tuple[Stage, int, int]]:
    """The stages, each with the draws at which it begins and ends."""
    ends = np.asarray(plan.bounds(np.int32(length))).tolist()
    return list(zip(plan.stages, [0, *ends], ends))


def _stops(begin: int, end: int, every: int) -> list[int]:
    """The draws after which something is to be done, of those between two; the end is the last."""
    if begin == end:
        return []
    inner = range(begin - begin % every + every, end, every) if every else ()
    return [*inner, end]


def _searches_every(parts: Parts, state: Any, length: int, data: tuple) -> int:
    chains, _ = AllChains.of(parts, *data, state)
    return int(chains.searches_every(length))


# ---------------------------------------------------------------------- programs


def _draws(one: Callable, parts: Parts, state: Any, count: Any, args: tuple, kwargs: dict) -> Any:
    """So many draws, each of `(chains, state) -> state` without the modes."""

    def draw(_: Any, state: Any) -> Any:
        chains, state = AllChains.of(parts, args, kwargs, state)
        after = chains.programs().follow(one(chains, chains.suited(state)))
        warmup = after.warmup._replace(iteration=after.warmup.iteration + 1)
        return chains.join(after._replace(warmup=warmup), chains.asked())

    return lax.fori_loop(0, count, draw, state)


def _measured(
    parts: Parts, descends: bool, state: Any, count: Any, args: tuple, kwargs: dict
) -> Any:
    """Draws of measured moves."""

    def one(chains: AllChains, state: Any) -> Any:
        programs = chains.programs()
        after = programs.measured_draw(state, descends)
        if descends:
            after = programs.rescue(state, after)
        return programs.place_anchor(state, after)

    return _draws(one, parts, state, count, args, kwargs)


def _walked(parts: Parts, state: Any, count: Any, args: tuple, kwargs: dict) -> Any:
    """Draws of the kernel's sampler in the warm-up."""

    def one(chains: AllChains, state: Any) -> Any:
        return chains.programs().end_warmup_draw(*chains.sampled(state))

    return _draws(one, parts, state, count, args, kwargs)


def _searched(parts: Parts, state: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """The state with the modes that a search finds."""
    chains, state = AllChains.of(parts, args, kwargs, state)
    assert chains.known
    return chains.join(state, chains.searched(chains.known, True, state))
