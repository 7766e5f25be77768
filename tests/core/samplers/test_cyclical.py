"""Cycles: the step sizes, the two stages, and where the first cycle begins."""

import jax
import jax.numpy as jnp
import models
import numpy as np
import pytest
from jax import random

from numpyro_contour import CyclicalSGLD, weighted_samples
from numpyro_contour.core.diffusions import langevin
from numpyro_contour.core.samplers.cyclical import cyclical
from numpyro_contour.schedules import Constant

LENGTH, EXPLORATION = 40, 0.3


def square(key, x):
    return 0.5 * x**2, x


def test_steps_fall_as_a_cosine_and_the_first_descend():
    sampler = cyclical(langevin("independent"), Constant(0.2), Constant(1.0), LENGTH, EXPLORATION)
    state = sampler.init(random.key(0), jnp.array(2.0), square)
    for k, keys in enumerate(random.split(random.key(1), (2 * LENGTH + 5, 2))):
        x = float(state.chain.position)
        step_size = 0.1 * (np.cos(np.pi * (k % LENGTH) / LENGTH) + 1)
        assert float(sampler.observe(state).step_size) == pytest.approx(step_size, rel=1e-4)
        state = sampler.step(keys, state, square)
        explores = k % LENGTH < EXPLORATION * LENGTH
        assert np.isneginf(sampler.observe(state).log_weight) == explores
        descent = x - step_size * x
        moved = float(state.chain.position)
        if explores:
            assert moved == pytest.approx(descent, rel=1e-4, abs=1e-6)
        else:
            noise = np.sqrt(2 * step_size) * float(random.normal(keys[0]))
            assert moved == pytest.approx(descent + noise, rel=1e-3, abs=1e-5)


def test_a_share_of_the_cycle_is_a_whole_number_of_steps():
    """0.1 * 30 is above 3 in floating point, and a third of 10 steps are three."""
    for length, exploration, exploring in ((30, 0.1, 3), (10, 1 / 3, 3), (7, 0.0, 0)):
        sampler = cyclical(langevin(), Constant(0.1), Constant(1.0), length, exploration)
        state = sampler.init(random.key(0), jnp.array(2.0), square)

        def step(state, keys, sampler=sampler):
            state = sampler.step(keys, state, square)
            return state, sampler.observe(state).log_weight

        keys = random.split(random.key(1), (length, 2))
        log_weights = jax.lax.scan(step, state, keys)[1]
        assert np.isneginf(log_weights).sum() == exploring


@pytest.mark.slow
@pytest.mark.parametrize("step_size", [None, 0.1])
def test_the_first_cycle_begins_after_what_is_tuned(step_size):
    kernel = CyclicalSGLD(
        potential_fn=lambda x: 0.5 * jnp.sum(x**2),
        step_size=step_size,
        cycle_length=20,
        exploration=0.25,
        num_steps=1,
    )
    # 33 draws of warm-up are no whole number of cycles.
    mcmc = models.run(kernel, 0, warmup=33, samples=60, init_params=jnp.ones(3))
    explored = np.isneginf(weighted_samples(mcmc)[1][0])
    begins = 0 if step_size is None else 20 - 33 % 20
    expected = (np.arange(60) - begins) % 20 < 5
    np.testing.assert_array_equal(explored, expected)
