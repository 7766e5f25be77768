"""A theta that chains share moves by the mean of what each of them adds."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from numpyro_contour import EnergyPartition, robbins_monro
from numpyro_contour.core.diffusions import langevin
from numpyro_contour.core.flattening.theta import initial_theta
from numpyro_contour.core.flattening.theta_updates import RANDOM_FIELDS, learn
from numpyro_contour.core.samplers.contour import contour
from numpyro_contour.schedules import Constant


def probabilities(theta):
    return np.exp(np.asarray(theta.log_theta - theta.decay[..., None], np.float64))


def together(name, theta, bins, log_omega, log_shared, rho=2.5):
    """Theta of each chain after a step from one theta."""

    def of_chain(*visit):
        return learn(name, theta, *visit, rho, "chains")

    return jax.jit(jax.vmap(of_chain, axis_name="chains"))(bins, log_omega, log_shared)


@pytest.mark.parametrize("name", RANDOM_FIELDS)
def test_a_step_is_the_mean_of_those_of_single_chains(name):
    theta = np.random.default_rng(0).dirichlet(np.ones(6))
    bins, omega, field = [4, 0, 4, 2], [0.3, 0.2, 0.3, 0.0], [0.5, 0.1, 0.3, 0.4]
    moved = []
    for j, w, f in zip(bins, omega, field):
        gains = w * (f + w * 2.5 * (np.arange(6) >= j) * (name == "penalized"))
        moved.append(theta + gains * ((np.arange(6) == j) - theta))
    expected = np.mean(moved, 0)
    found = together(
        name,
        initial_theta(6, theta),
        jnp.array(bins),
        jnp.log(jnp.array(omega)),
        jnp.log(jnp.array(field)),
    )
    np.testing.assert_allclose(probabilities(found)[0], expected / expected.sum(), rtol=1e-5)
    for values in (found.log_theta, found.decay):
        np.testing.assert_array_equal(values, np.broadcast_to(values[0], values.shape))
    # Each chain counts its own visits, the one that does not learn too.
    np.testing.assert_array_equal(found.bin_counts, np.eye(6)[bins])


@pytest.mark.parametrize("name", RANDOM_FIELDS)
def test_one_chain_among_itself_is_a_chain_alone(name):
    theta = initial_theta(6, np.random.default_rng(1).dirichlet(np.ones(6)))
    visit = jnp.array(3), jnp.log(0.2), jnp.log(0.4)
    alone = learn(name, theta, *visit, 2.5)
    found = together(name, theta, *(x[None] for x in visit))
    np.testing.assert_allclose(found.log_theta[0], alone.log_theta, rtol=1e-6)
    np.testing.assert_allclose(found.decay[0], alone.decay, rtol=1e-6)


def test_small_updates_of_all_chains_add_up_in_float32():
    steps, generator = 20_000, np.random.default_rng(1)
    expected = np.array([0.4, 0.3, 0.2, 0.1, np.exp(-30)])
    bins = generator.choice(4, size=(steps, 2))
    log_omega = generator.uniform(-14, -10, size=(steps, 2)).astype(np.float32)

    def run(bins, log_omega):
        def body(theta, visit):
            return learn("consistent", theta, *visit, jnp.zeros(()), chains="chains"), None

        return jax.lax.scan(body, initial_theta(5, expected), (bins, log_omega))[0]

    found = jax.jit(jax.vmap(run, axis_name="chains", in_axes=1))(bins, log_omega)
    for visited, omega in zip(bins, np.exp(log_omega.astype(float))):
        expected = expected * (1 - omega.mean()) + np.bincount(visited, omega, 5) / 2
    np.testing.assert_allclose(probabilities(found)[1], expected, rtol=2e-3)


def test_a_step_of_the_sampler_averages_the_random_fields_of_its_chains():
    """From one theta a step moves each chain alike, whether theta is shared or its own."""
    parts = langevin(), Constant(0.1), Constant(1.0), EnergyPartition(0.0, 6.0, 12), robbins_monro()
    energy = lambda key, x: (0.5 * jnp.sum(x**2), x)
    positions, keys = jnp.array([[0.3], [1.6], [-2.5]]), random.split(random.key(0), (3, 2))

    def step(position, keys, chains=None):
        sampler = contour(*parts, chains=chains)
        return sampler.step(keys, sampler.init(keys[0], position, energy), energy)

    own = jax.jit(jax.vmap(step))(positions, keys)
    among = partial(step, chains="chains")
    shared = jax.jit(jax.vmap(among, axis_name="chains"))(positions, keys)
    np.testing.assert_array_equal(shared.chain.position, own.chain.position)
    assert len(set(own.energy_bin.tolist())) == 3
    expected = probabilities(own.theta).mean(0)
    for theta in probabilities(shared.theta):
        np.testing.assert_allclose(theta, expected, rtol=1e-5)
    assert np.abs(expected - 1 / 12).max() > 0.002
