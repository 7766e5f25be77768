"""Schedules of step size and temperature: annealing, epochs, and which draws count afterwards."""

import pickle

import jax
import jax.numpy as jnp
import models
import numpy as np
import optax
import pytest
from scipy import optimize
from tiers import in_third_tier
from weighted_runs import weighted_only

from numpyro_contour import (
    SGHMC,
    SGLD,
    ContourSGHMC,
    EnergyPartition,
    epoch_schedule,
    summary,
    to_inference_data,
    weighted_samples,
)


def quadratic(x):
    return 0.5 * jnp.sum(x**2)


def test_epochs_are_counted_from_rows_and_minibatches():
    schedule = epoch_schedule(optax.exponential_decay(2.0, 1, 1 / 1.01, 400), 1050, 100)
    steps = jnp.array([0, 400 * 11 - 1, 400 * 11, 401 * 11 - 1, 401 * 11, 403 * 11])
    expected = [2.0, 2.0, 2.0, 2.0, 2 / 1.01, 2 / 1.01**3]
    np.testing.assert_allclose(schedule(steps), expected, rtol=1e-5)
    assert pickle.loads(pickle.dumps(epoch_schedule(np.sin, 10, 3))).steps_per_epoch == 4


@pytest.mark.slow
@pytest.mark.parametrize("kernel_class", [SGLD, in_third_tier(SGHMC), ContourSGHMC])
@pytest.mark.parametrize(("num_steps", "thinning"), [in_third_tier(1, 1), (7, 3)])
def test_draws_before_the_final_temperature_have_no_weight(kernel_class, num_steps, thinning):
    """Steps up to the 350th are hot: the windows that hold one of them are left out."""
    temperature = optax.piecewise_constant_schedule(9.0, {350: 1 / 9})
    arguments = {"step_size": 0.1, "temperature": temperature, "num_steps": num_steps}
    if kernel_class is ContourSGHMC:
        arguments["partition"] = EnergyPartition(0.0, 10.0, 10)
    kernel = kernel_class(potential_fn=quadratic, **arguments)
    mcmc = models.run(
        kernel,
        0,
        warmup=10,
        samples=1002 // num_steps,
        chains=2,
        thinning=thinning,
        init_params=jnp.ones((2, 3)),
    )
    log_weights = weighted_samples(mcmc)[1]
    draws = log_weights.shape[1]
    last = 10 * num_steps + (1002 // num_steps) * num_steps
    ends = last - num_steps * thinning * np.arange(draws)[::-1]
    # Counts of steps begin with 0, and optax changes the value from its boundary on.
    counted = ends - num_steps >= 350
    assert 0 < counted.mean() < 1
    np.testing.assert_array_equal(np.isfinite(log_weights), np.stack([counted, counted]))
    np.testing.assert_allclose(np.exp(log_weights).mean(1), 1.0, rtol=1e-5)
    idata = to_inference_data(mcmc)
    hot = weighted_only(idata)["sample_stats"]["temperature"].values
    np.testing.assert_allclose(hot[:, ~counted], 9.0, rtol=1e-5)
    np.testing.assert_allclose(hot[:, counted], 1.0, rtol=1e-5)
    sd = summary(idata, kind="stats")["sd"].astype(float)
    # Hot draws have a standard deviation of 3.
    assert (sd < 1.6).all(), sd


def test_a_schedule_that_never_ends_is_told():
    kernel = SGLD(
        potential_fn=quadratic, step_size=0.1, temperature=optax.exponential_decay(2.0, 10, 0.99)
    )
    mcmc = models.run(kernel, 0, samples=100, init_params=jnp.ones(2))
    with pytest.warns(UserWarning, match=r"1\.0% of the draws .* final temperature"):
        weighted_samples(mcmc)


def test_annealing_is_a_pair_of_arguments():
    """As saSGHMC: both fall by 1.01 an epoch after a constant start, and the chain cools down."""
    step_size = epoch_schedule(optax.exponential_decay(0.02, 1, 1 / 1.01, 50), 100, 10)
    temperature = epoch_schedule(
        optax.exponential_decay(1.0, 1, 1 / 1.01, 50, end_value=1e-3), 100, 10
    )
    kernel = SGHMC(potential_fn=quadratic, step_size=step_size, temperature=temperature)
    mcmc = models.run(kernel, 0, warmup=0, samples=9000, init_params=jnp.ones(50))
    energy = mcmc.get_extra_fields()["potential_energy_estimate"]
    # 25 nats at temperature 1; the last 1000 steps are at 1e-3.
    assert 15 < np.mean(energy[300:500]) < 35
    assert np.mean(energy[-500:]) < 0.1
    assert np.isfinite(weighted_samples(mcmc)[1]).mean() > 0.1


def logistic_data():
    key_x, key_y = jax.random.split(jax.random.key(0))
    X = jax.random.normal(key_x, (300, 4)) * jnp.array([1.0, 2.0, 0.5, 1.0])
    p = jax.nn.sigmoid(X @ jnp.array([1.0, -0.5, 0.3, 0.0]))
    return X, jax.random.bernoulli(key_y, p).astype(float)


@pytest.mark.slow
@pytest.mark.parametrize("kernel_class", [SGLD, SGHMC])
@pytest.mark.parametrize("noise", ["averaged", "independent"])
def test_without_temperature_it_is_gradient_descent_to_the_optimum(kernel_class, noise):
    """SGD and momentum SGD on a logistic regression, against L-BFGS."""
    X, y = logistic_data()

    def potential(b):
        logits = X @ b
        return jnp.sum(jax.nn.softplus(logits) - y * logits) + 0.5 * b @ b

    X64, y64 = np.asarray(X, np.float64), np.asarray(y, np.float64)

    def in_double_precision(b):
        logits = X64 @ b
        value = np.sum(np.logaddexp(0, logits) - y64 * logits) + 0.5 * b @ b
        return value, X64.T @ (1 / (1 + np.exp(-logits)) - y64) + b

    optimum = optimize.minimize(
        in_double_precision, np.zeros(4), jac=True, method="L-BFGS-B", options={"gtol": 1e-8}
    ).x
    kernel = kernel_class(potential_fn=potential, step_size=2e-3, temperature=0.0, noise=noise)
    mcmc = models.run(kernel, 0, warmup=0, samples=1000, init_params=jnp.zeros(4))
    np.testing.assert_allclose(mcmc.get_samples()[-1], optimum, atol=2e-4)


def test_momentum_descends_faster():
    """A valley a hundred times as long as wide, at the largest step that the width allows."""
    potential = lambda x: 0.5 * jnp.sum(jnp.array([1.0, 100.0]) * x**2)
    ends = {}
    for kernel_class in (SGLD, SGHMC):
        kernel = kernel_class(potential_fn=potential, step_size=0.01, temperature=0.0)
        mcmc = models.run(kernel, 0, warmup=0, samples=150, init_params=jnp.ones(2))
        ends[kernel_class] = float(potential(mcmc.get_samples()[-1]))
    assert ends[SGHMC] < 1e-2 * ends[SGLD]


def test_windows_that_hold_colder_steps_are_left_out_too():
    temperature = optax.piecewise_constant_schedule(0.25, {50: 4.0})
    kernel = SGLD(potential_fn=quadratic, step_size=0.1, temperature=temperature, num_steps=7)
    mcmc = models.run(kernel, 0, warmup=0, samples=20, init_params=jnp.ones(3))
    counted = np.isfinite(weighted_samples(mcmc)[1][0])
    # The eighth window takes the steps from 49 to 55.
    np.testing.assert_array_equal(counted, np.arange(20) >= 8)
