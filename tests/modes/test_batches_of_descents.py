"""Batches of descents, and landscapes that evaluate any number of places."""

import jax
import jax.numpy as jnp
import numpy as np
from landscapes import landscape_of

from numpyro_contour.modes.descent import descend


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def test_descents_arrive_in_one_batch():
    starts = np.random.default_rng(0).uniform(-2, 2, (16, 2)).astype(np.float32)
    ends = jax.jit(lambda x: descend(jax.value_and_grad(rosenbrock), x, 300))(starts)
    assert bool(ends.rests.all())
    np.testing.assert_allclose(ends.position, np.ones((16, 2)), atol=0.05)
    assert int(ends.evaluations) < 300


def test_one_evaluation_is_that_of_the_start():
    starts = np.array([[0.5, 1.0], [2.0, -1.0]], np.float32)
    ends = descend(jax.value_and_grad(rosenbrock), jnp.asarray(starts), 1)
    energy, gradient = jax.vmap(jax.value_and_grad(rosenbrock))(starts)
    np.testing.assert_array_equal(ends.position, starts)
    np.testing.assert_allclose(ends.energy, energy, rtol=1e-6)
    np.testing.assert_allclose(ends.gradient, gradient, rtol=1e-6)


def test_a_descent_that_rests_waits_for_the_others_where_it_is():
    both = jax.value_and_grad(rosenbrock)
    alone = descend(both, jnp.array([[1.01, 1.02]]), 300)
    together = descend(both, jnp.array([[1.01, 1.02], [-1.9, 2.0]]), 300)
    np.testing.assert_array_equal(alone.position[0], together.position[0])
    assert int(together.evaluations) > int(alone.evaluations)


def test_a_start_where_nothing_is_finite_does_not_hold_up_the_others():
    energy = jax.value_and_grad(lambda x: jnp.sum(jnp.log(x) ** 2))
    ends = descend(energy, jnp.array([[-1.0], [2.0]]), 100)
    np.testing.assert_allclose(ends.position[1], 1.0, atol=1e-3)
    assert not np.isfinite(ends.energy[0])
    assert int(ends.evaluations) < 50


def test_a_landscape_takes_any_number_of_places_and_counts_them():
    landscape = landscape_of(lambda x: 0.5 * x @ x, 2, lanes=4)
    places = np.arange(14.0).reshape(7, 2)
    energy, gradient = landscape.at(places)
    np.testing.assert_allclose(energy, 0.5 * (places**2).sum(1))
    np.testing.assert_allclose(gradient, places)
    assert landscape.gradients == 7
    assert landscape.at(np.empty((0, 2)))[0].shape == (0,)
