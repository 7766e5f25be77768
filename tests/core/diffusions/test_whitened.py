"""A diffusion in whitened coordinates: the same moves, seen from the position."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from numpyro_contour.core.diffusions import Step, langevin, nose_hoover, underdamped, whitened

FACTOR = jnp.array([[2.0, 0.0, 0.3], [-1.0, 0.5, 0.0], [0.7, 0.2, 0.1]])  # not symmetric
ORIGIN = jnp.array([1.0, -2.0, 3.0])
PRECISION = jnp.linalg.inv(FACTOR @ FACTOR.T)

MADE = {
    "langevin": langevin(preconditioner=jnp.ones(3), gradient_noise=jnp.array([0.1, 1.0, 2.0])),
    "langevin, independent": langevin("independent"),
    "underdamped": underdamped(preconditioner=jnp.ones(3), gradient_noise=0.1 * jnp.ones(3)),
    "nose_hoover": nose_hoover(0.8),
}


def slope(x):
    """The gradient of a potential energy that is steep enough for some drifts to be clipped."""
    return PRECISION @ (x - ORIGIN) + (x - ORIGIN) ** 3


@pytest.mark.parametrize("name", MADE)
def test_its_moves_are_those_of_the_coordinates(name):
    """A chain in z with x = x_0 + L z, and one in x: the same keys make the same places."""
    inner, outer = MADE[name], whitened(MADE[name], FACTOR)
    z = jnp.array([0.3, -1.0, 0.2])
    x = ORIGIN + FACTOR @ z
    of_z = of_x = inner.init(random.key(0), z)
    step, clipped = Step(0.1, 1.5, 0.7, 0.2), []
    for number in range(20):
        key = random.key(number)
        h = FACTOR.T @ slope(ORIGIN + FACTOR @ z)
        moved, seen = (
            inner.propose(key, z, of_z, h, step),
            outer.propose(key, x, of_x, slope(x), step),
        )
        z, of_z = moved.position, moved.memory
        x, of_x = seen.position, seen.memory
        clipped.append((bool(moved.clipped), bool(seen.clipped)))
    np.testing.assert_allclose(x, ORIGIN + FACTOR @ z, atol=1e-3)
    for one, other in zip(jax.tree.leaves(of_z), jax.tree.leaves(of_x)):
        np.testing.assert_allclose(one, other, atol=1e-3)
    assert [one for one, _ in clipped] == [other for _, other in clipped]
    before, after = slope(x), -slope(x)
    by_z = inner.relocate(of_z, z, FACTOR.T @ before, FACTOR.T @ after, step)
    for one, other in zip(
        jax.tree.leaves(by_z), jax.tree.leaves(outer.relocate(of_x, x, before, after, step))
    ):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


NOISE = jnp.array([0.3, 1.0, 2.0])  # variances of the gradient's noise, in z


@pytest.mark.parametrize("made", [langevin, underdamped], ids=lambda made: made.__name__)
def test_noise_that_covaries_is_taken_out_of_the_noise_that_is_injected(made):
    """Gradient noise of covariance V where L' V L is diagonal leaves a Gaussian's covariance."""
    back = jnp.linalg.inv(FACTOR).T  # gradients of z as gradients of x
    settings = {"preconditioner": jnp.ones(3), "gradient_noise": NOISE}
    if made is underdamped:
        settings |= {"momentum": 0.5}
    diffusion = whitened(made(**settings), FACTOR)
    chains, steps, step = 64, 4000, Step(0.2, 1.0)

    def body(carry, key):
        x, memory = carry
        key_move, key_noise = random.split(key)
        noise = jnp.sqrt(NOISE) * random.normal(key_noise, x.shape)
        gradient = (x - ORIGIN) @ PRECISION + noise @ back.T
        keys = random.split(key_move, chains)
        moved = jax.vmap(lambda *a: diffusion.propose(*a, step))(keys, x, memory, gradient)
        return (moved.position, moved.memory), x - ORIGIN

    start = ORIGIN + random.normal(random.key(1), (chains, 3)) @ FACTOR.T
    memory = jax.vmap(diffusion.init)(random.split(random.key(2), chains), start)
    places = jax.lax.scan(body, (start, memory), random.split(random.key(3), steps))[1]
    z = np.asarray(places[200:], np.float64) @ np.linalg.inv(np.asarray(FACTOR, np.float64)).T
    by_chain = np.einsum("tci,tcj->cij", z, z) / len(z)
    error = by_chain.std(0, ddof=1) / chains**0.5
    # A step of half the size would still leave 1 % of bias from the noise of two steps together.
    np.testing.assert_array_less(np.abs(by_chain.mean(0) - np.eye(3)), 5 * error + 0.02)
    # Without the correction the last variance would be 1 + eps V / 2 = 1.2.
    assert (5 * error + 0.02).max() < 0.15
