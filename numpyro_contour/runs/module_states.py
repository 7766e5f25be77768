"""The states of a model's modules at the draws of a finished run."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

import jax
import numpy as np
import numpyro
from tqdm.auto import tqdm

from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.models.jit_on_data import JittedOnData
from numpyro_contour.models.module_state import State, in_training, state_over_all_rows, with_state
from numpyro_contour.runs.finished_run import FinishedRun

# Seconds after which a progress bar appears.
_PATIENCE = 2.0


def module_states(run: FinishedRun) -> State:
    """The states over all rows at each draw, arrays (chains, draws, ...); {} without modules.

    They are computed once per run, with a progress bar: each takes a pass over the rows.
    """
    if "module_states" not in run.computed:
        run.computed["module_states"] = _compute(run)
    return run.computed["module_states"]


def _compute(run: FinishedRun) -> State:
    if not run.potential(run.model_args, run.model_kwargs).has_state:
        return {}

    def of_draw(values: dict, _: Any, args: tuple, kwargs: dict) -> State:
        potential = run.potential(args, kwargs)

        def evaluate(state: State | None, rows: Any) -> with_state:
            valued = numpyro.handlers.substitute(potential.rows(rows), data=values)
            model = with_state(valued, state)
            model(*potential.model_args, **potential.model_kwargs)
            return model

        return state_over_all_rows(potential.plates, evaluate)

    compiled = JittedOnData(of_draw)
    found = []
    places = [(chain, draw) for chain in range(run.num_chains) for draw in range(run.num_draws)]
    bar = tqdm(places, "states of modules", disable=not run.progress_bar, delay=_PATIENCE)
    for place in bar:
        values = jax.tree.map(itemgetter(place), latent(run, run.samples))
        found.append(everywhere(compiled(values, None, run.model_args, run.model_kwargs)))
    stacked = jax.tree.map(lambda *x: np.stack(x), *found)
    return jax.tree.map(lambda x: x.reshape(run.num_chains, -1, *x.shape[1:]), stacked)


def latent(run: FinishedRun, samples: dict) -> dict:
    """The values of latent sites: deterministic ones would not follow the rows that are taken."""
    return {name: samples[name] for name in run.like}


def after_training(model: Callable, values: Any, state: State) -> Callable:
    """A model at one draw, with modules and augmentations as they are after training.

    Args:
        model: a model.
        values: the values of its latent sites, by name.
        state: the states of its modules at the draw.
    """
    valued = numpyro.handlers.substitute(model, data=values)
    return in_training(with_state(valued, state), value=False)
