"""What is random in a model beside its latent sites is what NumPyro's own seed makes of it."""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from numpyro.infer.util import potential_energy

from numpyro_contour.models.handlers import subsample_rows
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.row_terms import terms

Y = jnp.linspace(-1.0, 1.0, 20)


def network(y):
    """A latent site before and after parameters that NumPyro draws by a key, and a plate."""
    a = numpyro.sample("a", dist.Normal(0, 1))
    w = random.normal(numpyro.prng_key(), (3,))
    b = numpyro.sample("b", dist.Gamma(2, 1))
    v = random.normal(numpyro.prng_key(), (3,))
    with numpyro.plate("rows", len(y), subsample_size=5) as rows:
        mean = jnp.tanh(y[rows, None] * w + a) @ v
        numpyro.sample("y", dist.Normal(mean, b), obs=y[rows])


@pytest.mark.slow
@pytest.mark.parametrize("of", ["terms", "at"])
def test_keys_are_those_of_numpyros_seed(of):
    rows = {"rows": jnp.array([1, 7, 7, 12, 3])}
    position = {"a": jnp.array(0.3), "b": jnp.array(-0.2)}
    potential = ModelPotential.of(network, (Y,))
    if of == "terms":
        found = sum(np.sum(x) for x in terms(potential, position, rows).values())
    else:
        found = potential.at(position, rows)
    seeded = subsample_rows(numpyro.handlers.seed(network, random.key(0)), rows)
    expected = potential_energy(seeded, (Y,), {}, position)
    assert float(found) == pytest.approx(float(expected), rel=1e-5)
    other = subsample_rows(numpyro.handlers.seed(network, random.key(1)), rows)
    assert abs(float(potential_energy(other, (Y,), {}, position)) - float(expected)) > 1
