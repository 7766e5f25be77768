"""Draws with weights say so where NumPyro shows them: `mcmc.get_samples()` and its table."""

import pickle

import arviz as az
import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import Predictive

import numpyro_contour
from numpyro_contour import SGLD, ContourSGLD, EnergyPartition, to_inference_data, weighted_samples

# The runs are short: their warnings are true.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

Y = np.random.default_rng(0).normal(1.0, 1.0, 12)


def model(y):
    a = numpyro.sample("a", dist.Normal(0, 3))
    numpyro.deterministic("twice", 2 * a)
    numpyro.sample("y", dist.Normal(a, 1), obs=y)


# Given, as a warm-up would take most of the time and has no part in this.
STEP = {"step_size": 0.01}
GIVEN = STEP | {"partition": EnergyPartition(15.0, 45.0, 30)}


def weighted_run(name, chains=2):
    kernel = getattr(numpyro_contour, name)(model, num_steps=20, **GIVEN)
    return models.run(kernel, 0, Y, warmup=60, samples=40, chains=chains)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ContourSGLD", "ContourSGHMC"])
def test_the_log_weight_stands_beside_the_sites(name, capsys):
    mcmc = weighted_run(name)
    samples = mcmc.get_samples(group_by_chain=True)
    assert set(samples) == {"a", "twice", "log_weight"}
    np.testing.assert_array_equal(
        samples["log_weight"], mcmc.get_extra_fields(group_by_chain=True)["log_weight"]
    )
    mcmc.print_summary()
    assert "log_weight" in capsys.readouterr().out
    assert "log_weight" in az.from_numpyro(mcmc)["posterior"]

    # By them the draws are the posterior's, and our own outputs have no such site.
    ours, log_weights = weighted_samples(mcmc)
    assert set(ours) == {"a", "twice"}
    weights = np.exp(samples["log_weight"])
    np.testing.assert_allclose(
        weights / weights.mean(1, keepdims=True), np.exp(log_weights), rtol=1e-4
    )
    for group in ("posterior", "weighted_posterior"):
        assert set(to_inference_data(mcmc)[group].data_vars) == {"a", "twice"}


@pytest.mark.slow
def test_what_takes_numpyros_samples_goes_on():
    mcmc = weighted_run("ContourSGLD", chains=1)
    drawn = Predictive(mcmc.sampler.model, mcmc.get_samples())(jax.random.key(1), None)
    assert set(drawn) == {"twice", "y"}
    again = pickle.loads(pickle.dumps(mcmc))
    np.testing.assert_array_equal(again.get_samples()["a"], mcmc.get_samples()["a"])
    mcmc.post_warmup_state = mcmc.last_state
    mcmc.run(jax.random.key(2), Y)
    assert set(mcmc.get_samples()) == {"a", "twice", "log_weight"}
    assert set(mcmc.last_state.z) == {"a"}


@pytest.mark.slow
def test_a_site_of_that_name_is_the_models_own():
    def same_name(y):
        weight = numpyro.sample("log_weight", dist.HalfNormal(3))
        numpyro.sample("y", dist.Normal(weight, 1), obs=y)

    def derived(y):
        a = numpyro.sample("a", dist.Normal(0, 3))
        numpyro.deterministic("log_weight", a**2)
        numpyro.sample("y", dist.Normal(a, 1), obs=y)

    for made, sites in ((same_name, {"log_weight"}), (derived, {"a", "log_weight"})):
        mcmc = models.run(ContourSGLD(made, num_steps=5, **GIVEN), 0, Y, warmup=60, samples=20)
        values = mcmc.get_samples()["log_weight"]
        assert (values >= 0).all()
        ours = weighted_samples(mcmc)[0]
        assert set(ours) == sites
        np.testing.assert_array_equal(ours["log_weight"][0], values)


def test_draws_of_equal_weight_and_arrays_have_none():
    mcmc = models.run(SGLD(model, num_steps=5, **STEP), 0, Y, warmup=40, samples=20)
    assert set(mcmc.get_samples()) == {"a", "twice"}
    kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, num_steps=5, **GIVEN)
    mcmc = models.run(kernel, 0, warmup=60, samples=20, init_params=jnp.zeros(()))
    assert mcmc.get_samples().shape == (20,)
