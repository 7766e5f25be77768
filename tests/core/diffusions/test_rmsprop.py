"""Preconditioning by running means: the formulas of preconditioned SGLD, and what it samples."""

import warnings

import jax
import jax.numpy as jnp
import models
import numpy as np
import pytest
from jax import random
from tiers import in_second_tier, in_third_tier

from numpyro_contour import EnergyPartition, weighted_samples
from numpyro_contour.core.diffusions import Step, langevin, nose_hoover, rmsprop, underdamped

HESSIAN = np.array([9.0, 0.5])


def langevin_of(m, curvature):
    return langevin("independent", m, curvature=curvature)


def walk(diffusion, steps, step_size=0.01, temperature=1.0):
    x = jnp.array([1.0, -2.0])
    memory = diffusion.init(random.key(0), x)
    places = [x]
    for key in random.split(random.key(1), steps):
        proposal = diffusion.propose(key, x, memory, HESSIAN * x, Step(step_size, temperature))
        x, memory = proposal.position, proposal.memory
        places.append(x)
    return np.stack(places), memory


@pytest.mark.parametrize("curvature", [False, True])
def test_steps_are_those_of_preconditioned_sgld(curvature):
    decay, floor, eps, tau = 0.9, 1e-3, 0.01, 1.5
    places, _ = walk(rmsprop(langevin_of, decay, floor, curvature), 20, eps, tau)
    squares = np.zeros(2)
    for k, (x, key) in enumerate(zip(places[:-1], random.split(random.key(1), 20)), start=1):
        g = HESSIAN * x
        squares = decay * squares + (1 - decay) * g**2
        size = np.sqrt(squares / (1 - decay**k))
        m = 1 / (floor + size)
        expected = x - eps * m * g + np.sqrt(2 * tau * eps * m) * random.normal(key, (2,))
        if curvature and k > 1:
            # dM/dx of the formula in the module, with the Hessian known.
            change = -(1 - decay) * m**2 / (size + floor) * g * HESSIAN
            expected = expected + tau * eps * change
        np.testing.assert_allclose(places[k], expected, rtol=1e-4, atol=1e-5)


def test_the_curvature_is_that_of_a_quadratic():
    _, memory = walk(rmsprop(langevin_of, curvature=True), 50)
    found = memory.slopes.products / memory.slopes.squares
    np.testing.assert_allclose(found, HESSIAN, rtol=1e-3)


def test_a_refused_move_counts_its_gradient_once():
    diffusion = rmsprop(langevin_of)
    x = jnp.ones(2)
    memory = diffusion.init(random.key(0), x)
    proposal = diffusion.propose(random.key(1), x, memory, x, Step(0.1, 1.0))
    assert int(proposal.memory.steps) == 1
    assert int(proposal.memory_if_refused.steps) == 0


DIFFUSIONS = {
    "langevin": lambda m, c: langevin("averaged", m, curvature=c),
    "underdamped": lambda m, c: underdamped(0.8, preconditioner=m, curvature=c),
    "nose_hoover": lambda m, c: nose_hoover(0.8, preconditioner=m, curvature=c),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["langevin", *map(in_second_tier, ("underdamped", "nose_hoover"))])
def test_it_samples_the_target_where_the_noise_of_minibatches_makes_the_preconditioner(name):
    """Gradients ten times as noisy as they are large, so that M hardly follows the position."""
    sd, hessian, step_size = np.array([30.0, 3.0]), np.array([9.0, 0.09]), 0.05
    diffusion = rmsprop(DIFFUSIONS[name], decay=0.999)
    chains, steps = 512, 6000

    @jax.jit
    @jax.vmap
    def chain(key):
        key_start, key_memory, key_run = random.split(key, 3)
        x = random.normal(key_start, (2,)) / hessian**0.5

        def body(carry, key):
            x, memory = carry
            key_move, key_gradient = random.split(key)
            g = hessian * x + sd * random.normal(key_gradient, (2,))
            # Steps so short that the gradient's noise adds little heat.
            proposal = diffusion.propose(key_move, x, memory, g, Step(step_size / 50, 1.0))
            return (proposal.position, proposal.memory), proposal.position**2

        start = (x, diffusion.init(key_memory, x))
        return jax.lax.scan(body, start, random.split(key_run, steps))[1][steps // 3 :].mean(0)

    squares = np.asarray(chain(random.split(random.key(0), chains)), np.float64) * hessian
    error = squares.std(0, ddof=1) / chains**0.5
    # The noise of the gradient heats by eps M sd**2 / (2 (1 - c)) with M = 1 / sd, none with
    # the thermostat.
    momentum = 0.0 if name == "langevin" else 0.8
    heat = 0.0 if name == "nose_hoover" else step_size / 50 * sd / (2 * (1 - momentum))
    np.testing.assert_array_less(np.abs(squares.mean(0) - 1 - heat), 4 * error + 0.01)


def test_arguments_out_of_range():
    with pytest.raises(ValueError, match="`decay` takes a number in"):
        rmsprop(langevin_of, decay=1.0)
    with pytest.raises(ValueError, match="`floor` takes a number above 0"):
        rmsprop(langevin_of, floor=0.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "step_size", "curvature"),
    [
        ("SGLD", 2e-3, True),
        ("SGNHT", 2e-4, False),
        in_third_tier("ContourSGHMC", 2e-4, True),
        in_third_tier("ReplicaExchangeSGLD", 2e-3, False),
    ],
)
def test_kernels_on_minibatches(name, step_size, curvature):
    """1,000 rows, 100 at a time: the noise of the gradient, of sd 100, decides M."""
    rows, chains = 1000, 16
    y = models.normal_data(mean=0.3, rows=rows)
    mean, sd = float(y.mean()), rows**-0.5
    kernel = models.KERNELS[name](
        models.normal,
        partition=EnergyPartition(1000.0, 2000.0, 20),
        step_size=step_size,
        preconditioner="rmsprop",
        curvature_correction=curvature,
        num_steps=50,
    )
    mcmc = models.run(
        kernel,
        0,
        y,
        model_kwargs={"minibatch": 100},
        init_params={"mu": mean + sd * random.normal(random.key(8), (chains,))},
        chains=chains,
        chain_method="vectorized",
        warmup=20,
        samples=1000,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*of the swaps", UserWarning)
        samples, log_weights = weighted_samples(mcmc)
    w, mu = np.exp(log_weights), np.asarray(samples["mu"], np.float64)
    means = (w * mu).mean(1)
    assert abs(means.mean() - mean) < 4 * means.std(ddof=1) / chains**0.5
    found = (w * (mu - mean) ** 2).mean(1) ** 0.5 / sd
    # The noise of the gradient adds eps M V / (2 (1 - c)) = 10 % to the variance.
    error = found.std(ddof=1) / chains**0.5
    assert abs(found.mean() - (1.0 if name == "SGNHT" else 1.05)) < 4 * error + 0.01
    assert error < 0.015
