"""What a model may hold, as NUTS takes it: supports, starts, enumeration, `Predictive`, ArviZ."""

import functools
import warnings

import arviz as az
import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from numpyro.infer import (
    MCMC,
    NUTS,
    Predictive,
    init_to_feasible,
    init_to_mean,
    init_to_median,
    init_to_sample,
    init_to_uniform,
    init_to_value,
)
from scipy import stats
from tiers import in_second_tier, in_third_tier

from numpyro_contour import ContourSGLD, EnergyPartition, weighted_samples
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.row_terms import terms

one_kernel = pytest.mark.parametrize(
    "name", models.of_first_tier("ContourSGLD", among=models.KINDS)
)

STRATEGIES = {
    "feasible": init_to_feasible,
    "mean": init_to_mean,
    "median": init_to_median(num_samples=5),
    "sample": init_to_sample,
    "uniform": init_to_uniform(radius=0.5),
    "value": init_to_value(values={"scale": 0.25, "inside": 0.5, "upper": 2.0}),
}


# --------------------------------------------------------------------------- where chains start


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy",
    [s if s == "value" else in_third_tier(s) for s in STRATEGIES],
)
def test_init_strategies(strategy):
    X, y = models.constrained_data(rows=20)
    kernel = models.constrained_kernel("ContourSGLD", init_strategy=STRATEGIES[strategy])
    state = kernel.init(random.key(0), 0, None, (X, y), {})
    found = kernel.postprocess_fn((X, y), {})(state.z)
    if strategy == "value":
        assert found["scale"] == pytest.approx(0.25)
        assert found["upper"] == pytest.approx(2.0)
    if strategy == "feasible":
        assert all(np.allclose(z, 0.0, atol=1e-6) for z in state.z.values())
    if strategy == "mean":
        assert found["scale"] == pytest.approx(dist.HalfNormal(1.0).mean)
        np.testing.assert_allclose(found["shares"], 1 / 3, rtol=1e-5)
    if strategy == "uniform":
        assert max(np.abs(z).max() for z in state.z.values()) <= 0.5
    other = kernel.init(random.key(1), 0, None, (X, y), {})
    random_start = strategy in ("median", "sample", "uniform", "value")
    assert models.equal(state.z, other.z) != random_start


@pytest.mark.slow
@one_kernel
@pytest.mark.parametrize("chains", [in_third_tier(1), 3])
def test_init_params_are_where_the_chains_start(name, chains):
    shape = () if chains == 1 else (chains,)
    start = {"mu": 0.1 * jnp.arange(chains, dtype=float).reshape(shape)}
    kernel = models.normal_kernel(name, step_size=1e-12)
    method = "sequential" if chains == 1 else "vectorized"
    mcmc = models.run(
        kernel,
        0,
        models.normal_data(),
        samples=1,
        warmup=0,
        chains=chains,
        chain_method=method,
        init_params=start,
    )
    np.testing.assert_allclose(mcmc.get_samples()["mu"], start["mu"].reshape(-1), atol=1e-4)


# --------------------------------------------------------------------------- potential functions


@pytest.mark.slow
@one_kernel
@pytest.mark.parametrize("chains", [in_second_tier(1), 2])
def test_a_potential_function_of_any_pytree(name, chains):
    start = models.NESTED_START
    if chains > 1:
        start = jax.tree.map(lambda x: jnp.broadcast_to(x, (chains, *jnp.shape(x))), start)
    kernel = models.nested_kernel(name, num_steps=20)
    mcmc = models.run(
        kernel,
        0,
        samples=500,
        chains=chains,
        chain_method="vectorized",
        init_params=start,
    )
    samples, log_weights = weighted_samples(mcmc)
    assert jax.tree.structure(samples) == jax.tree.structure(models.NESTED_START)
    # 20 steps of 0.05 leave a correlation of exp(-1) between draws: 500 draws are worth 230.
    error = 1 / np.sqrt(230 * chains)
    weights = np.exp(log_weights)
    for leaf in jax.tree.leaves(samples):
        x = np.asarray(leaf).reshape(chains, 500, -1)
        np.testing.assert_allclose(np.mean(weights[..., None] * x, (0, 1)), 0.0, atol=5 * error)
        square = np.mean(weights[..., None] * x**2, (0, 1))
        np.testing.assert_allclose(square, 1.0, atol=5 * np.sqrt(2) * error)


# --------------------------------------------------------------------------- supports


def improper(y):
    mu = numpyro.sample("mu", dist.ImproperUniform(dist.constraints.real, (), ()))
    scale = numpyro.sample("scale", dist.ImproperUniform(dist.constraints.positive, (), ()))
    with numpyro.plate("rows", len(y), subsample_size=len(y)) as idx:
        numpyro.sample("y", dist.Normal(mu, scale), obs=y[idx])


def test_improper_priors():
    """With flat priors on mean and scale the mean is a Student t around the data's."""
    y = models.normal_data(mean=3.0)
    kernel = ContourSGLD(
        improper,
        step_size=4e-4,
        num_steps=50,
        partition=EnergyPartition(130.0, 190.0, 30),
        init_strategy=init_to_value(values={"mu": 2.0, "scale": 2.0}),
    )
    mcmc = models.run(kernel, 0, y, samples=600, warmup=60)
    samples, log_weights = weighted_samples(mcmc)
    exact = stats.t(len(y) - 2, y.mean(), y.std() * np.sqrt(len(y) / (len(y) - 2) / len(y)))
    weights = np.exp(log_weights)
    mean = np.mean(weights * samples["mu"])
    sd = np.sqrt(np.mean(weights * (samples["mu"] - mean) ** 2))
    # 50 steps of a 25th of the posterior variance: neighbours correlate by exp(-2).
    assert abs(mean - exact.mean()) < 4 * exact.std() / np.sqrt(450)
    assert abs(sd / exact.std() - 1) < 4 / np.sqrt(2 * 450) + 0.02


@pytest.mark.slow
def test_constrained_posterior_is_that_of_nuts():
    """Half line, simplex and an interval bounded by a latent variable, over minibatches.

    A minibatch of half the data at this step size adds a few per cent to the variances, which
    the tolerance of the means, in posterior standard deviations, does not see.
    """
    X, y = models.constrained_data()
    kernel = models.constrained_kernel("ContourSGLD", step_size=3e-4, num_steps=100)
    mcmc = models.run(
        kernel, 0, X, y, samples=300, warmup=30, chains=4, chain_method="vectorized",
        model_kwargs={"minibatch": 100},
    )  # fmt: skip
    samples, log_weights = weighted_samples(mcmc)
    nuts = MCMC(NUTS(models.constrained), num_warmup=500, num_samples=2000, progress_bar=False)
    nuts.run(random.key(1), X, y, minibatch=200)
    weights = np.exp(log_weights)[..., None]
    for site, reference in nuts.get_samples().items():
        if site == "fitted":
            continue
        draws = np.asarray(samples[site]).reshape(4, 300, -1)
        of_chains = np.mean(weights * draws, 1)
        error = of_chains.std(0, ddof=1) / 2
        sd = reference.std(0)
        difference = np.abs(of_chains.mean(0) - reference.mean(0))
        assert (difference < 4 * error + 0.1 * sd).all(), (site, difference, error, sd)
        assert (error < 0.2 * sd).all(), "a test that allows everything"


# --------------------------------------------------------------------------- around the kernel


@one_kernel
def test_predictive(name, constrained_runs):
    mcmc = constrained_runs(name)
    X, _ = models.constrained_data()
    predicted = Predictive(models.constrained, mcmc.get_samples())(
        random.key(0), X, minibatch=len(X)
    )
    samples = mcmc.get_samples()
    assert predicted["y"].shape == (120, len(X))
    np.testing.assert_allclose(
        predicted["fitted"], samples["shares"] @ X.T + samples["inside"][:, None], atol=1e-4
    )


@one_kernel
def test_arviz_shows_no_estimate_as_log_density(name, constrained_runs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # ArviZ would ask the model for one random minibatch, without a key to draw it.
        idata = az.from_numpyro(constrained_runs(name), log_likelihood=False)
    assert "lp" not in idata["sample_stats"]
    assert idata["posterior"]["shares"].shape == (2, 60, 3)
    assert idata["sample_stats"]["log_weight"].shape == (2, 60)


@one_kernel
def test_full_energy_of_a_subsampled_model(name):
    """`energy="full"` sees all rows: the energies are those of the model without subsampling."""
    y = models.normal_data()
    mcmc = models.run(models.normal_kernel(name, energy="full"), 0, y)
    mu = np.asarray(mcmc.get_samples()["mu"], dtype=float)
    exact = 0.5 * np.sum((np.asarray(y) - mu[:, None]) ** 2, 1) + 0.5 * (mu / 100) ** 2
    exact += (len(y) + 1) * 0.5 * np.log(2 * np.pi) + np.log(100)
    np.testing.assert_allclose(
        mcmc.get_extra_fields()["potential_energy_estimate"], exact, rtol=1e-5
    )


@pytest.mark.slow
@one_kernel
def test_refresh_brings_the_energy_up_to_date(name):
    y = models.normal_data()
    kernel = models.normal_kernel(name, energy="full")
    state = kernel.init(random.key(0), 0, None, (y,), {})
    moved = kernel.refresh(state, (y + 1.0,), {})
    expected = kernel.model_potential((y + 1.0,)).full(state.z)
    np.testing.assert_allclose(moved.sampler.chain.potential_energy, expected, rtol=1e-5)
    assert moved.sampler.chain.potential_energy != state.sampler.chain.potential_energy
    np.testing.assert_array_equal(moved.sampler.chain.position, state.sampler.chain.position)


@one_kernel
def test_wrap_model(name):
    y = models.normal_data()
    kernel = models.normal_kernel(name, energy="full")
    scaled = kernel.wrap_model(lambda model: numpyro.handlers.scale(model, scale=2.0))
    position = {"mu": jnp.array(0.3)}
    once, twice = (k.model_potential((y,)).full(position) for k in (kernel, scaled))
    np.testing.assert_allclose(twice, 2 * once, rtol=1e-6)
    assert type(scaled) is type(kernel)


# --------------------------------------------------------------------------- data in NumPy


def grouped(x, group, y):
    """Data are indexed by rows, and one array says how many groups there are."""
    level = numpyro.sample("level", dist.Normal(0, 1).expand([int(group.max()) + 1]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=10) as idx:
        mean = level[group[idx]] + x[idx, 0] - (x - x.mean())[idx, 1]
        numpyro.sample("y", dist.Normal(mean, 1), obs=y[idx])


@pytest.mark.slow
@one_kernel
def test_data_may_be_numpy_arrays(name):
    rng = np.random.default_rng(0)
    data = (rng.normal(size=(60, 2)), np.arange(60) % 3, rng.normal(size=60))
    arguments = {"partition": EnergyPartition(50.0, 200.0, 20)} if name == "ContourSGLD" else {}
    kernel = models.KERNELS[name](grouped, step_size=1e-3, **arguments)
    run = functools.partial(models.run, kernel, warmup=5, samples=20)
    ours = run(0, *data).get_samples()["level"]
    assert ours.shape == (20, 3)
    x, group, y = data  # JAX's arrays have no values while a model is traced: `group` stays
    theirs = run(0, jnp.asarray(x), group, jnp.asarray(y)).get_samples()["level"]
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_a_density_is_traced_once():
    """NumPyro's sum of all densities would trace each of them again."""
    traced = []

    class Counted(dist.Normal):
        def log_prob(self, value):
            traced.append(1)
            return super().log_prob(value)

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("rows", len(y), subsample_size=2) as rows:
            numpyro.sample("y", Counted(mu, 1), obs=y[rows])

    potential = ModelPotential.of(model, (jnp.arange(6.0),))
    traced.clear()
    terms(potential, {"mu": jnp.array(0.5)}, {"rows": jnp.array([1, 4])})
    assert len(traced) == 1
