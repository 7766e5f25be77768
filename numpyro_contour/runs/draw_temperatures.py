"""The temperature of each draw, where a schedule changes it during the run."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.schedules import Constant


def draw_temperatures(run: FinishedRun) -> tuple[np.ndarray, np.ndarray] | None:
    """The lowest and the highest temperature of the steps that each draw stands for.

    Two arrays (chains, draws); None where the temperature is a number.
    """
    temperature = run.temperature
    if isinstance(temperature, Constant):
        return None
    per_draw = run.settings["num_steps"]
    stride = per_draw * run.thinning
    # The last draw is always collected: count back from it.
    back = stride * np.arange(run.num_draws)[::-1]
    ends = np.asarray(run.state.steps)[:, None] - back
    first = int(ends.min()) - per_draw
    made = np.asarray(jax.vmap(temperature)(jnp.arange(first, int(ends.max()))))
    steps = ends[..., None] - first - 1 - np.arange(per_draw)
    of_steps = made[steps]
    return of_steps.min(-1), of_steps.max(-1)


def at_final_temperature(run: FinishedRun) -> np.ndarray | None:
    """Whether each draw was made at the temperature of the last one, (chains, draws).

    None where the temperature is a number. Draws at another temperature have another density.
    """
    found = draw_temperatures(run)
    if found is None:
        return None
    return are_final(*found)


def are_final(lowest: np.ndarray, highest: np.ndarray) -> np.ndarray:
    """Whether draws were made at the temperature of the last one, by those of their steps."""
    final = highest[:, -1:]
    return (lowest == final) & (highest == final)


def final_temperature(run: FinishedRun) -> float:
    """The temperature of the draws that have weight."""
    found = draw_temperatures(run)
    if found is not None:
        return float(found[1][0, -1])
    assert isinstance(run.temperature, Constant)
    return run.temperature.value
