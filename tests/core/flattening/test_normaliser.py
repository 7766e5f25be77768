"""The normaliser of the flattened density, against sums over a grid and a run that needs it."""

import jax
import jax.numpy as jnp
import models
import numpy as np
import pytest
from scipy.special import logsumexp
from tiers import in_second_tier

from numpyro_contour import ContourSGLD, EnergyPartition, robbins_monro, weighted_samples
from numpyro_contour.core.flattening.normaliser import (
    initial_mean_theta,
    log_normaliser,
    update_mean_theta,
)
from numpyro_contour.core.flattening.psi import Flattening, log_psi, log_psi_at_nodes
from numpyro_contour.core.flattening.theta import initial_theta

GRID = jnp.linspace(-12, 12, 4801)
PARTITION = EnergyPartition(0.0, 12.0, 24)
MASS = 0.9


def energy(x):
    """Two normals, 7 nats between them."""
    return -jnp.logaddexp(
        jnp.log(1 - MASS) - (x + 3.5) ** 2 / 2, jnp.log(MASS) - (x - 3.5) ** 2 / 2
    )


def masses_on_the_grid():
    """The log density on the grid, and the probabilities of the bins."""
    log_density = -np.asarray(energy(GRID), float)
    log_density -= logsumexp(log_density)
    bins = np.asarray(PARTITION.index(energy(GRID)))
    return log_density, np.array([np.exp(log_density[bins == i]).sum() for i in range(24)])


SHAPES = {
    "forward": Flattening(),
    "midpoint": Flattening(0.75, "midpoint"),
    "backward": Flattening(0.75, "backward"),
    "two-sided": Flattening(1.0, "midpoint", one_sided=False),
    "bare": Flattening(0.5, "forward", one_sided=False, multiplier_bound=None),
    "tight bound": Flattening(1.0, "forward", multiplier_bound=0.5),
    "not flattened": Flattening(0.0),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("temperature", [1.0, in_second_tier(1e-30)])
def test_it_is_the_integral_over_the_flattened_density(name, temperature):
    """For rough thetas; what is left is that energies are not spread evenly within a bin."""
    shape = SHAPES[name]
    log_density, probability = masses_on_the_grid()
    mean = initial_mean_theta(jnp.log(probability) + 3.0)  # normalised or not
    found, exact = [], []
    for seed in range(20):
        rough = np.log(probability) + np.random.default_rng(seed).normal(0, 0.5, 24)
        theta = initial_theta(24)._replace(log_theta=jnp.asarray(rough, float), decay=0.01)
        nodes = log_psi_at_nodes(theta.log_theta, jnp.arange(24), PARTITION, temperature, shape)
        psi = jax.vmap(log_psi, (None, 0, None, None, None))
        log_psis = psi(theta.log_theta, energy(GRID), PARTITION, temperature, shape).value
        log_psis = np.asarray(log_psis, float) - 0.01
        assert np.isfinite(nodes).all()
        exact.append(logsumexp(log_density - shape.zeta * log_psis))
        found.append(float(log_normaliser(mean, theta, PARTITION, temperature, shape)))
    # A constant goes with the weights' own.
    assert (np.array(found) - exact).std() <= 0.3 * np.std(exact) + 1e-5


def test_the_mean_forgets_a_first_theta_that_was_far_off():
    """The n-th of a hundred counts n times: a first fifth of them has 4 % of the logarithm."""
    mean = initial_mean_theta(jnp.zeros(3))
    for n in range(100):
        theta = initial_theta(3)._replace(
            log_theta=jnp.array([-1.0, -30.0 if n >= 20 else -1.0, -9.0])
        )
        mean = update_mean_theta(mean, theta)
    share = 20 * 21 / (100 * 101)
    np.testing.assert_allclose(mean.log_theta, [-1.0, -30 + 29 * share, -9.0], rtol=1e-4)


@pytest.mark.slow
def test_weights_without_the_bias_of_a_moving_theta():
    """A gain so large that theta follows the chain from mode to mode.

    What is left is that the chain is not in equilibrium with the theta of the moment.
    """
    chains = 64
    kernel = ContourSGLD(
        potential_fn=energy,
        step_size=0.2,
        num_steps=20,
        partition=PARTITION,
        gain=robbins_monro(5, 0.6, 100),
    )
    mcmc = models.run(
        kernel,
        0,
        warmup=200,
        samples=1000,
        chains=chains,
        chain_method="vectorized",
        init_params=jnp.where(jnp.arange(chains) < 0.1 * chains, -3.5, 3.5),
    )
    x, log_weights = weighted_samples(mcmc)
    right = np.asarray(x) > 0

    def mass(log_weights):
        weights = np.exp(log_weights - logsumexp(log_weights, axis=1, keepdims=True))
        by_chain = (weights * right).sum(1)
        return by_chain.mean(), by_chain.std(ddof=1) / chains**0.5

    fields = mcmc.get_extra_fields(group_by_chain=True)
    biased, _ = mass(log_weights - np.asarray(fields["log_normaliser"], float))
    found, error = mass(log_weights)
    assert biased < MASS - 8 * error
    assert abs(found - MASS) < 3 * error + 0.015


@pytest.mark.parametrize(
    "given",
    [{"theta": jnp.full(24, 1 / 24)}, {"weight": "piecewise"}],
    ids=lambda given: next(iter(given)),
)
def test_there_is_none_where_theta_stands_or_the_weights_are_the_papers(given):
    kernel = ContourSGLD(potential_fn=energy, step_size=0.2, partition=PARTITION, **given)
    mcmc = models.run(kernel, 0, warmup=5, samples=10, init_params=jnp.zeros(()))
    assert not np.any(mcmc.get_extra_fields()["log_normaliser"])
