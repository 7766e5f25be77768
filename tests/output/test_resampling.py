"""Equally weighted draws, expectations and predictions from weighted draws."""

import functools

import arviz as az
import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from scipy import stats
from weighted_runs import mixture_run, weighted_idata, weighted_only

from numpyro_contour import (
    ContourSGLD,
    EnergyPartition,
    expectation,
    predictive,
    resample,
    to_inference_data,
    weighted_samples,
)
from numpyro_contour.diagnostics import weighted_ess, weighted_mcse, weighted_mean
from numpyro_contour.statistics.arviz_versions import to_datasets
from numpyro_contour.statistics.resampling import METHODS

WEIGHTS = np.array([0.0, 2.0, 0.5, 0.0, 1.0, 0.25, 3.0, 0.7])


# --------------------------------------------------------------------------- resampling


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("number", [5, 8, 60])
def test_draws_are_taken_in_proportion_to_weight(method, number):
    expected = number * WEIGHTS / WEIGHTS.sum()
    counts = np.array(
        [
            np.bincount(METHODS[method](np.random.default_rng(seed), WEIGHTS, number), minlength=8)
            for seed in range(4000)
        ]
    )
    assert (counts.sum(axis=1) == number).all()
    assert not counts[:, WEIGHTS == 0].any()
    error = counts.std(axis=0) / len(counts) ** 0.5
    assert (np.abs(counts.mean(axis=0) - expected) <= 4.5 * error + 1e-9).all()
    if method == "systematic":
        assert (np.abs(counts - expected) < 1).all()
    if method == "residual":
        assert (counts >= np.floor(expected)).all()
    # Of the four, independent choices vary most.
    variances = expected * (1 - expected / number)
    assert (counts.var(axis=0) < variances * (1.1 if method == "multinomial" else 1.0) + 1e-9).all()


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_draws(method):
    idata = weighted_idata(np.random.default_rng(0).normal(size=(2, 50)), x=np.zeros((2, 50)))
    idata["posterior"]["x"].values[:] = np.arange(100).reshape(2, 50)
    one, again, other = (
        resample(idata, seed=seed, method=method)["posterior"]["x"].values for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()
    assert (np.diff(one[0]) >= 0).all()  # in the order of the run


@pytest.mark.parametrize("keep_chains", [False, True])
def test_equal_weights_leave_the_draws_as_they_are(keep_chains):
    x = np.random.default_rng(1).normal(size=(3, 40, 2))
    for method in ("systematic", "stratified", "residual"):
        same = resample(
            weighted_idata(np.zeros((3, 40)), x=x), method=method, keep_chains=keep_chains
        )
        shape = x.shape if keep_chains else (1, 120, 2)
        np.testing.assert_array_equal(same["posterior"]["x"], x.reshape(shape))


def test_chains_are_pooled_alike_or_kept():
    """One chain in each of two places; one chain's weights are a thousand times the other's."""
    x = np.stack([np.zeros(100), np.ones(100)])
    idata = weighted_idata(np.stack([np.full(100, 7.0), np.zeros(100)]), x=x)
    pooled = resample(idata, 30)["posterior"]
    assert pooled["x"].shape == (1, 30)
    assert pooled["x"].mean() == 0.5
    kept = resample(idata, 30, keep_chains=True)["posterior"]
    np.testing.assert_array_equal(kept["x"], x[:, :30])


@pytest.mark.slow
def test_resampled_draws_are_those_of_the_mixture():
    x, raw = mixture_run()
    idata = weighted_idata(raw, x=x)
    cumulative = lambda q: 0.4 * stats.norm.cdf(q + 6) + 0.6 * stats.norm.cdf(q - 4)
    effective = min(
        float(weighted_ess(f, raw, "mean"))
        for f in (x, x > 0, np.abs(x - 4) < 1, np.abs(x + 6) < 1)
    )
    assert effective > 500
    for method in METHODS:
        drawn = resample(idata, method=method)["posterior"]["x"].values.ravel()
        # One draw in a thousand has a distance of 1.95 / sqrt(n).
        assert stats.kstest(drawn, cumulative).statistic < 1.95 / effective**0.5
    assert stats.kstest(x.ravel(), cumulative).statistic > 1.95 / effective**0.5


@functools.cache
def regression_run():
    """A run on minibatches of 20 of 100 rows, two chains with a theta each."""
    x, y = models.constrained_data(rows=100)
    kernel = ContourSGLD(
        models.constrained, step_size=5e-4, partition=EnergyPartition(60.0, 120.0, 20), num_steps=5
    )
    mcmc = models.run(kernel, 0, x, y, warmup=100, samples=60, chains=2)
    return mcmc, x, y


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")
def test_all_groups_of_draws_follow_and_all_functions_take_them():
    mcmc, x, _ = regression_run()
    idata = to_inference_data(
        mcmc,
        log_likelihood=True,
        posterior_predictive=predictive(mcmc, jax.random.key(1), x),
        prior={"scale": np.ones(7)},
        constant_data={"X": x},
    )
    before = to_datasets(weighted_only(idata))
    after = to_datasets(resample(idata, 50))
    assert set(after) == set(before) - {"energy_partition", "curvature"}  # of chains
    # Each draw is followed by its number: find where it came from.
    scale = before["posterior"]["scale"].values.ravel()
    place = [
        int(np.flatnonzero(scale == value)[0]) for value in after["posterior"]["scale"][0].values
    ]
    for group, name in (
        ("posterior", "shares"),
        ("log_likelihood", "y"),
        ("posterior_predictive", "y"),
        ("sample_stats", "log_theta"),
        ("sample_stats", "potential_energy_estimate"),
    ):
        values = before[group][name].values
        flat = values.reshape(-1, *values.shape[2:])
        np.testing.assert_array_equal(after[group][name][0], flat[place])
        assert after[group][name].dims == before[group][name].dims
    assert not after["sample_stats"]["log_weight"].any()
    xr.testing.assert_identical(after["prior"], before["prior"])
    xr.testing.assert_identical(after["constant_data"], before["constant_data"])
    kept = resample(mcmc, keep_chains=True)
    xr.testing.assert_identical(to_datasets(kept)["energy_partition"], before["energy_partition"])
    az.summary(kept)
    az.ess(kept)
    az.loo(resample(idata, keep_chains=True))


# --------------------------------------------------------------------------- expectations


def test_expectations_are_the_weighted_means():
    rng = np.random.default_rng(4)
    x, log_weights = rng.normal(size=(4, 100, 3)), rng.normal(size=(4, 100))
    idata = weighted_idata(log_weights, x=x)
    found = expectation(idata, "x")
    np.testing.assert_allclose(found.mean, weighted_mean(x, log_weights))
    np.testing.assert_allclose(found.mcse, weighted_mcse(x, log_weights))
    np.testing.assert_allclose(found.ess, weighted_ess(x, log_weights, "mean"))
    event = expectation(idata, lambda draws: draws["x"].isel(x_dim_0=0) > 0)
    np.testing.assert_allclose(event.mean, weighted_mean(x[..., 0] > 0, log_weights))
    turned = expectation(idata, lambda draws: draws["x"].transpose("draw", "x_dim_0", "chain"))
    np.testing.assert_allclose(turned.mean, found.mean)
    array = expectation(idata, lambda draws: draws["x"].values ** 2)
    np.testing.assert_allclose(array.mean, weighted_mean(x**2, log_weights))


# --------------------------------------------------------------------------- predictions


@pytest.mark.slow
def test_predictions_of_new_rows():
    """One prediction from each draw, by its weight; or so many of equal weight."""
    mcmc, _, _ = regression_run()
    new = jnp.eye(3)[jnp.arange(7) % 3]  # fewer rows than a minibatch has
    drawn = predictive(mcmc, jax.random.key(2), new)
    assert drawn["y"].shape == (2, 60, 7)
    samples, log_weights = weighted_samples(mcmc)
    mean = np.einsum("cds,rs->cdr", samples["shares"], new) + samples["inside"][..., None]
    np.testing.assert_allclose(drawn["fitted"], mean, rtol=1e-5)
    residuals = (drawn["y"] - mean) / samples["scale"][..., None]
    assert stats.kstest(np.ravel(residuals), "norm").pvalue > 1e-3

    even = predictive(mcmc, jax.random.key(3), new, num_samples=4000)
    assert even["y"].shape == (4000, 7)
    np.testing.assert_allclose(
        even["fitted"].mean(axis=0), weighted_mean(mean, log_weights), atol=2e-3
    )
    assert set(predictive(mcmc, jax.random.key(3), new, return_sites=["y"])) == {"y"}


@pytest.mark.slow
def test_predictions_of_the_data_take_all_rows():
    mcmc, x, y = regression_run()
    idata = to_inference_data(mcmc, posterior_predictive=predictive(mcmc, jax.random.key(4), x))
    assert idata["posterior_predictive"]["y"].shape == (2, 60, 100)
    residuals = expectation(
        idata, lambda drawn: drawn["y"] - np.asarray(y), group="posterior_predictive"
    )
    assert np.std(residuals.mean) < 0.7  # as the residuals of the data: 0.5


@pytest.mark.slow
def test_numpy_data():
    def model(x, y=None):
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        with numpyro.plate("rows", len(x)) as idx:
            numpyro.sample("y", dist.Normal(slope * x[idx], 1), obs=None if y is None else y[idx])

    x = np.linspace(-1, 1, 30)
    kernel = ContourSGLD(model, step_size=0.01, partition=EnergyPartition(20.0, 60.0, 20))
    mcmc = models.run(kernel, 0, x, x, warmup=100, samples=50)
    assert predictive(mcmc, jax.random.key(0), x)["y"].shape == (1, 50, 30)
    found = weighted_only(to_inference_data(mcmc, log_likelihood=True))
    found = found["log_likelihood"]["y"].values
    slope = np.asarray(mcmc.get_samples()["slope"], np.float64)
    expected = stats.norm.logpdf(x, slope[:, None] * x)
    np.testing.assert_allclose(found[0], expected, rtol=1e-4)
    assert az.from_numpyro(mcmc)["observed_data"]["y"].shape == (30,)
