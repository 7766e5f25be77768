"""Kernels with a dense preconditioner, on posteriors that no diagonal one makes round."""

import functools
import pickle
import warnings

import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from scipy import stats
from tiers import in_third_tier

import numpyro_contour
from numpyro_contour import (
    SGLD,
    ContourSGLD,
    diagnose,
    summary,
    to_inference_data,
    weighted_samples,
)

CHAINS, SIZE = 16, 4
SCALES = np.array([1.0, 0.01, 30.0, 2.0])
MEAN = 5.0 * SCALES * np.array([1.0, -1.0, 0.2, 0.0])
# Correlations of 0.999: the unit-diagonal precision has a least eigenvalue of 1 / 3,000.
COVARIANCE = (0.001 * np.eye(SIZE) + 0.999) * np.outer(SCALES, SCALES)
PRECISION = np.linalg.inv(COVARIANCE)


def correlated(x):
    # Summed over the whitened coordinates: the quadratic form would be lost in rounding.
    root = jnp.asarray(np.linalg.cholesky(PRECISION).T, x.dtype)
    return 0.5 * jnp.sum((root @ (x - MEAN)) ** 2)


@functools.cache
def dense_run(name):
    arguments = {"temperatures": (1.0, 2.0)} if name.startswith("Replica") else {}
    kernel = getattr(numpyro_contour, name)(
        potential_fn=correlated, preconditioner="dense", num_steps=20, **arguments
    )
    start = MEAN + 2 * SCALES * jax.random.normal(jax.random.key(1), (CHAINS, SIZE))
    method = {"chain_method": "vectorized", "init_params": start}
    return models.run(kernel, 0, samples=400, warmup=200, chains=CHAINS, **method)


NAMES = ("SGLD", "SGHMC", "SGNHT", "ContourSGLD", "ReplicaExchangeSGLD")


@pytest.mark.slow
@pytest.mark.parametrize("name", models.of_second_tier("SGLD", among=NAMES))
def test_a_gaussian_of_strong_correlations(name):
    x, log_weights = weighted_samples(dense_run(name))
    x, w = (np.asarray(x, np.float64) - MEAN) / SCALES, np.exp(log_weights)
    limit = stats.t.ppf(1 - 0.001 / 14, CHAINS - 1)
    mean = (w[..., None] * x).mean(1)
    # Along the diagonal, and across it, where the spread is a 60th of that.
    root = np.linalg.cholesky(np.linalg.inv(COVARIANCE / np.outer(SCALES, SCALES))).T
    z = x @ root.T
    second = np.einsum("cd,cdi,cdj->cij", w, z, z) / x.shape[1]
    for values, expected in ((mean, 0.0), (second, np.eye(SIZE))):
        error = values.std(0, ddof=1) / CHAINS**0.5
        assert (np.abs(values.mean(0) - expected) < limit * error + 0.03).all()
        # Chains that creep along the diagonal would not agree so well.
        assert (limit * error < 0.25).all(), error


# --------------------------------------------------------------------------- minibatches

ROWS = 2000


def regression(X, y):
    weights = numpyro.sample("weights", dist.Normal(0, 10).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=100) as rows:
        numpyro.sample("y", dist.Normal(X[rows] @ weights, 1.0), obs=y[rows])


def collinear_data(seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 1)) + 0.05 * rng.normal(size=(ROWS, 4))
    y = X @ np.array([1.0, -1.0, 0.5, shift]) + rng.normal(size=ROWS)
    return X.astype(np.float32), y.astype(np.float32)


def exact_posterior(X, y):
    X, y = X.astype(np.float64), y.astype(np.float64)
    covariance = np.linalg.inv(X.T @ X + np.eye(4) / 100)
    return covariance @ X.T @ y, covariance


@functools.cache
def collinear_run(energy):
    """A run that several tests look at, and leave as it is."""
    return regression_run(*collinear_data(), energy=energy)


def regression_run(X, y, chains=8, energy="minibatch", **arguments):
    kernel = SGLD(regression, preconditioner="dense", num_steps=50, energy=energy)
    settings = {"samples": 200, "warmup": 200, "chains": chains, "chain_method": "vectorized"}
    return models.run(kernel, 0, X, y, **settings | arguments)


@pytest.mark.slow
@pytest.mark.parametrize("energy", ["minibatch", in_third_tier("control_variate")])
def test_collinear_columns_by_minibatches(energy):
    X, y = collinear_data()
    mean, covariance = exact_posterior(X, y)
    mcmc = collinear_run(energy)
    draws = np.asarray(mcmc.get_samples(group_by_chain=True)["weights"], np.float64)
    z = (draws - mean) @ np.linalg.cholesky(np.linalg.inv(covariance))
    centre = z.mean(1)
    error = centre.std(0, ddof=1) / len(centre) ** 0.5
    limit = stats.t.ppf(1 - 0.001 / 8, len(centre) - 1)
    assert (np.abs(centre.mean(0)) < limit * error + 0.05).all()
    second = np.einsum("cdi,cdj->cij", z, z) / z.shape[1]
    assert np.abs(second.mean(0) - np.eye(4)).max() < 0.2
    tuning = jax.tree.map(
        lambda leaf: np.asarray(leaf[0], np.float64), mcmc.last_state.warmup.tuning
    )
    if energy == "minibatch":
        # The noise of a minibatch's gradient is a hundredfold of the signal, and M its inverse.
        noise = ROWS**2 / 100 * (X.astype(np.float64).T @ X) / ROWS
        by_noise = tuning.factor.T @ noise @ tuning.factor
        np.testing.assert_allclose(np.linalg.eigvalsh(by_noise), 1.0, atol=0.25)
        np.testing.assert_allclose(np.diag(by_noise), tuning.gradient_noise, rtol=0.2)


@pytest.mark.slow
def test_a_second_run_takes_new_data_and_finds_its_own():
    X, y = collinear_data()
    mcmc = regression_run(X, y, chains=1, samples=400)
    first = mcmc.last_state.warmup.tuning
    other, of_other = collinear_data(seed=1, shift=4.0)
    mcmc.run(jax.random.key(1), 2 * other, of_other)
    mean, covariance = exact_posterior(2 * other, of_other)
    found = np.asarray(mcmc.get_samples()["weights"]).mean(0)
    assert (np.abs(found - mean) < 0.6 * np.sqrt(np.diag(covariance))).all()
    ratio = mcmc.last_state.warmup.tuning.diagonal / first.diagonal
    np.testing.assert_allclose(ratio, 0.25, rtol=0.3)


# --------------------------------------------------------------------------- what users take away


@pytest.mark.slow
def test_what_is_exported_of_it():
    mcmc = dense_run("SGLD")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        idata = to_inference_data(mcmc)
    assert idata["posterior"].attrs["preconditioner"] == "dense"
    group = idata["warmup"].isel(chain=0)
    matrix = group["preconditioner_matrix"]
    assert matrix.dims == ("coordinate", "other_coordinate")
    # Of a Gaussian it is the covariance.
    shape = np.outer(SCALES, SCALES)
    np.testing.assert_allclose(matrix / shape, COVARIANCE / shape, atol=0.1)
    np.testing.assert_allclose(np.diag(matrix), group["preconditioner"])
    np.testing.assert_array_equal(group["gradient_noise"], 0.0)
    # 8,000 steps of half a relaxation time or less, at most.
    assert 500 < group["relaxation_times"].min() < group["relaxation_times"].max() < 4000
    table = summary(mcmc)
    assert table["r_hat"].max() < 1.05
    np.testing.assert_allclose(table["sd"] / SCALES, 1.0, atol=0.1)
    assert all(not verdict.advice for verdict in diagnose(idata).verdicts)


@pytest.mark.slow
def test_the_noise_of_the_gradient_is_exported_by_coordinate_of_the_position():
    X, _ = collinear_data()
    group = to_inference_data(collinear_run("minibatch"))["warmup"]
    noise = ROWS**2 / 100 * (X.astype(np.float64) ** 2).mean(0)
    np.testing.assert_allclose(group["gradient_noise"].mean("chain") ** 2, noise, rtol=0.15)
    # Almost all of M is noise; the product of the diagonals would say many times as much.
    assert 0.7 < group["preconditioner_noise"].min() < group["preconditioner_noise"].max() < 1.3
    product = group["preconditioner"] * group["gradient_noise"] ** 2
    assert product.max() > 50


@pytest.mark.slow
def test_it_is_pickled_and_runs_one_chain_as_several():
    kernel = SGLD(regression, preconditioner="dense", num_steps=20, energy="minibatch")
    kernel = pickle.loads(pickle.dumps(kernel))
    assert kernel.settings["preconditioner"] == "dense"
    data = collinear_data()
    alone, both = (
        models.run(kernel, 3, *data, chains=chains, chain_method="vectorized") for chains in (1, 2)
    )
    assert alone.get_samples()["weights"].shape == (60, 4)
    factors = both.last_state.warmup.tuning.factor
    assert factors.shape == (2, 4, 4)
    assert not np.allclose(factors[0], factors[1])
    assert pickle.loads(pickle.dumps(alone.last_state.warmup.tuning)).factor.shape == (4, 4)


# --------------------------------------------------------------------------- the default


def condition_left(name, size=3, condition=30.0, **arguments):
    """The condition numbers that a short warm-up leaves of a Gaussian with a correlation."""
    share = (condition - 1) / (condition - 1 + size)
    covariance = (1 - share) * np.eye(size) + share
    root = jnp.asarray(np.linalg.cholesky(np.linalg.inv(covariance)).T, jnp.float32)
    kernel = getattr(numpyro_contour, name)(
        potential_fn=lambda x: 0.5 * jnp.sum((root @ x) ** 2),
        **{"num_steps": 20, **arguments},
    )
    mcmc = models.run(kernel, 0, warmup=200, samples=1, init_params=jnp.ones(size))
    tuning = mcmc.last_state.warmup.tuning
    factor = np.diag(np.sqrt(tuning.preconditioner))
    if tuning.frame:
        factor = np.asarray(tuning.factor, np.float64) @ factor
    return np.linalg.cond(np.asarray(root @ factor)) ** 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "condition", "turns"),
    [
        in_third_tier("SGLD", 3.0, False),
        ("SGLD", 30.0, True),
        in_third_tier("ContourSGLD", 15.0, False),
        in_third_tier("ContourSGLD", 1000.0, True),
    ],
)
def test_by_default_it_is_dense_where_a_diagonal_leaves_much(name, condition, turns):
    left = condition_left(name, condition=condition)
    if turns:
        assert left < 1.05
    else:
        np.testing.assert_allclose(left, condition, rtol=0.2)


@pytest.mark.slow
def test_it_is_dense_in_a_hundred_coordinates_too():
    left = condition_left("ContourSGLD", size=120, condition=60.0, num_steps=100, jumps=False)
    assert left < 1.05


@pytest.mark.slow
def test_diag_by_name_and_many_coordinates_stay_diagonal():
    np.testing.assert_allclose(condition_left("SGLD", preconditioner="diag"), 30.0, rtol=0.2)
    settings = {}
    for form, size, turnable in ((None, 250, True), (None, 251, False), ("diag", 50, False)):
        kernel = SGLD(potential_fn=lambda x: 0.5 * jnp.sum(x**2), preconditioner=form)
        state = kernel.first_state(jax.random.key(0), 100, jnp.zeros(size))
        assert bool(state.warmup.tuning.frame) == turnable
        settings[form] = kernel.settings["preconditioner"]
    assert settings == {None: "tuned", "diag": "diag"}


def test_a_barrier_takes_no_dense_preconditioner():
    kernel = ContourSGLD(potential_fn=lambda x: 0.5 * jnp.sum(x**2), barrier=10.0)
    assert not kernel.first_state(jax.random.key(0), 100, jnp.zeros(2)).warmup.tuning.frame
    with pytest.raises(ValueError, match=r"None or 'diag' where `barrier`.*'dense'"):
        ContourSGLD(potential_fn=lambda x: x**2, barrier=10.0, preconditioner="dense")
