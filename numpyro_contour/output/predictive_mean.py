"""Means of what a model predicts over all draws, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import MCMC
from tqdm.auto import tqdm

from numpyro_contour import checks
from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.models.handlers import model_trace, record_plates, subsample_rows
from numpyro_contour.models.indexable_arrays import indexable
from numpyro_contour.models.jit_on_data import JittedOnData
from numpyro_contour.output.chosen_chains import chosen_places
from numpyro_contour.output.predicted_sites import predicted_sites
from numpyro_contour.output.weighted_samples import weighted_samples
from numpyro_contour.runs.axes_of_rows import axes_of_rows
from numpyro_contour.runs.chunks import chunks
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.module_states import latent, module_states
from numpyro_contour.statistics.weights import normalise

# Seconds after which a progress bar appears.
_PATIENCE = 2.0


def predictive_mean(
    mcmc: MCMC,
    *model_args: Any,
    sites: Sequence[str] | None = None,
    rows_at_once: int = 1000,
    rng_key: jax.Array | None = None,
    **model_kwargs: Any,
) -> dict[str, np.ndarray]:
    r"""The weighted mean over all draws of what a model predicts, for these data or new ones.

    .. math:: \hat p(\tilde y \mid y) = \sum_i \bar w_i\, p(\tilde y \mid x_i)

    This is the Bayesian model average of a network, where the model has its probabilities as a
    deterministic site. One draw is looked at after the other, and some rows of it at once, so that
    memory does not grow with the number of draws. A progress bar shows the draws.

    Args:
        mcmc: a `numpyro.infer.MCMC` with a kernel of this package, after `run`.
        *model_args: arguments of the model, with None for what is to be predicted.
        sites: names of the sites to average, whose values are numbers. None (default) for all
            deterministic sites.
        rows_at_once: the most rows of the model's subsampled plate that are evaluated together.
            Defaults to 1000.
        rng_key: random key, for sites that are drawn. None (default) for `random.key(0)`.
        **model_kwargs: keyword arguments of the model.

    Returns:
        Means in double precision by name of site, of the shape of the site.

    Raises:
        ValueError: as `weighted_samples`; or the kernel has no model; or there is no such site, or
            none at all.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import SGLD, predictive_mean
        >>> def model(x, y=None):
        ...     w = numpyro.sample("w", dist.Normal(0, 1))
        ...     with numpyro.plate("rows", len(x)) as idx:
        ...         p = numpyro.deterministic("p", jax.nn.sigmoid(w * x[idx]))
        ...         numpyro.sample("y", dist.Bernoulli(p), obs=None if y is None else y[idx])
        >>> mcmc = MCMC(SGLD(model), num_warmup=100, num_samples=200, progress_bar=False)
        >>> x = jnp.linspace(-2, 2, 50)
        >>> mcmc.run(jax.random.key(0), x, (x > 0).astype(int))
        >>> mean = predictive_mean(mcmc, jnp.array([-3.0, 3.0]))["p"]
        >>> bool(mean[0] < 0.2 and mean[1] > 0.8)
        True
    """
    checks.integer("rows_at_once", rows_at_once, at_least=1)
    run = FinishedRun.of(mcmc)
    if run.model is None:
        raise ValueError("`mcmc` takes a run of a model, but this one was given `potential_fn`.")
    key = random.key(0) if rng_key is None else rng_key
    data = indexable((model_args, model_kwargs))
    samples, log_weights = weighted_samples(mcmc)
    kept = chosen_places(log_weights, None)
    weights = normalise(log_weights[kept]).weights
    draws = latent(run, samples), module_states(run)
    wanted = None if sites is None else list(sites)

    def predict(draw: Any, rest: tuple, args: tuple, kwargs: dict) -> dict[str, jax.Array]:
        key, rows = rest
        model = subsample_rows(run.model, rows)
        found = predicted_sites(model, key, draw, indexable((args, kwargs)), wanted)
        return {name: value for name, (value, drawn) in found.items() if wanted or not drawn}

    first = jax.tree.map(lambda x: x[0, 0], draws)
    shapes_of = lambda rows: jax.eval_shape(lambda: predict(first, (key, rows), *data))
    whole = shapes_of({})
    if not whole:
        raise ValueError(
            "`sites` takes names of sites, but got None and a model without deterministic sites. "
            'Register what is to be averaged, `numpyro.deterministic("p", ...)`, or name sites.'
        )
    pieces: list[slice | None] = [None]
    plate, size = _plate(run, data)
    axes: dict[str, int] = {}
    if plate is not None and size > rows_at_once:
        axes = axes_of_rows(shapes_of({plate: jnp.arange(2)}), whole)
        pieces = list(chunks(size, rows_at_once))
    compiled = JittedOnData(predict)
    means = {name: np.zeros(site.shape) for name, site in whole.items()}
    places = list(np.ndindex(weights.shape))
    bar = tqdm(places, "predictions", disable=not run.progress_bar, delay=_PATIENCE)
    for number, (chain, place) in enumerate(bar):
        weight = weights[chain, place] / weights.size
        if weight == 0:
            continue
        draw = jax.tree.map(itemgetter((kept[chain], place)), draws)
        predicted = {name: np.zeros(site.shape) for name, site in whole.items()}
        for piece in pieces:
            rows = {} if piece is None else {plate: jnp.arange(piece.start, piece.stop)}
            key_now = random.fold_in(
                random.fold_in(key, number), 0 if piece is None else piece.start
            )
            found = everywhere(compiled(draw, (key_now, rows), *data))
            for name, values in found.items():
                before = (slice(None),) * axes.get(name, 0)
                predicted[name][(*before, piece) if name in axes else ...] = values
        for name, values in predicted.items():
            means[name] += weight * values
    return means


def _plate(run: FinishedRun, data: tuple[tuple, dict]) -> tuple[str | None, int]:
    """The only plate that the run subsamples, and its size for these data; None without one."""
    subsampled = list(run.potential(run.model_args, run.model_kwargs).plates.sizes)
    recorder = record_plates(run.model)
    model_trace(recorder, *data)
    if len(subsampled) != 1 or subsampled[0] not in recorder.plates:
        return None, 0
    return subsampled[0], recorder.plates[subsampled[0]][0]
