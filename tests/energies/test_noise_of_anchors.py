"""The noise of gradients that kernels correct for is that of the anchors that serve them."""

import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random

from numpyro_contour import ReplicaExchangeSGHMC

ROWS, COLUMNS, CHAINS = 2000, 6, 4


def logistic(x, y):
    beta = numpyro.sample("beta", dist.Normal(0, 3).expand([COLUMNS]).to_event(1))
    with numpyro.plate("rows", ROWS, subsample_size=100) as idx:
        numpyro.sample("y", dist.Bernoulli(logits=x[idx] @ beta), obs=y[idx])


def data():
    x = random.normal(random.key(0), (ROWS, COLUMNS))
    return x, 1.0 * random.bernoulli(random.key(1), jax.nn.sigmoid(x @ jnp.linspace(-2, 2, 6)))


@pytest.mark.long
def test_the_noise_is_told_anew_where_another_order_begins():
    """Hot replicas ask for the second order when the noise of the first has been measured.

    What is injected is less by the noise that is told, times ten with momentum. By that of the
    first order draws of a regression had standard deviations 6 % too small.
    """
    kernel = ReplicaExchangeSGHMC(logistic, num_steps=50)
    mcmc = models.run(
        kernel, 0, *data(), chains=CHAINS, chain_method="vectorized", warmup=150, samples=40
    )
    state = mcmc.last_state
    warmup = state.warmup._replace(modes=())
    assert (np.asarray(warmup.anchors.order) == 2).all()

    like = jax.tree.map(lambda x: x[0], state.z)
    energy = kernel.energies(like, data(), {}).of_chains(warmup)
    keys = random.split(random.key(3), 50)
    draws = mcmc.get_samples(group_by_chain=True)["beta"][:, ::4]

    def noise(warmup, draws):
        of_draw = lambda x: jax.vmap(lambda key: energy(warmup)(key, x)[1])(keys).var(0)
        return jax.vmap(of_draw)(draws).mean(0)

    found = np.asarray(jax.vmap(noise)(warmup, draws))
    told = np.asarray(state.warmup.tuning.gradient_noise)
    # As it was measured for the first order it is 170 times too large.
    assert 0.3 < np.median(found / told) < 3
