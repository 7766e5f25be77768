"""Kernels with a preconditioner of low rank, on a posterior of 100 coordinates."""

import functools
import pickle
import warnings

import jax
import jax.numpy as jnp
import models
import numpy as np
import pytest
from scipy import stats
from tiers import in_third_tier

import numpyro_contour
from numpyro_contour import SGLD, ContourSGLD, diagnose, to_inference_data, weighted_samples

CHAINS, SIZE = 8, 100


def stiff_gaussian():
    """Three directions of variance 1e-4 in 100, in coordinates of several scales."""
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.normal(size=(SIZE, SIZE)))
    values = np.where(np.arange(SIZE) < 3, 1e4, 1.0)
    scales = np.exp(0.5 * rng.normal(size=SIZE))
    return (np.sqrt(values)[:, None] * turn.T) / scales, 3.0 * scales * rng.normal(size=SIZE)


# R with the precision R' R, each row a direction in which the variance is 1; and the mean.
ROOT, MEAN = stiff_gaussian()
COVARIANCE = np.linalg.inv(ROOT.T @ ROOT)
SDS = np.sqrt(np.diag(COVARIANCE))


def exact(x):
    return 0.5 * jnp.sum((ROOT.astype(x.dtype) @ (x - MEAN.astype(x.dtype))) ** 2)


def by_minibatch(key, x):
    """Its gradient has noise of the curvature's covariance, as that of many rows has."""
    root = jnp.asarray(ROOT, x.dtype)
    away = root @ (x - MEAN.astype(x.dtype))
    kick = jax.random.normal(key, x.shape, x.dtype)
    return 0.5 * jnp.sum(away**2) + kick @ away, root.T @ (away + kick)


@functools.cache
def low_rank_run(name, noisy=False):
    kernel = getattr(numpyro_contour, name)(
        potential_fn=exact,
        energy=by_minibatch if noisy else None,
        preconditioner="low-rank",
        num_steps=40,
    )
    start = MEAN + 2 * SDS * jax.random.normal(jax.random.key(1), (CHAINS, SIZE))
    settings = {"samples": 250, "warmup": 250, "chains": CHAINS, "chain_method": "vectorized"}
    return models.run(kernel, 0, init_params=start, **settings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "noisy"),
    [
        ("SGLD", False),
        in_third_tier("SGLD", True),
        in_third_tier("ContourSGLD", False),
        in_third_tier("SGHMC", True),
    ],
)
def test_a_gaussian_of_three_stiff_directions(name, noisy):
    x, log_weights = weighted_samples(low_rank_run(name, noisy))
    x, w = np.asarray(x, np.float64) - MEAN, np.exp(log_weights)
    # By coordinate, and by direction: the stiff ones do not show in the coordinates.
    scaled = np.concatenate([x / SDS, x @ ROOT.T], -1)
    mean = (w[..., None] * scaled).mean(1)
    second = (w[..., None] * scaled**2).mean(1)
    limit = stats.t.ppf(1 - 0.001 / (4 * SIZE), CHAINS - 1)
    for values, expected, bias in ((mean, 0.0, 0.02), (second, 1.0, 0.08)):
        error = values.std(0, ddof=1) / CHAINS**0.5
        off = np.abs(values.mean(0) - expected)
        assert (off < limit * error + bias).all()
        # Chains that creep do not agree: 8 chains of 10,000 steps, with a diagonal, .3 and more.
        assert np.median(error) < 0.05
        assert error.max() < 0.2
    # Of 36 directions of SGLD, by six seeds each with and without noise, at most .1; rows alone
    # leave .16 on average with noise.
    assert np.abs(second.mean(0)[SIZE : SIZE + 3] - 1).max() < 0.15


@pytest.mark.slow
def test_what_is_exported_of_it():
    mcmc = low_rank_run("SGLD")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        idata = to_inference_data(mcmc)
    assert idata["posterior"].attrs["preconditioner"] == "low-rank"
    group = idata["warmup"].isel(chain=0)
    assert "preconditioner_matrix" not in group
    columns, stretches = group["preconditioner_directions"], group["preconditioner_stretches"]
    assert columns.dims == ("coordinate", "direction")
    across = group["preconditioner_across"].values
    matrix = np.diag(across) + (columns.values * (stretches.values - 1)) @ columns.values.T
    np.testing.assert_allclose(np.diag(matrix), group["preconditioner"], rtol=1e-3)
    np.testing.assert_array_equal(group["gradient_noise"], 0.0)
    # Of a Gaussian M is the covariance, but for what 8 directions leave.
    left = np.linalg.eigvalsh(ROOT @ matrix @ ROOT.T)
    assert left[-1] / left[0] < 15
    assert all(not verdict.advice for verdict in diagnose(idata).verdicts)


@pytest.mark.slow
def test_the_noise_of_the_gradient_is_exported_by_coordinate_of_the_position():
    group = to_inference_data(low_rank_run("SGLD", noisy=True))["warmup"]
    noise = (group["gradient_noise"] ** 2).mean("chain")
    np.testing.assert_allclose(noise, np.diag(ROOT.T @ ROOT), rtol=0.4)
    # Half of M^-1 is noise.
    share = group["preconditioner_noise"].mean("chain")
    assert 0.3 < share.min() < share.max() < 0.8


def test_it_takes_memory_in_proportion_and_is_pickled():
    sizes = []
    for size in (100, 200):
        kernel = SGLD(potential_fn=lambda x: 0.5 * jnp.sum(x**2), preconditioner="low-rank")
        tuning = kernel.first_state(jax.random.key(0), 100, jnp.zeros(size)).warmup.tuning
        sizes.append(sum(leaf.size for leaf in jax.tree.leaves(tuning)))
        assert pickle.loads(pickle.dumps(tuning)).factor.directions.shape == (size, 8)
    assert sizes[1] < 2 * sizes[0]


def test_few_coordinates_take_a_dense_one():
    for size, dense in ((16, True), (17, False)):
        kernel = SGLD(potential_fn=lambda x: 0.5 * jnp.sum(x**2), preconditioner="low-rank")
        factor = kernel.first_state(jax.random.key(0), 100, jnp.zeros(size)).warmup.tuning.factor
        assert isinstance(factor, tuple) != dense


def test_a_barrier_takes_none():
    with pytest.raises(ValueError, match=r"None or 'diag' where `barrier`.*'low-rank'"):
        ContourSGLD(potential_fn=lambda x: x**2, barrier=10.0, preconditioner="low-rank")
    ContourSGLD(potential_fn=lambda x: x**2, barrier=10.0, preconditioner="diag")
