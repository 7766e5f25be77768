"""What a kernel says of itself: its settings, and how far a run is."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import jax
import numpy as np

from numpyro_contour.core.arrays.hosts import is_here
from numpyro_contour.kernels.parts.parts import Parts
from numpyro_contour.schedules import Constant
from numpyro_contour.warmup.stages.draw_length import steps_of
from numpyro_contour.warmup.stages.plan import Plan


def with_settings(parts: Parts) -> str:
    """The name of the model and all settings, as arguments of a call."""
    model = parts.source.model
    of = "potential_fn" if model is None else getattr(model, "__name__", "model")
    return ", ".join([of, *(f"{name}={_short(value)}" for name, value in parts.settings.items())])


def progress_text(parts: Parts, state: Any) -> str:
    """The text of the progress bar: the stage of the warm-up, and where the chains are."""
    chains = np.shape(state.step_size)
    if not is_here(state.rng_key):  # to gather the chains for each draw would take longer than it
        return f"{chains[0]} chains on {jax.process_count()} hosts"
    steps = int(np.max(steps_of(parts.num_steps, state.warmup)))
    text = parts.method.progress_text(state)
    text = f"{_stage(parts.plan, state)}{text}, {steps} {'step' if steps == 1 else 'steps'} a draw"
    return f"{chains[0]} chains: {text}" if chains else text


def is_asked_by_the_progress_bar() -> bool:
    """Whether NumPyro asks the caller in order to write the text of the progress bar.

    It writes that of several chains that run together only where the kernel is one of an ensemble.
    It asks for this once more where a run goes on, to give all of them one random key, which is not
    to happen here. The function that asks tells one from the other. Should its name change, the bar
    shows the count of draws alone.
    """
    caller = sys._getframe(2)
    return caller.f_code.co_qualname.startswith("MCMC._single_chain_mcmc.")


def numpyro_shows_a_bar() -> bool:
    """Whether the run of NumPyro's in which the caller is called has a progress bar.

    NumPyro does not say so to its kernels. Should the name of its function change, there is no bar.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_qualname == "MCMC._single_chain_mcmc":
            return bool(frame.f_locals["self"].progress_bar)
        frame = frame.f_back
    return False


def warmup_text(parts: Parts, state: Any) -> str:
    """The text of the progress bar of a warm-up on the host."""
    modes = state.warmup.modes
    number = int(modes.modes.known.sum()) if modes and is_here(state.rng_key) else 0
    known = f", {number} {'mode' if number == 1 else 'modes'}" if number else ""
    return progress_text(parts, state) + known


def _stage(plan: Plan | None, state: Any) -> str:
    """The stage of the warm-up, of which all chains are in the same; "" after it."""
    if plan is None:
        return ""
    draw, length = (np.ravel(x)[0] for x in (state.warmup.iteration, state.warmup.length))
    return f"{plan.names[int(plan.progress(draw, length).number)]}, " if draw < length else ""


def _short(value: Any) -> str:
    if isinstance(value, Constant):
        return f"{value.value:g}"
    return getattr(value, "__qualname__", None) or repr(value)
