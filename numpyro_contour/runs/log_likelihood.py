"""The log likelihood of every row of the data at every draw, in chunks of bounded memory."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import numpyro

from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.models.indexable_arrays import indexable
from numpyro_contour.models.jit_on_data import JittedOnData
from numpyro_contour.runs.chunks import chunks
from numpyro_contour.runs.finished_run import FinishedRun

# Values that one chunk of draws may have: 32 MB of float32.
_VALUES_A_CHUNK = 2**23


def log_likelihoods(run: FinishedRun) -> dict[str, np.ndarray]:
    """The log likelihood of each observed site over all rows, (chains, draws, rows...).

    Raises:
        ValueError: the model sums discrete variables out, so that NumPyro's log likelihood would
            be conditional on values of theirs that were never drawn.
    """
    args, kwargs = indexable((run.model_args, run.model_kwargs))
    if run.potential(args, kwargs).first_available_dim is not None:
        raise ValueError(
            "`log_likelihood` takes True only for models without enumerated discrete variables: "
            "the rows' likelihoods are sums over them. Write the mixture as "
            "`dist.MixtureSameFamily`."
        )

    def of_draws(draws: dict[str, jax.Array], _: Any, args: tuple, kwargs: dict) -> dict:
        args, kwargs = indexable((args, kwargs))
        return numpyro.infer.log_likelihood(run.model, draws, *args, **kwargs)

    samples = {name: x.reshape(-1, *x.shape[2:]) for name, x in run.samples.items()}
    draws = len(next(iter(samples.values())))
    first = jax.tree.map(lambda x: x[:1], samples)
    one = jax.eval_shape(lambda draws: of_draws(draws, None, args, kwargs), first)
    values = sum(site.size for site in one.values())
    at_once = max(1, _VALUES_A_CHUNK // max(values, 1))
    compiled = JittedOnData(of_draws)
    result = {name: np.empty((draws, *site.shape[1:]), site.dtype) for name, site in one.items()}
    for rows in chunks(draws, at_once):
        chosen = {name: x[rows] for name, x in samples.items()}
        part = everywhere(compiled(chosen, None, run.model_args, run.model_kwargs))
        for name, site in part.items():
            result[name][rows] = site
    return {
        name: site.reshape(run.num_chains, -1, *site.shape[1:]) for name, site in result.items()
    }
