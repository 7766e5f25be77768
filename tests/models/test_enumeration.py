"""Enumerated discrete sites against the same models with the sums written out."""

import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from tiers import in_second_tier

from numpyro_contour import ContourSGLD, EnergyPartition
from numpyro_contour.models.model_potential import ModelPotential

ROWS, GROUPS = 60, 12
Y = random.normal(random.key(0), (ROWS, GROUPS)) + 3.0 * (jnp.arange(ROWS) < 20)[:, None]
LOCATIONS = jnp.array([0.0, 3.0])


def rows(written_out, minibatch):
    """One plate: which of two components each row comes from."""
    share = numpyro.sample("share", dist.Beta(2.0, 2.0))
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    with numpyro.plate("rows", ROWS, subsample_size=minibatch) as idx:
        component(share, LOCATIONS + mu, Y[idx, 0], written_out)


def component(share, locations, y, written_out):
    probs = jnp.stack([1 - share, share])
    if written_out:
        parts = dist.Normal(locations, 1.0)
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(probs), parts), obs=y)
    else:
        k = numpyro.sample("k", dist.Categorical(probs), infer={"enumerate": "parallel"})
        numpyro.sample("y", dist.Normal(locations[k], 1.0), obs=y)


def nested(written_out, minibatch):
    share = numpyro.sample("share", dist.Beta(2.0, 2.0))
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    with (
        numpyro.plate("groups", GROUPS, subsample_size=4) as group,
        numpyro.plate("rows", ROWS, subsample_size=minibatch) as idx,
    ):
        component(share, LOCATIONS + mu, Y[idx[:, None], group], written_out)


def beside(written_out, minibatch):
    """A second plate, of another scale, and data outside all plates."""
    share = numpyro.sample("share", dist.Beta(2.0, 2.0))
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    numpyro.sample("once", dist.Normal(mu, 2.0), obs=1.0)
    with numpyro.plate("groups", GROUPS, subsample_size=3) as group:
        numpyro.sample("z", dist.Normal(mu, 1.0), obs=Y[0, group])
    with numpyro.handlers.scale(scale=0.5), numpyro.plate("rows", ROWS, subsample_size=minibatch):
        numpyro.sample("w", dist.Normal(mu, 1.0), obs=jnp.ones(minibatch))
    with numpyro.plate("cases", ROWS, subsample_size=minibatch) as idx:
        component(share, LOCATIONS + mu, Y[idx, 1], written_out)


@pytest.mark.parametrize("model", [rows, nested, beside])
@pytest.mark.parametrize("minibatch", [10, in_second_tier(ROWS)])
def test_a_minibatch_is_scaled_after_the_sum(model, minibatch):
    """NumPyro's own density is not: it is off by 0.1 % here, which biases the posterior."""
    position = {"share": jnp.array(0.3), "mu": jnp.array(0.2)}
    found, expected = (
        jax.jit(jax.value_and_grad(ModelPotential.of(model, (flag, minibatch)).minibatch, 1))(
            random.key(2), position
        )
        for flag in (False, True)
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for site in position:
        np.testing.assert_allclose(found[1][site], expected[1][site], rtol=1e-4, atol=1e-3)


@pytest.mark.slow
def test_the_sites_that_are_left_are_sampled():
    kernel = ContourSGLD(rows, step_size=1e-3, partition=EnergyPartition(90.0, 200.0, 20))
    mcmc = models.run(kernel, 0, False, 10)
    assert set(mcmc.get_samples()) == {"share", "mu", "log_weight"}
