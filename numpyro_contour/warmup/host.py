"""The warm-up on the host: a program for each kind of stage, and Python between them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpyro.util import is_prng_key
from tqdm.auto import tqdm

from numpyro_contour.checks import warn_user
from numpyro_contour.core.arrays.entries import tree_where
from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.kernels.parts.parts import Parts
from numpyro_contour.kernels.parts.progress_text import warmup_text
from numpyro_contour.models.compiled_on_data import CompiledOnData
from numpyro_contour.warmup.all_chains import AllChains
from numpyro_contour.warmup.search import Beginning, begun_in_modes
from numpyro_contour.warmup.stages.draw_length import DRAWS, no_draws
from numpyro_contour.warmup.stages.plan import TUNE, Plan, Stage
from numpyro_contour.warmup.stages.state import without_descent, without_scratch

# What a run is taken to be: draws after the warm-up, the fewest steps of each that are found, and
# the minutes from which on it is long.
_A_RUN, _FEWEST_STEPS, _LONG = 1_000, 5, 10.0
# Relaxation times for each row of a matrix that is estimated from a stage.
_TIMES_OF_A_ROW = 10


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

    def begin(self, blank: Any, model_args: tuple, model_kwargs: dict) -> None:
        """Compile what is run first where chains begin in modes, while other things are done.

        Args:
            blank: a state of the shapes of the first one.
            model_args: arguments of the model.
            model_kwargs: its keyword arguments.
        """
        in_modes = without_descent(jax.tree.map(_strong, blank))
        programs = _Programs(self._programs, in_modes, (model_args, model_kwargs))
        anchors = ("anchor", "follow") if blank.warmup.anchors else ()
        for name in ("measure", *anchors):
            programs.begin(name, False)

    def __call__(
        self,
        state: Any,
        begins: Beginning | None,
        num_warmup: int,
        model_args: tuple,
        model_kwargs: dict,
        shows_bar: bool,
    ) -> Any:
        """The state after the whole warm-up, without what only that needs.

        Args:
            state: the first state of one chain or of all.
            begins: what searches for modes that chains begin in; None where they descend.
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
        jumps, anchors = bool(state.warmup.modes), bool(state.warmup.anchors)
        run, search, every = _Programs(self._programs, state, data), None, 0
        if begins is not None:
            # Those of the next stages are traced while that of the search is compiled.
            self.begin(state, *data)
            in_modes = _Programs(self._programs, without_descent(state), data, exact=not anchors)
            state, search = begun_in_modes(begins, state)
        if search is not None:
            run = in_modes
            if not anchors:  # else a step takes a minibatch, and not all rows
                seconds = search.seconds_a_gradient
                say_how_long(self._parts, state, num_warmup, seconds, shows_bar)
            if anchors:
                at = state.sampler.chain.position, np.bool_(True)
                state, _ = run.begin("anchor", False)(state, at)
        elif jumps:
            every = _searches_every(self._parts, state, length, *data)
        several = search is not None and search.several

        with tqdm(total=length, desc="warm-up", unit="draw", disable=not shows_bar) as bar:
            for number, (stage, begin, end) in enumerate(_stages(plan, length)):
                walks, share = search is not None or not stage.descends, end - begin
                if state.warmup.draw_length and search is not None and begin < end:
                    state, begin, end = _paced(self._parts, state, number, share)
                for stop in _stops(begin, end, every if walks else 0):
                    kind = _kind(stage, walks)
                    run.begin(kind, several)
                    for name in _ahead(plan, number, search is not None, jumps, anchors):
                        run.begin(name, several)
                    if shows_bar:
                        bar.set_postfix_str(warmup_text(self._parts, state))
                    places = anchors and stop == end and plan.places_anchor[number]
                    descends = stage.descends and search is None
                    of_stage = kind, several, stop - begin, places, descends
                    state = _advanced(run, state, *of_stage)
                    if every and walks and stop % every == 0:
                        state = run.begin("search", several)(state, np.int32(0))
                        several = bool(everywhere(state.warmup.modes.several))
                    bar.update(share if search is not None else stop - begin)
                    begin = stop
                if search is not None and number + 1 < len(plan.stages):
                    state = search.looked_again(state)
                    several = search.several
        if search is not None:
            state = search.ended(state)
        return _ended(state, num_warmup, length, several)


class _Programs:
    """The programs of a run, each of which is compiled once it is asked for."""

    def __init__(
        self,
        programs: dict[tuple[str, bool], CompiledOnData],
        state: Any,
        data: tuple,
        exact: bool = False,
    ):
        self._programs, self._state, self._data, self._exact = programs, state, data, exact
        self._begun: dict[tuple[str, bool], Callable] = {}

    def begin(self, name: str, several: bool) -> Callable:
        """One of them, a function of a state and what it takes, compiled in another thread.

        Args:
            name: which of `_PROGRAMS`.
            several: whether more than one mode is known.
        """
        # Steps of found sizes suit all modes; chains jump as they walk.
        which = name, several if name == "walk" else bool(self._state.warmup.modes)
        if which not in self._begun:
            takes = _taken(name, self._state)
            args, kwargs = self._data
            waits = name == "walk" and self._exact
            program = self._programs[which].begin(
                self._state, takes, args, kwargs, is_waited_for=waits
            )
            assert program is not None
            self._begun[which] = program
        return self._begun[which]


def _advanced(
    run: _Programs, state: Any, kind: str, several: bool, count: int, places: bool, descends: bool
) -> Any:
    """The state after some draws of a stage, and what they ask for between them.

    Args:
        run: the programs.
        state: the state before.
        kind: the program of the draws.
        several: whether more than one mode is known.
        count: how many draws are to be made.
        places: whether anchors are placed after the last of them.
        descends: whether the stage is a descent.
    """
    while count:
        draws = run.begin(kind, several)
        state, mean, made, asks = draws(state, (np.int32(count), np.bool_(places)))
        count -= int(everywhere(made))
        if places and not count:
            state, asks = run.begin("anchor", several)(state, (mean, np.bool_(descends)))
        if everywhere(asks):
            state = run.begin("follow", several)(state, np.int32(0))
    return state


def _taken(name: str, state: Any) -> Any:
    """Something like what a program takes beside the state."""
    if name in ("search", "follow"):
        return np.int32(0)
    if name == "anchor":
        return state.sampler.chain.position, np.bool_(False)
    return np.int32(0), np.bool_(False)


def say_how_long(
    parts: Parts, state: Any, num_warmup: int, seconds: float, shows_bar: bool
) -> None:
    """Say how long a run is going to take at least, where that is more than a minute.

    It is a line above the progress bar, and a warning above ten minutes.

    Args:
        parts: the parts of the kernel.
        state: the first state of one chain or of all.
        num_warmup: draws of warm-up.
        seconds: those of an evaluation of energy and gradient.
        shows_bar: whether there is a progress bar.

    Warns:
        UserWarning: it is going to take more than ten minutes.
    """
    plan = parts.plan
    assert plan is not None
    length, after, least = max(num_warmup, plan.least), _A_RUN, parts.num_steps
    steps = length * least
    if state.warmup.draw_length:
        least = _FEWEST_STEPS
        after += min(num_warmup, DRAWS)
        shares = [(end - begin) * parts.num_steps for _, begin, end in _stages(plan, length)]
        steps = sum(min(s.enough_steps, share) for s, share in zip(plan.stages, shares))
    chains = math.prod(np.shape(state.warmup.iteration))
    minutes = (steps + after * least) * chains * seconds / 60
    text = (
        f"A gradient takes {1000 * seconds:.3g} ms, so that {chains} "
        f"{'chain needs' if chains == 1 else 'chains need'} at least {minutes:.0f} "
        f"{'minute' if round(minutes) == 1 else 'minutes'} for the warm-up and {_A_RUN:,} draws. "
        "Fewer draws (`num_warmup`, `num_samples`), fewer steps in each (`num_steps`) or "
        "minibatches (`minibatch_size`) make it shorter."
    )
    if minutes > _LONG:
        warn_user(text)
    elif minutes > 1 and shows_bar:
        tqdm.write(text, file=sys.stderr)


def _paced(parts: Parts, state: Any, number: int, draws: int) -> tuple[Any, int, int]:
    """The state before a stage, with a length of the warm-up that gives the stage what is enough.

    Args:
        parts: the parts of the kernel.
        state: the state before.
        number: of the stage.
        draws: the stage's share of the warm-up, which is the most.

    Returns:
        The state, and the draws of the warm-up between which the stage is.
    """
    warmup, plan = state.warmup, parts.plan
    assert plan is not None
    stage, enough = plan.stages[number], plan.stages[number].enough_steps
    if number > plan.stages.index(TUNE):
        times = stage.enough_times
        if stage.measures and warmup.tuning.frame:
            # A matrix takes more than its diagonal.
            times += _TIMES_OF_A_ROW * warmup.tuning.preconditioner.shape[-1]
        slowest = int(np.asarray(everywhere(warmup.draw_length.number)).max())
        enough = max(enough, times * slowest)
    draws = min(draws, math.ceil(enough / parts.num_steps))
    length, begin, end = plan.pace(number, draws)
    of_all = partial(np.full, np.shape(warmup.length), dtype=np.int32)
    warmup = warmup._replace(length=of_all(length), iteration=of_all(begin))
    return state._replace(warmup=warmup), begin, end


def _ended(state: Any, num_warmup: int, length: int, several: bool) -> Any:
    """The state after the last draw, without what is not needed any more."""
    warmup = without_scratch(state.warmup)
    of_all = lambda number: jnp.asarray(np.full(np.shape(warmup.idle), number, np.int32))
    taken, idle = of_all(length), of_all(num_warmup)
    warmup = warmup._replace(idle=idle, length=taken, iteration=taken)
    # Chains that run one after the other have states of one form, whatever each of them has found.
    if warmup.modes and not (several or is_prng_key(state.rng_key)):
        warmup = warmup._replace(modes=(), jumps=())
    if warmup.draw_length:
        room = no_draws(warmup.tuning.preconditioner.shape[-1])
        chains = np.shape(warmup.iteration)
        draws = jnp.asarray(np.broadcast_to(room, chains + room.shape))
        length = warmup.draw_length._replace(draws=draws)
        warmup = warmup._replace(draw_length=length)
    return state._replace(warmup=warmup)


def _strong(leaf: Any) -> Any:
    is_weak = getattr(leaf, "weak_type", False)
    return lax.convert_element_type(leaf, leaf.dtype) if is_weak else leaf


def _kind(stage: Stage, walks: bool) -> str:
    """The program that makes the draws of a stage, in which chains walk or descend."""
    if not walks:
        return "descend"
    return "measure" if stage.measures else "walk"


def _ahead(plan: Plan, number: int, searched: bool, jumps: bool, anchors: bool) -> tuple[str, ...]:
    """What is compiled from the start of a stage on, by its number.

    Whether chains jump as they walk is not known before a search.
    """
    walk = () if all(stage.measures for stage in plan.stages) else ("walk",)
    if searched:
        return walk
    first = ["anchor"] if anchors else []
    first += ["measure", "search"] if jumps else ["measure"]
    return {0: tuple(first), 2: walk}.get(number, ())


def _stages(plan: Plan, length: int) -> list[tuple[Stage, int, int]]:
    """The stages, each with the draws at which it begins and ends."""
    ends = plan.bounds_of(length)
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
    one: Callable, parts: Parts, several: bool, state: Any, limits: tuple, args: tuple, kwargs: dict
) -> tuple[Any, jax.Array, jax.Array, jax.Array]:
    """Draws, each by `(chains, state) -> state` without the modes, until noise asks for an anchor.

    Args:
        one: makes one of them.
        parts: the parts of the kernel.
        several: whether more than one mode may be known.
        state: the state before.
        limits: the most draws, and whether an anchor is placed after the last of them.
        args: arguments of the model.
        kwargs: its keyword arguments.

    Returns:
        The state, the mean position of the stage before the last draw, how many draws were made,
        and whether noise asks for an anchor.
    """
    count, places = limits

    def draw(carry: tuple) -> tuple:
        state, _, made, _ = carry
        chains, state = AllChains.of(parts, args, kwargs, state, several)
        mean = chains.mean_of_stage(state)
        after = one(chains, chains.suited(state))
        noted, asks = chains.noted(after)
        early = places & (made + 1 == count)
        if after.warmup.anchors:
            # After one has been placed it is noted with that.
            noted = tree_where(early, after.warmup, noted.warmup)
            noted, asks = after._replace(warmup=noted), asks & ~early
        noted = _counted(noted, 1)
        return chains.join(noted, chains.asked(~(early | asks))), mean, made + 1, asks

    chains, _ = AllChains.of(parts, args, kwargs, state, several)
    begin = state, chains.mean_of_stage(state), jnp.zeros((), jnp.int32), jnp.zeros((), bool)
    return lax.while_loop(lambda carry: (carry[2] < count) & ~carry[3], draw, begin)


def _counted(state: Any, draws: int) -> Any:
    """The state with a number of draws more."""
    warmup = state.warmup._replace(iteration=state.warmup.iteration + draws)
    return state._replace(warmup=warmup)


def _descended(chains: AllChains, state: Any) -> Any:
    """A draw of a descent."""
    return chains.rescued(state, chains.measured(state, True))


def _measured(chains: AllChains, state: Any) -> Any:
    """A draw of tuning steps."""
    return chains.measured(state, False)


def _walked(chains: AllChains, state: Any) -> Any:
    """A draw of the kernel's sampler in the warm-up."""
    return chains.warmed_up(*chains.sampled(state, True))


def _anchored(
    parts: Parts, several: bool, state: Any, ended: tuple, args: tuple, kwargs: dict
) -> tuple[Any, jax.Array]:
    """The state with the anchors that are placed after a stage, and whether noise asks for more."""
    chains, state = AllChains.of(parts, args, kwargs, _counted(state, -1), several)
    placed, asks = chains.noted(chains.anchored(state, *ended))
    return chains.join(_counted(placed, 1), chains.asked(~asks)), asks


def _followed(parts: Parts, several: bool, state: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """The state with less noise."""
    chains, state = AllChains.of(parts, args, kwargs, _counted(state, -1), several)
    return chains.join(_counted(chains.followed(state), 1), chains.asked())


def _searched(parts: Parts, several: bool, state: Any, _: Any, args: tuple, kwargs: dict) -> Any:
    """The state with the modes that a search finds."""
    chains, state = AllChains.of(parts, args, kwargs, state, several)
    return chains.join(state, chains.searched(chains.known, True, state))


_PROGRAMS: dict[str, Callable] = {
    "descend": partial(_draws, _descended),
    "measure": partial(_draws, _measured),
    "walk": partial(_draws, _walked),
    "search": _searched,
    "anchor": _anchored,
    "follow": _followed,
}
