"""Runs that are right and are called so: data in small units, and a run that goes on."""

import functools

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from numpyro.infer import MCMC
from tiers import in_second_tier, in_third_tier

import numpyro_contour
from numpyro_contour import diagnose, summary, to_inference_data

ROWS = 50
kernels = pytest.mark.parametrize("name", ["SGLD", in_second_tier("ContourSGLD")])


def in_units(y, unit):
    mu = numpyro.sample("mu", dist.Normal(0, 10 * unit))
    scale = numpyro.sample("scale", dist.HalfNormal(3 * unit))
    with numpyro.plate("rows", len(y)) as idx:
        numpyro.sample("y", dist.Normal(mu, scale), obs=y[idx])


def data(unit):
    y = 3 + random.normal(random.key(0), (ROWS,))
    return y * unit, jnp.float32(unit)


@functools.cache
def mcmc_of(name):
    """One `MCMC`, which is compiled for all units."""
    kernel = getattr(numpyro_contour, name)(in_units)
    how = {"num_chains": 4, "chain_method": "vectorized", "jit_model_args": True}
    return MCMC(kernel, num_warmup=150, num_samples=150, progress_bar=False, **how)


def assert_right(mcmc, unit):
    """The posterior of the mean is a t of ROWS - 1 degrees, nearly; and no fault is found."""
    idata = to_inference_data(mcmc)
    assert diagnose(idata).headline == "No fault was found."
    y = np.asarray(data(1.0)[0], float)
    table = summary(idata, ["mu"], round_to="none") / unit
    sd = y.std() / (ROWS - 3) ** 0.5
    # The prior moves the mean by 1e-3 of a standard deviation.
    assert abs(float(table.loc["mu", "mean"]) - y.mean()) < 4 * float(table.loc["mu", "mcse_mean"])
    assert abs(float(table.loc["mu", "sd"]) / sd - 1) < 0.15


@pytest.mark.slow
@kernels
@pytest.mark.parametrize("unit", [in_third_tier(1e-6), 1e-12])
def test_data_in_small_units(name, unit):
    """Chains start some 1e12 standard deviations away, as NumPyro starts them."""
    mcmc = mcmc_of(name)
    mcmc.post_warmup_state = None
    mcmc.run(random.key(1), *data(unit))
    assert_right(mcmc, unit)


@pytest.mark.slow
@kernels
def test_a_healthy_run_that_goes_on_is_healthy(name):
    mcmc = mcmc_of(name)
    mcmc.post_warmup_state = None
    mcmc.run(random.key(2), *data(1.0))
    first = mcmc.get_samples()["mu"]
    mcmc.post_warmup_state = mcmc.last_state
    mcmc.run(random.key(3), *data(1.0))
    assert not np.allclose(first, mcmc.get_samples()["mu"])
    assert_right(mcmc, 1.0)


@pytest.mark.slow
@kernels
def test_a_run_that_goes_on_with_other_data_is_told_so(name):
    """The sampler itself recovers in a few draws, so that nothing else need look wrong."""
    mcmc = mcmc_of(name)
    mcmc.post_warmup_state = None
    mcmc.run(random.key(2), *data(1.0))
    mcmc.post_warmup_state = mcmc.last_state
    y, unit = data(1.0)
    mcmc.run(random.key(3), y.at[7].add(1e-3), unit)
    idata = to_inference_data(mcmc)
    assert diagnose(idata).headline == "1 fault: warm-up."
    found = diagnose(idata)["warm-up"].text
    assert "went on from the state of a run on other data" in found
    assert "`mcmc.post_warmup_state = None`" in found
