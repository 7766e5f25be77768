"""One step of each diffusion, and what many steps of it sample."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from tiers import in_second_tier

from numpyro_contour.core.diffusions import DRIFT_LIMIT, Step, clip_drift, langevin, underdamped


def stationary_variance(noise, step_size, steps=20_000, chains=512):
    """Variance of x under U = x**2 / 2, with its Monte Carlo error."""
    diffusion = langevin(noise)

    def body(carry, key):
        x, memory = carry
        proposal = diffusion.propose(key, x, memory, x, Step(step_size, 1.0))
        return (proposal.position, proposal.memory), jnp.mean(proposal.position**2)

    start = random.normal(random.key(0), (chains,))
    memory = diffusion.init(random.key(1), start)
    squares = jax.lax.scan(body, (start, memory), random.split(random.key(2), steps))[1]
    squares = np.asarray(squares)[200:].reshape(-1, 99).mean(1)  # batches far longer than 1 / step
    return squares.mean(), squares.std(ddof=1) / len(squares) ** 0.5


@pytest.mark.parametrize("step_size", [in_second_tier(0.1), 0.3])
def test_stationary_variances_are_the_known_ones(step_size):
    variance, error = stationary_variance("independent", step_size)
    assert abs(variance - 1 / (1 - step_size / 2)) < 4 * error
    # Averaged noise samples a Gaussian without bias at any step size.
    variance, error = stationary_variance("averaged", step_size)
    assert abs(variance - 1) < 4 * error
    # The two are apart by many errors, so that mixing them up would be seen.
    assert step_size / 2 > 10 * error


def test_a_step_is_its_formula():
    x, g = jnp.array([1.0, -2.0]), jnp.array([0.3, 0.7])
    last = jnp.array([0.5, -0.25])
    key, eps, tau, multiplier = random.key(7), 0.2, 1.5, -0.4
    fresh = random.normal(key, (2,))
    scale = np.sqrt(2 * tau * eps)
    averaged = langevin("averaged").propose(key, x, last, g, Step(eps, tau, multiplier))
    np.testing.assert_allclose(
        averaged.position, x - eps * multiplier * g + scale * (last + fresh) / 2, rtol=1e-6
    )
    np.testing.assert_array_equal(averaged.memory, fresh)
    independent = langevin("independent").propose(key, x, (), g, Step(eps, tau, multiplier))
    np.testing.assert_allclose(
        independent.position, x - eps * multiplier * g + scale * fresh, rtol=1e-6
    )


def test_the_drift_is_clipped_and_says_so():
    x = jnp.zeros(2)
    scale = np.sqrt(2 * 0.01)
    propose = langevin("independent").propose
    steep = propose(random.key(0), x, (), jnp.array([1e6, 1.0]), Step(0.01, 1.0))
    noise = scale * random.normal(random.key(0), (2,))
    np.testing.assert_allclose(
        steep.position - noise, [-DRIFT_LIMIT * scale, -0.01], rtol=1e-5, atol=1e-7
    )
    assert bool(steep.clipped)
    assert not bool(propose(random.key(0), x, (), jnp.ones(2), Step(0.01, 1.0)).clipped)


@pytest.mark.parametrize("made", [langevin, underdamped])
def test_a_drift_without_a_limit_is_the_plain_step(made):
    x, g = jnp.zeros(2), jnp.array([1e6, 1.0])
    diffusion = made(noise="independent", drift_limit=math.inf)
    memory = diffusion.init(random.key(0), x)
    ends = [
        diffusion.propose(random.key(0), x, memory, scale * g, Step(0.01, 1.0))
        for scale in (1.0, 0.0)
    ]
    np.testing.assert_allclose(ends[0].position - ends[1].position, -0.01 * g, rtol=1e-4)
    assert not bool(ends[0].clipped)
    with pytest.raises(ValueError, match=r"drift_limit.*above 0.*got 0\.0"):
        made(drift_limit=0.0)


def test_without_temperature_it_is_gradient_descent():
    x = jnp.array([1.0, 2.0])
    proposal = langevin("independent").propose(random.key(0), x, (), 1e5 * x, Step(0.01, 0.0))
    np.testing.assert_allclose(proposal.position, x - 0.01 * 1e5 * x)
    assert not bool(proposal.clipped)


def test_positions_may_be_any_pytree():
    tree = {"a": jnp.ones((2, 3)), "b": [jnp.zeros(()), jnp.ones(4)]}
    diffusion = langevin()
    proposal = diffusion.propose(
        random.key(1), tree, diffusion.init(random.key(0), tree), tree, Step(0.1, 1.0)
    )
    assert jax.tree.map(jnp.shape, proposal.position) == jax.tree.map(jnp.shape, tree)
    flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(proposal.memory)])
    assert len(np.unique(flat)) == flat.size  # no leaf repeats another's normals


def test_a_drift_is_clipped_at_its_limit_and_not_before():
    scale = jnp.array([1.0, 1.0, 0.5, 0.0])
    drift, clipped = clip_drift(jnp.array([2.9, -9.0, 1.6, 7.0]), scale)
    np.testing.assert_allclose(drift, [2.9, -3.0, 1.5, 7.0], rtol=1e-6)
    assert bool(clipped)
    assert not bool(clip_drift(jnp.array([2.9, -3.0]), jnp.ones(2))[1])
