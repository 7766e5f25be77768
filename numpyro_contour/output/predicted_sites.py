"""What a model predicts at one draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpyro

from numpyro_contour.models.module_state import State
from numpyro_contour.runs.module_states import after_training


def predicted_sites(
    model: Callable,
    key: jax.Array,
    draw: tuple[dict, State],
    data: tuple[tuple, dict],
    sites: Sequence[str] | None = None,
) -> dict[str, tuple[jax.Array, bool]]:
    """The sites of a model that are not latent, at one draw.

    Args:
        model: a model whose plates take the rows that are to be predicted.
        key: random key.
        draw: the values of the latent sites, and the states of the model's modules.
        data: arguments and keyword arguments of the model.
        sites: names of the sites. None (default) for all that are not latent.

    Returns:
        By name of site its value, and whether it was drawn or observed: False where the site is
        deterministic.

    Raises:
        ValueError: there is no such site.
    """
    values, state = draw
    seeded = numpyro.handlers.seed(after_training(model, values, state), key)
    found = numpyro.handlers.trace(seeded).get_trace(*data[0], **data[1])
    if sites is None:
        sites = [
            name
            for name, site in found.items()
            if site["type"] == "deterministic" or (site["type"] == "sample" and name not in values)
        ]
    known = [name for name, site in found.items() if site["type"] in ("sample", "deterministic")]
    for name in sites:
        if name not in known:
            raise ValueError(f"The model has no site {name!r}; it has {', '.join(known)}.")
    return {name: (found[name]["value"], found[name]["type"] == "sample") for name in sites}
