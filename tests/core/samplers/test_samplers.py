"""Each sampler against a known distribution, with tolerances from the error across chains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats
from tiers import in_second_tier

from numpyro_contour import EnergyPartition, robbins_monro
from numpyro_contour.core.diffusions import langevin
from numpyro_contour.core.flattening.psi import Flattening
from numpyro_contour.core.samplers.contour import contour
from numpyro_contour.core.samplers.plain import plain
from numpyro_contour.core.samplers.window import Length, run_window
from numpyro_contour.examples import mixture
from numpyro_contour.schedules import Constant

COVARIANCE = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])
MEAN = np.array([1.0, -2.0, 0.5])


def gaussian(key, x):
    d = jnp.linalg.solve(COVARIANCE, x - MEAN)
    return 0.5 * jnp.dot(x - MEAN, d), d


def of(name, partition, step_size, zeta=0.75, noise="averaged", **arguments):
    """The table of samplers: a later one is one line."""
    diffusion, eps, tau = langevin(noise), Constant(step_size), Constant(1.0)
    if name == "sgld":
        return plain(diffusion, eps, tau)
    return contour(diffusion, eps, tau, partition, robbins_monro(), Flattening(zeta), **arguments)


def run(sampler, potential_and_grad, start, windows, num_steps, seed=0, draw="reservoir"):
    """Draws (chains, windows, ...), weights with mean 1 in each chain, and the last state."""

    @jax.jit
    @jax.vmap
    def chain(key, start):
        key_init, key_run = random.split(key)
        state = sampler.init(key_init, start, potential_and_grad)

        def body(state, key):
            state, window = run_window(key, state, potential_and_grad, sampler, num_steps, draw)
            return state, (window.draw.position, window.log_weight)

        return jax.lax.scan(body, state, random.split(key_run, windows))

    state, (draws, log_weight) = chain(random.split(random.key(seed), len(start)), start)
    log_weight = np.asarray(log_weight, np.float64)
    weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    return np.asarray(draws, np.float64), weight / weight.mean(axis=1, keepdims=True), state


def across_chains(values):
    """Mean over chains and its standard error."""
    return values.mean(0), values.std(0, ddof=1) / len(values) ** 0.5


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sgld", "contour"])
def test_a_correlated_gaussian(name):
    chains, step_size = 32, 0.05
    sampler = of(name, EnergyPartition(0.0, 8.0, 16), step_size)
    start = MEAN + random.normal(random.key(9), (chains, 3)) @ np.linalg.cholesky(COVARIANCE).T
    x, w, _ = run(sampler, gaussian, start, windows=5000, num_steps=20)
    x, w = x[:, 1000:], w[:, 1000:]  # the rest is warm-up
    w /= w.mean(1, keepdims=True)
    # The limit holds the Bonferroni quantile for 9 comparisons with 31 degrees of freedom.
    limit = stats.t.ppf(1 - 0.001 / 9, chains - 1)
    mean, error = across_chains((w[..., None] * x).mean(1))
    assert (np.abs(mean - MEAN) < limit * error).all()
    centred = x - MEAN
    second = np.einsum("cd,cdi,cdj->cij", w, centred, centred) / x.shape[1]
    covariance, error = across_chains(second)
    # Averaged noise leaves a Gaussian unbiased. A theta that still moves, by a gain of 1e-3 here,
    # leaves the contour sampler a bias of that order, which falls with the gain.
    bias = 0.0 if name == "sgld" else 0.02 * np.sqrt(np.outer(*[np.diag(COVARIANCE)] * 2))
    assert (np.abs(covariance - COVARIANCE) < limit * error + bias).all()
    # The check can fail: a wrong temperature of 10 % would be seen.
    assert (0.1 * np.diag(COVARIANCE) > (limit * error + bias).diagonal()).all()


@pytest.mark.optimized
@pytest.mark.parametrize(
    ("draw", "in_stretches"),
    [("reservoir", False), ("reservoir", True), in_second_tier("last", False)],
)
def test_contour_finds_the_mass_of_both_modes(draw, in_stretches):
    partition = EnergyPartition(0.0, 50.0, 50)
    x, w, state = run(
        of("contour", partition, 0.1, in_stretches=in_stretches),
        mixture.noisy_energy(),
        jnp.full(10, -6.0),
        windows=3000,
        num_steps=Length(10, 10) if in_stretches else 100,
        draw=draw,
    )
    mass, error = across_chains((w * (x > mixture.DIVIDE)).mean(1))
    assert abs(mass - mixture.MASS) < 4 * error + 0.005
    assert error < 0.03
    theta = np.exp(np.asarray(state.theta.log_theta, np.float64))
    assert 0.5 * np.abs(theta - mixture.exact_theta(partition)).sum(1).mean() < 0.05
    if draw == "reservoir":
        assert w.sum() ** 2 / (w**2).sum() / w.size > 0.6
    # It can fail: the unweighted draws have another mass.
    unweighted, _ = across_chains((x > mixture.DIVIDE).mean(1))
    if draw == "last":
        assert abs(unweighted - mixture.MASS) > 4 * error + 0.005


@pytest.mark.slow
def test_within_each_mode_the_variance_is_one():
    x, w, _ = run(
        of("contour", EnergyPartition(0.0, 30.0, 60), 0.05),
        lambda key, x: jax.value_and_grad(mixture.potential)(x),
        jnp.where(jnp.arange(16) % 2 == 0, -6.0, 4.0),
        windows=4000,
        num_steps=50,
    )
    for centre in (-6.0, 4.0):
        near = w * (np.abs(x - centre) < 5.0)
        variance, error = across_chains((near * (x - centre) ** 2).sum(1) / near.sum(1))
        assert abs(variance - 1) < 4 * error + 0.01


@pytest.mark.slow
@pytest.mark.parametrize("width", [*map(in_second_tier, (1.0, 0.5)), 0.25])
@pytest.mark.parametrize("random_field", ["consistent", in_second_tier("csgld")])
def test_nothing_is_nan_from_a_trapped_start(width, random_field):
    partition = EnergyPartition(0.0, 50.0, round(50 / width))
    sampler = of("contour", partition, 0.1, random_field=random_field)
    x, w, state = run(sampler, mixture.noisy_energy(), jnp.array([-6.0, 30.0]), 400, 100)
    assert np.isfinite(x).all()
    assert np.isfinite(w).all()
    assert np.isfinite(state.theta.log_theta).all()


def test_staying_outside_the_partition_is_plain_langevin():
    """Above the partition Psi is constant: draws weigh the same and follow the target."""
    chains = 32
    sampler = of("contour", EnergyPartition(-50.0, -20.0, 30), 0.05)
    start = MEAN + random.normal(random.key(9), (chains, 3)) @ np.linalg.cholesky(COVARIANCE).T
    x, w, state = run(sampler, gaussian, start, windows=1000, num_steps=10, draw="last")
    np.testing.assert_array_equal(np.asarray(state.energy_bin), 29)
    np.testing.assert_array_equal(np.asarray(state.chain.guard.refused), 0)
    np.testing.assert_array_equal(np.asarray(state.gradient_multiplier), 1.0)
    mean, error = across_chains((w[..., None] * x).mean(1))
    assert (np.abs(mean - MEAN) < stats.t.ppf(1 - 0.001 / 3, chains - 1) * error).all()
