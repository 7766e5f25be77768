"""Which plates of a model are subsampled, and whether the model allows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp

from numpyro_contour.models.handlers import model_trace, record_plates, subsample_rows
from numpyro_contour.models.plates import MinibatchSize, SubsamplePlates, plates_of


def find_subsample_plates(
    model: Callable,
    model_args: tuple = (),
    model_kwargs: dict | None = None,
    minibatch_size: MinibatchSize = None,
) -> SubsamplePlates:
    """The plates of a model that are subsampled, and by how much.

    Args:
        model: a NumPyro model.
        model_args: its arguments.
        model_kwargs: its keyword arguments.
        minibatch_size: None for the `subsample_size` that the model itself gives; an int for its
            only subsample plate, or, where it has none, for the only plate with observations; or
            `{plate: int}`. A minibatch as large as its plate is no subsampling.

    Raises:
        ValueError: `minibatch_size` names no plate of the model, is larger than the plate or
            could mean several plates; or a latent variable is inside a subsampled plate; or
            observations inside one do not follow its indices.
    """
    model_kwargs = {} if model_kwargs is None else model_kwargs
    recorder = record_plates(model)
    sites = model_trace(recorder, model_args, model_kwargs)
    plates = recorder.plates
    chosen = {
        name: minibatch
        for name, (size, minibatch) in plates.items()
        if minibatch is not None and minibatch != size
    }
    requested = _requested_sizes(minibatch_size, plates, chosen, sites)
    chosen.update(requested)
    for name, minibatch in chosen.items():
        if minibatch > plates[name][0]:
            given = "minibatch_size" if name in requested else "subsample_size"
            raise ValueError(
                f"`{given}` takes at most the size of the plate, {plates[name][0]} for "
                f"{name!r}, but got {minibatch}."
            )
    result = SubsamplePlates(
        {name: (plates[name][0], n) for name, n in chosen.items() if n < plates[name][0]},
        {name: n for name, n in chosen.items() if n == plates[name][0]},
    )
    if requested:
        sites = _trace_minibatch(model, model_args, model_kwargs, result, list(requested))
    _check_latents(sites, result)
    _check_observations(sites, result)
    return result


def _requested_sizes(
    minibatch_size: MinibatchSize,
    plates: Mapping[str, tuple[int, int | None]],
    subsampled: Mapping[str, int],
    sites: Mapping[str, Any],
) -> dict[str, int]:
    if minibatch_size is None:
        return {}
    if not plates:
        raise ValueError(
            f"`minibatch_size` takes a model with a plate of rows, but got {minibatch_size!r} and "
            'a model without plates: put its likelihood into `numpyro.plate("rows", N)`.'
        )
    known = ", ".join(f"{name!r} (size {size})" for name, (size, _) in plates.items())
    if isinstance(minibatch_size, Mapping):
        for name in minibatch_size:
            if name not in plates:
                raise ValueError(
                    f"`minibatch_size` takes the names of the model's plates ({known}), "
                    f"but got {name!r}."
                )
        return dict(minibatch_size)
    candidates = list(subsampled)
    if not candidates:
        candidates = _plates_with_observations_only(sites)
    if len(candidates) != 1:
        raise ValueError(
            f"`minibatch_size` takes a dict {{plate: int}} where an int could mean several plates "
            f"or none, but got {minibatch_size}; the model's plates are {known}."
        )
    return {candidates[0]: minibatch_size}


def _plates_with_observations_only(sites: Mapping[str, Any]) -> list[str]:
    observed: dict[str, None] = {}
    latent: set[str] = set()
    for site in sites.values():
        if site["type"] != "sample":
            continue
        if site["is_observed"]:
            observed.update(dict.fromkeys(plates_of(site)))
        elif not site["fn"].support.is_discrete:
            latent.update(plates_of(site))
    return [name for name in observed if name not in latent]


def _trace_minibatch(
    model: Callable, model_args: tuple, model_kwargs: dict, plates: SubsamplePlates, named: list
) -> dict[str, Any]:
    try:
        handled = subsample_rows(model, plates.first_rows())
        return model_trace(handled, model_args, model_kwargs)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"`minibatch_size` takes plates whose data follow the plate's indices, but with "
            f"{dict(plates.sizes)} (plate: (size, minibatch)) the model fails: {error}\n"
            f"Write `with numpyro.plate({named[0]!r}, N) as idx:` and use `X[idx]`, or "
            f"`numpyro.subsample(X, event_dim=...)` inside the plate."
        ) from error


def _check_latents(sites: Mapping[str, Any], plates: SubsamplePlates) -> None:
    for name, site in sites.items():
        if site["type"] != "sample" or site["is_observed"] or site["fn"].support.is_discrete:
            continue
        for plate in plates_of(site):
            if plate in plates.sizes:
                raise ValueError(
                    f"The latent variable {name!r} is inside the subsampled plate {plate!r}, so a "
                    f"minibatch would sample only some of it. Sample it outside the plate, with "
                    f"`.expand([N])`, and index it by the plate's indices inside; or do not "
                    f"subsample that plate."
                )


def _check_observations(sites: Mapping[str, Any], plates: SubsamplePlates) -> None:
    for name, site in sites.items():
        if site["type"] != "sample" or not site["is_observed"]:
            continue
        shape = jnp.shape(site["value"])
        for frame in site["cond_indep_stack"]:
            if frame.name not in plates.sizes:
                continue
            axis = len(shape) - len(site["fn"].event_shape) + frame.dim
            if axis >= 0 and shape[axis] not in (1, frame.size):
                raise ValueError(
                    f"The observations {name!r} inside the subsampled plate {frame.name!r} have "
                    f"{shape[axis]} rows where the minibatch has {frame.size}. Index them by the "
                    f"plate's indices, `y[idx]`, or use `numpyro.subsample(y, event_dim=...)`."
                )
