"""The log likelihood of every row of the data at every draw, in chunks of bounded memory."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro

from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.models.disk.on_disk import stored_of
from numpyro_contour.models.handlers import subsample_rows
from numpyro_contour.models.indexable_arrays import indexable
from numpyro_contour.models.jit_on_data import JittedOnData
from numpyro_contour.models.module_state import State
from numpyro_contour.runs.at_draws import chunks
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.module_states import after_training, latent, module_states

# Values that one chunk of draws may have: 32 MB of float32.
_VALUES_A_CHUNK = 2**23


def log_likelihoods(run: FinishedRun) -> dict[str, np.ndarray]:
    """The log likelihood of each observed site over all rows, (chains, draws, rows...).

    Raises:
        ValueError: the model sums discrete variables out, so that NumPyro's log likelihood would
            be conditional on values of theirs that were never drawn.
    """
    args, kwargs = indexable((run.model_args, run.model_kwargs))
    potential = run.potential(args, kwargs)
    if potential.first_available_dim is not None:
        raise ValueError(
            "`log_likelihood` takes True only for models without enumerated discrete variables: "
            "the rows' likelihoods are sums over them. Write the mixture as "
            "`dist.MixtureSameFamily`."
        )

    def of_draw(
        draw: tuple[dict, State], indices: dict[str, Any], args: tuple, kwargs: dict
    ) -> dict[str, jax.Array]:
        values, state = draw
        model = after_training(subsample_rows(run.model, indices), values, state)
        return numpyro.infer.log_likelihood(model, values, *args, batch_ndims=0, **kwargs)

    def of_draws(
        draws: tuple[dict, State], indices: dict[str, Any], args: tuple, kwargs: dict
    ) -> dict[str, jax.Array]:
        args, kwargs = indexable((args, kwargs))
        return jax.vmap(lambda draw: of_draw(draw, indices, args, kwargs))(draws)

    samples = (latent(run, run.samples), module_states(run))
    samples = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), samples)
    draws = len(jax.tree.leaves(samples)[0])
    first = jax.tree.map(lambda x: x[:1], samples)
    one = jax.eval_shape(lambda draws: of_draws(draws, {}, args, kwargs), first)
    values = sum(site.size for site in one.values())
    at_once = max(1, _VALUES_A_CHUNK // max(values, 1))
    compiled = JittedOnData(of_draws)
    result = {name: np.empty((draws, *site.shape[1:]), site.dtype) for name, site in one.items()}
    plates = potential.plates.sizes
    pieces: list[dict[str, Any]] = [{}]
    axes: dict[str, int] = {}
    if len(plates) == 1:
        ((plate, (size, _)),) = plates.items()
        rows_at_once = run.full_data(args, kwargs).rows_at_once()
        at_once = max(1, min(at_once, rows_at_once // size))
        if rows_at_once < size or stored_of((args, kwargs)):
            of_rows = lambda indices: of_draws(first, indices, args, kwargs)
            axes = axes_of_rows(jax.eval_shape(of_rows, {plate: jnp.arange(2)}), one)
            pieces = [{plate: part} for part in chunks(size, min(rows_at_once, _VALUES_A_CHUNK))]
    for rows in chunks(draws, at_once):
        chosen = jax.tree.map(itemgetter(rows), samples)
        for piece in pieces:
            indices = {plate: jnp.arange(part.start, part.stop) for plate, part in piece.items()}
            part = everywhere(compiled(chosen, indices, run.model_args, run.model_kwargs))
            for name, site in part.items():
                place = [rows, *[slice(None)] * (site.ndim - 1)]
                if name in axes:
                    place[axes[name]] = next(iter(piece.values()))
                result[name][tuple(place)] = site
    return {
        name: site.reshape(run.num_chains, -1, *site.shape[1:]) for name, site in result.items()
    }


def axes_of_rows(some: Mapping[str, Any], whole: Mapping[str, Any]) -> dict[str, int]:
    """The axis of each array along which rows are, by its shapes for some rows and for all.

    Args:
        some: arrays or shapes by name, of some rows.
        whole: those of all rows.

    Returns:
        Axes by name, without the arrays that do not depend on the number of rows.
    """
    return {
        name: axis
        for name, site in whole.items()
        for axis, (n, size) in enumerate(zip(some[name].shape, site.shape))
        if n != size
    }
