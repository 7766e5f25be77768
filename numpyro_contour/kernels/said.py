"""What a kernel says of itself: its settings, and how far a run is."""

from __future__ import annotations

from typing import Any

from numpyro_contour.adaptation.warmup import progress
from numpyro_contour.kernels.parts import Parts
from numpyro_contour.schedules import Constant


def with_settings(parts: Parts) -> str:
    """The name of the model and all settings, as arguments of a call."""
    model = parts.source.model
    of = "potential_fn" if model is None else getattr(model, "__name__", "model")
    return ", ".join([of, *(f"{name}={_short(value)}" for name, value in parts.settings.items())])


def progress_text(parts: Parts, state: Any) -> str:
    """The text of the progress bar: the stage of the warm-up, and where the chain is."""
    steps, plan = parts.num_steps, parts.plan
    text = parts.method.progress_text(state)
    text = f"{text}, {steps} {'step' if steps == 1 else 'steps'} a draw"
    if plan is None or int(state.warmup.iteration) >= int(state.warmup.length):
        return text
    return f"{plan.names[int(progress(plan, state.warmup).number)]}, {text}"


def _short(value: Any) -> str:
    if isinstance(value, Constant):
        return f"{value.value:g}"
    return getattr(value, "__qualname__", None) or repr(value)
