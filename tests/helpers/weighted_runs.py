"""Weighted draws that several tests share: of one run, and in an InferenceData."""

import functools

import jax.numpy as jnp
import models
import numpy as np
import xarray as xr

from numpyro_contour import ContourSGLD, EnergyPartition, weighted_samples
from numpyro_contour.diagnostics import normalise
from numpyro_contour.examples import mixture
from numpyro_contour.output.equal_weights import weighted_of
from numpyro_contour.statistics.arviz_versions import from_datasets, to_datasets

PARTITION = EnergyPartition(0.0, 20.0, 40)


@functools.cache
def mixture_run(partition=PARTITION, chains=8, draws=1000, seed=0):
    """Draws and raw log weights; half of the chains start in each mode."""
    kernel = ContourSGLD(
        potential_fn=mixture.potential,
        step_size=0.1,
        num_steps=250,
        partition=partition,
        collect_theta=False,
    )
    mcmc = models.run(
        kernel,
        seed,
        warmup=100,
        samples=draws,
        init_params=jnp.where(jnp.arange(chains) % 2, 4.0, -6.0),
        chains=chains,
        chain_method="vectorized",
    )
    x, log_weights = weighted_samples(mcmc)
    raw = np.asarray(mcmc.get_extra_fields(group_by_chain=True)["log_weight"], np.float64)
    np.testing.assert_allclose(normalise(raw).log_weights, log_weights, atol=1e-12)
    return np.asarray(x, np.float64), raw


def weighted_only(idata):
    """The weighted draws under the plain names, without those of equal weight."""
    return from_datasets(weighted_of(to_datasets(idata)))


def weighted_idata(log_weights, **posterior):
    """An InferenceData or DataTree of these draws."""
    chains, draws = log_weights.shape
    numbers = {"chain": np.arange(chains), "draw": np.arange(draws)}

    def dataset(values):
        dims = lambda name, x: ("chain", "draw", *(f"{name}_dim_{i}" for i in range(x.ndim - 2)))
        return xr.Dataset({n: (dims(n, x), x) for n, x in values.items()}, numbers)

    return from_datasets(
        {"posterior": dataset(posterior), "sample_stats": dataset({"log_weight": log_weights})}
    )
