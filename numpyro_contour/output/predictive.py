"""Predictions from weighted draws, and their means in bounded memory."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import random
from numpyro.infer import MCMC, Predictive
from tqdm.auto import tqdm

from numpyro_contour import checks
from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.models.disk.on_disk import IN_MEMORY, stored_of
from numpyro_contour.models.handlers import model_trace, record_plates, subsample_rows
from numpyro_contour.models.indexable_arrays import indexable
from numpyro_contour.models.jit_on_data import JittedOnData
from numpyro_contour.models.module_state import State
from numpyro_contour.output.weighted_samples import chosen_places, weighted_samples
from numpyro_contour.runs.at_draws import chunks
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.log_likelihood import axes_of_rows
from numpyro_contour.runs.module_states import after_training, latent, module_states
from numpyro_contour.statistics.resampling import METHODS
from numpyro_contour.statistics.weights import normalise


def predictive(
    mcmc: MCMC,
    rng_key: jax.Array,
    *model_args: Any,
    num_samples: int | None = None,
    return_sites: list[str] | None = None,
    **model_kwargs: Any,
) -> dict[str, jax.Array]:
    r"""Draws from the posterior predictive distribution, for these data or new ones.

    .. math:: p(\tilde y \mid y) = \int p(\tilde y \mid x)\, \pi(x)\, dx
              \approx \sum_i \bar w_i\, p(\tilde y \mid x_i)

    The model's subsample plates take all their rows.

    Args:
        mcmc: a `numpyro.infer.MCMC` with a kernel of this package, after `run`.
        rng_key: random key.
        *model_args: arguments of the model, with None for what is to be predicted.
        num_samples: None (default) for one prediction from each draw, **to be weighed as the
            draw is**; or this many of equal weight, from systematically resampled draws.
        return_sites: names of the sites to return. None (default) for all that are not latent.
        **model_kwargs: keyword arguments of the model.

    Returns:
        Arrays by name of site: (chains, draws, ...) with `num_samples=None`, which
        `to_inference_data` takes as `posterior_predictive` or `predictions` and `resample`,
        `summary` and `expectation` weigh; (num_samples, ...) otherwise.

    Raises:
        ValueError: as `weighted_samples`; or the kernel has no model; or the model's arguments do
            not fit it.

    Example:
        >>> import jax, jax.numpy as jnp, numpyro, numpyro.distributions as dist
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ContourSGLD, EnergyPartition, predictive
        >>> def model(n, y=None):
        ...     mu = numpyro.sample("mu", dist.Normal(0, 1))
        ...     with numpyro.plate("rows", n):
        ...         numpyro.sample("y", dist.Normal(mu, 1), obs=y)
        >>> kernel = ContourSGLD(model, step_size=0.01, partition=EnergyPartition(10.0, 30.0, 20))
        >>> mcmc = MCMC(kernel, num_warmup=2000, num_samples=100, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), 10, jnp.ones(10))
        >>> predictive(mcmc, jax.random.key(1), 3)["y"].shape
        (1, 100, 3)
        >>> predictive(mcmc, jax.random.key(1), 3, num_samples=50)["y"].shape
        (50, 3)
    """
    if num_samples is not None:
        checks.integer("num_samples", num_samples, at_least=1)
    run = FinishedRun.of(mcmc)
    model = run.model
    if model is None:
        raise ValueError("`mcmc` takes a run of a model, but this one was given `potential_fn`.")
    samples, log_weights = weighted_samples(mcmc)
    states = module_states(run)
    batch = 2
    if num_samples is not None:
        kept = chosen_places(log_weights, None)
        samples, states = jax.tree.map(lambda x: x[kept], (samples, states))
        log_weights = log_weights[kept]
        rng_key, key_choice = jax.random.split(rng_key)
        seed = jax.random.randint(key_choice, (), 0, 2**31 - 1)
        weights = normalise(log_weights).weights.ravel()
        chosen = METHODS["systematic"](np.random.default_rng(int(seed)), weights, num_samples)
        samples, states = jax.tree.map(
            lambda x: x.reshape(-1, *x.shape[2:])[chosen], (samples, states)
        )
        batch = 1
    try:
        inspect.signature(model).bind(*model_args, **model_kwargs)
    except TypeError as error:
        raise ValueError(
            "`model_args` takes the model's own arguments, with None for what is to be predicted: "
            f"predictive(mcmc, rng_key, *model_args); the model says: {error}."
        ) from None
    model_args, model_kwargs = indexable((model_args, model_kwargs))
    for array in stored_of((model_args, model_kwargs)):
        if array.nbytes >= IN_MEMORY:
            raise ValueError(
                f"`model_args` takes data that fit into memory, since all rows are predicted at "
                f"once, but got {array!r} on disk. Predict some rows, `X[:1000]`."
            )
    if not run.potential(run.model_args, run.model_kwargs).asks:
        predict = Predictive(
            model, posterior_samples=samples, batch_ndims=batch, return_sites=return_sites
        )
        return predict(rng_key, *model_args, **model_kwargs)
    shape = log_weights.shape if num_samples is None else (num_samples,)

    def of_draws(draws: tuple, _: Any, args: tuple, kwargs: dict) -> dict[str, jax.Array]:
        data = indexable((args, kwargs))

        def of_draw(chosen: tuple) -> dict[str, jax.Array]:
            key, draw = chosen
            found = predicted_sites(model, key, draw, data, return_sites)
            return {name: value for name, (value, _) in found.items()}

        # One draw after the other: networks take more memory than what they predict.
        return jax.lax.map(of_draw, draws)

    draws = latent(run, samples), states
    flat = jax.tree.map(lambda x: jnp.asarray(x).reshape(-1, *x.shape[batch:]), draws)
    keys = jax.random.split(rng_key, math.prod(shape))
    what = ("predictions", None if return_sites is None else tuple(return_sites))
    compiled = run.computed.setdefault(what, JittedOnData(of_draws))
    found = compiled((keys, flat), None, model_args, model_kwargs)
    return {name: x.reshape(*shape, *x.shape[1:]) for name, x in found.items()}


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
