"""Descents that begin with other labels find the copies of a mixture's modes."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from numpyro.infer import MCMC

from numpyro_contour import ContourSGLD, weighted_samples
from numpyro_contour.models import relabelling
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.relabelling import relabelling_of
from numpyro_contour.warmup import all_chains

CENTRES = np.array([-4.0, 0.0, 4.0])


def velocities(rows=150):
    rng = np.random.default_rng(0)
    return (CENTRES[rng.integers(0, 3, rows)] + rng.standard_normal(rows)).astype(np.float32)


def mixture(y):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
    means = numpyro.sample("means", dist.Normal(0, 5).expand([3]))
    each = dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(means, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", each, obs=y)


def position(seed):
    rng = np.random.default_rng(seed)
    return {"means": jnp.asarray(rng.normal(size=3)), "weights": jnp.asarray(rng.normal(size=2))}


@pytest.mark.slow
def test_other_labels_have_the_same_density():
    potential = ModelPotential.of(mixture, (velocities(),))
    like = position(0)
    relabel = relabelling_of(potential, like)
    vector = jnp.concatenate([like["means"], like["weights"]])
    simplex = dist.biject_to(dist.constraints.simplex)

    def density(vector):
        """Of the constrained values, without the volume of the transform."""
        z = {"means": vector[:3], "weights": vector[3:]}
        jacobian = simplex.log_abs_det_jacobian(z["weights"], simplex(z["weights"]))
        return float(potential.full(z) + jacobian)

    orders = set()
    for key in random.split(random.key(0), 40):
        there = relabel(key, vector)
        orders.add(tuple(np.asarray(there[:3]).tolist()))
        np.testing.assert_allclose(density(there), density(vector), rtol=1e-5)
        # Weights follow the means.
        order = [int(jnp.argmin(abs(vector[:3] - x))) for x in there[:3]]
        expected = simplex(vector[3:])[jnp.array(order)]
        np.testing.assert_allclose(simplex(there[3:]), expected, rtol=1e-4)
    assert len(orders) == 6


def test_what_has_no_labels_or_one_order_stays():
    def ordered():
        numpyro.sample("cuts", dist.Normal(0, 1).expand([3]))
        numpyro.sample(
            "levels",
            dist.TransformedDistribution(
                dist.Normal(0, 1).expand([2]), dist.transforms.OrderedTransform()
            ),
        )

    def scalar():
        numpyro.sample("a", dist.Normal(0, 1))

    none = relabelling_of(ModelPotential.of(scalar), {"a": jnp.zeros(())})
    assert none is None
    potential = ModelPotential.of(ordered)
    like = {"cuts": jnp.arange(3.0), "levels": jnp.array([0.5, -1.0])}
    relabel = relabelling_of(potential, like)
    vector = jnp.concatenate([like["cuts"], like["levels"]])
    for key in random.split(random.key(1), 20):
        there = relabel(key, vector)
        assert jnp.isfinite(there).all()
        if not jnp.array_equal(there, vector):
            np.testing.assert_allclose(there[3:], vector[3:], atol=1e-6)


def test_a_transform_without_an_inverse_has_no_labels(monkeypatch):
    def fails(*args, **kwargs):
        raise NotImplementedError

    potential = ModelPotential.of(mixture, (velocities(),))
    monkeypatch.setattr(relabelling, "unconstrain_fn", fails)
    assert relabelling_of(potential, position(0)) is None


def shares(seed=0):
    """The weight of each of the six orders in each of four chains."""
    kernel = ContourSGLD(mixture, num_steps=20)
    settings = {"num_chains": 4, "chain_method": "vectorized", "progress_bar": False}
    mcmc = MCMC(kernel, num_warmup=300, num_samples=500, **settings)
    mcmc.run(random.key(seed), velocities())
    x, log_weights = weighted_samples(mcmc)
    weights = np.exp(np.asarray(log_weights))
    order = np.argsort(np.asarray(x["means"]), -1)
    found = [
        (weights * (order == np.array(one)).all(-1)).sum(1) / weights.sum(1)
        for one in itertools.permutations(range(3))
    ]
    return np.stack(found)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*not to be trusted")
def test_every_chain_weighs_all_labellings(monkeypatch):
    found = shares()
    # A chain tries 1,000 jumps, most of them accepted: some hundred independent draws of labels.
    assert np.abs(found - 1 / 6).max() < 5 * np.sqrt(1 / 6 * 5 / 6 / 100)
    jax.clear_caches()
    monkeypatch.setattr(all_chains, "relabelling_of", lambda potential, like: None)
    assert (shares().max(1) < 0.01).any()
