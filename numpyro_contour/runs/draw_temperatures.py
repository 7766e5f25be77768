"""The temperatures at which the draws of a run were made, where a schedule changes them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC

from numpyro_contour.core.arrays.vectors import by_chain
from numpyro_contour.schedules import Constant


def draw_temperatures(mcmc: MCMC) -> tuple[np.ndarray, np.ndarray] | None:
    """Of each draw the lowest and the highest temperature of the steps it stands for.

    Two arrays (chains, draws); None where the temperature is a number.
    """
    temperature = mcmc.sampler.settings["temperature"]
    if isinstance(temperature, Constant):
        return None
    per_draw = mcmc.sampler.settings["num_steps"]
    fields = mcmc.get_extra_fields(group_by_chain=True)
    draws = np.shape(fields["log_weight"])[1]
    stride = per_draw * mcmc.thinning
    # The last draw is always collected: count back from it.
    back = stride * np.arange(draws)[::-1]
    ends = by_chain(mcmc.last_state.sampler.chain.steps, 0)[:, None] - back
    first = int(ends.min()) - per_draw
    made = np.asarray(jax.vmap(temperature)(jnp.arange(first, int(ends.max()))))
    steps = ends[..., None] - first - 1 - np.arange(per_draw)
    of_steps = made[steps]
    return of_steps.min(-1), of_steps.max(-1)


def at_final_temperature(mcmc: MCMC) -> np.ndarray | None:
    """Whether each draw was made at the temperature of the last one, (chains, draws).

    None where the temperature is a number. Draws of other temperatures are of other densities.
    """
    found = draw_temperatures(mcmc)
    if found is None:
        return None
    lowest, highest = found
    final = highest[:, -1:]
    return (lowest == final) & (highest == final)
