"""Nested sampling of jaxns with its defaults.

`numpyro.contrib.nested_sampling` imports modules that jaxns 3 no longer has, so jaxns is run by
itself.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxns.core import NestedSampler
from jaxns.model import Model
from jaxns.priors import Prior
from tensorflow_probability.substrates import jax as tfp

from benchmarks.peers.clock.drawn import After, Drawn
from benchmarks.peers.clock.posteriors import Data, Posterior
from benchmarks.peers.clock.priors import from_cube


def jaxns(posterior: Posterior, data: Data, seed: int) -> Drawn:
    """A run until the evidence is known, as its documentation starts one."""
    place = from_cube(posterior.priors, jax.scipy.special, jnp.stack)
    size = posterior.size

    def prior_model(*arrays: jax.Array) -> jax.Array:
        cube = tfp.distributions.Uniform(jnp.zeros(size), jnp.ones(size))
        u = Prior(cube, name="u").realise()
        return posterior.log_likelihood(place(u), arrays, jnp)

    sampler = NestedSampler(model=Model(prior_model=prior_model))
    state = sampler.run(key=jax.random.PRNGKey(seed), args=tuple(map(jnp.asarray, data)))
    found = state.to_result().trim()
    x = np.asarray(place(found.X_samples["u"]))
    log_weights = np.asarray(found.log_dp, np.float64)
    weights = np.exp(log_weights - log_weights.max())
    return Drawn(x, weights, lambda: After(float(found.total_num_likelihood_evaluations)))
