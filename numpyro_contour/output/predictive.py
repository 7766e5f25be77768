"""Predictions from weighted draws."""

from __future__ import annotations

import inspect
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC, Predictive

from numpyro_contour import checks
from numpyro_contour.models.disk.on_disk import IN_MEMORY, stored_of
from numpyro_contour.models.indexable_arrays import indexable
from numpyro_contour.models.jit_on_data import JittedOnData
from numpyro_contour.output.chosen_chains import chosen_places
from numpyro_contour.output.predicted_sites import predicted_sites
from numpyro_contour.output.weighted_samples import weighted_samples
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.module_states import latent, module_states
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
