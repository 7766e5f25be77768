"""The warm-up on the host: a program for each kind of stage, and Python between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpyro.util import is_prng_key
from tqdm.auto import tqdm

from numpyro_contour.adaptation.plan import Plan
from numpyro_contour.adaptation.stage import Stage
from numpyro_contour.adaptation.warmup import without_descent, without_scratch
from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.kernels.all_chains import AllChains
from numpyro_contour.kernels.host_search import begun_in_modes
from numpyro_contour.kernels.mode_finding import ModeFinder
from numpyro_contour.kernels.parts import Parts
from numpyro_contour.kernels.said import warmup_text
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
            (name, several): CompiledOnData(partial(program, parts, several))
            for several in (False, True)
            for name, program in _PROGRAMS.items()
        }

    def __call__(
        self,
        state: Any,
        finder: ModeFinder | None,
        num_warmup: int,
        model_args: tuple,
        model_kwargs: dict,
        shows_bar: bool,
    ) -> Any:
        """The state after the whole warm-up, without what only that needs.

        Args:
            state: the first state of one chain or of all.
            finder: what searches for modes that chains begin in; None where they descend.
            num_warmup: draws that NumPyro is going to make of its own warm-up.
            model_args: arguments of the model.
            model_kwargs: its keyword arguments.
            shows_bar: whether there is a progress bar.
        """
        plan = self._parts.plan
        assert plan is not None
        length = max(num_warmup, plan.least)
        # Numbers of a type of their own: all programs take and return the same state.
        state = jax.tree.map(_strong, state)
        data = model_args, model_kwargs
        jumps = bool(state.warmup.modes)
        run, search, every = _Programs(self._programs, state, data), None, 0
        if finder is not None:
            # That of the next stage is traced while that of the search is compiled.
            in_modes = _Programs(self._programs, without_descent(state), data)
            in_modes.begin("measure", False)
            state, search = begun_in_modes(self._parts, finder, state, num_warmup)
        if search is not None:
            run = in_modes
        elif jumps:
            every = _searches_every(self._parts, state, length, *data)
        several = search is not None and search.several

        with tqdm(total=length, desc="warm-up", unit="draw", disable=not shows_bar) as bar:
            for number, (stage, begin, end) in enumerate(_stages(plan, length)):
                walks = search is not None or not stage.descends
                for stop in _stops(begin, end, every if walks else 0):
                    draws = run.begin(_kind(stage, walks), several)
                    for name in _ahead(number, search is not None, jumps):
                        run.begin(name, several)
                    if shows_bar:
                        bar.set_postfix_str(warmup_text(self._parts, state))
                    state = draws(state, np.int32(stop - begin))
                    if every and walks and stop % every == 0:
                        state = run.begin("search", several)(state, np.int32(0))
                        several = bool(everywhere(state.warmup.modes.several))
                    bar.update(stop - begin)
                    begin = stop
                if search is not None and end < length:
                    state = search.looked_again(state)
                    several = search.several
        return _ended(state, num_warmup, several)


class _Programs:
    """The programs of a run, each of which is compiled once it is asked for."""

    def __init__(self, programs: dict[tuple[str, bool], CompiledOnData], state: Any, data: tuple):
        self._programs, self._state, self._data = programs, state, data
        self._begun: dict[tuple[str, bool], Callable] = {}

    def begin(self, name: str, several: bool) -> Callable:
        """One of them, `(state, number of draws) -> state`, compiled in another thread.

        Args:
            name: which of `_PROGRAMS`.
            several: whether more than one mode is known.
        """
        # Steps of found sizes suit all modes; chains jump as they walk.
        which = name, bool(self._state.warmup.modes) if name == "measure" else several
        if which not in self._begun:
            program = self._programs[which].begin(self._state, np.int32(0), *self._data)
            assert program is not None
            self._begun[which] = program
        return self._begun[which]


def _ended(state: Any, num_warmup: int, several: bool) -> Any:
    """The state after the last draw, without what is not needed any more."""
    warmup = without_scratch(state.warmup)
    warmup = warmup._replace(idle=jnp.full_like(warmup.idle, num_warmup))
    # Chains that run one after the other have states of one form, whatever each of them has found.
    if warmup.modes and not (several or is_prng_key(state.rng_key)):
        warmup = warmup._replace(modes=(), jumps=())
    return state._replace(warmup=warmup)


def _strong(leaf: Any) -> Any:
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return leaf
    return lax.convert_element_type(leaf, leaf.dtype)


def _kind(stage: Stage, walks: bool) -> str:
    """The program that makes the draws of a stage, in which chains walk or descend."""
    if not walks:
        return "descend"
    return "measure" if stage.measures else "walk"


def _ahead(number: int, searched: bool, jumps: bool) -> tuple[str, ...]:
    """What is compiled from the start of a stage on, by its number.

    Whether chains jump as they walk is not known before a search.
    """
    if searched:
        return ("walk",)
    first = ("measure", "search") if jumps else ("measure",)
    return {0: first, 2: ("walk",)}.get(number, ())


def _stages(plan: Plan, length: int) -> list[tuple[Stage, int, int]]:
    """The stages, each with the draws at which it begins and ends."""
    ends = np.asarray(plan.bounds(jnp.asarray(length))).tolist()
    return list(zip(plan.stages, [0, *ends], ends))


def _stops(begin: int, end: int, every: int) -> list[int]:
    """The draws after which something is to be done, of those between two; the end is the last."""
    if begin == end:
        return []
    inner = range(begin - begin % every + every, end, every) if every else ()
    return [*inner, end]


def _searches_every(parts: Parts, state: Any, length: int, args: tuple, kwargs: dict) -> int:
    chains, _ = AllChains.of(parts, args, kwargs, state)
    return int(chains.searches_every(length))


# ---------------------------------------------------------------------- programs


def _draws(
    one: Callable, parts: Parts, several: bool, state: Any, count: Any, args: tuple, kwargs: dict
) -> Any:
    """A number of draws, each by `(chains, state) -> state` without the modes."""

    def draw(_: Any, state: Any) -> Any:
        chains, state = AllChains.of(parts, args, kwargs, state, several)
        after = chains.programs().follow(one(chains, chains.suited(state)))
        warmup = after.warmup._replace(iteration=after.warmup.iteration + 1)
        return chains.join(after._replace(warmup=warmup), chains.asked())

    return lax.fori_loop(0, count, draw, state)


def _descended(chains: AllChains, state: Any) -> Any:
    """A draw of a descent."""
    programs = chains.programs()
    after = programs.rescue(state, programs.measured_draw(state, True))
    return programs.place_anchor(state, after)


def _measured(chains: AllChains, state: Any) -> Any:
    """A draw of measured moves."""
    programs = chains.programs()
    return programs.place_anchor(state, programs.measured_draw(state, False))


def _walked(chains: AllChains, state: Any) -> Any:
    """A draw of the kernel's sampler in the warm-up."""
    return chains.programs().end_warmup_draw(*chains.sampled(state))


def _searched(parts: Parts, several: bool, state: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """The state with the modes that a search finds."""
    chains, state = AllChains.of(parts, args, kwargs, state, several)
    return chains.join(state, chains.searched(chains.known, True, state))


_PROGRAMS: dict[str, Callable] = {
    "descend": partial(_draws, _descended),
    "measure": partial(_draws, _measured),
    "walk": partial(_draws, _walked),
    "search": _searched,
}
