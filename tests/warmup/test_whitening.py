"""The dense preconditioner that the moments of a stage suggest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from numpyro_contour.core.diffusions import langevin
from numpyro_contour.core.samplers.chain import start
from numpyro_contour.warmup.stages.frames import first_frame
from numpyro_contour.warmup.stages.state import end_tuning_stage
from numpyro_contour.warmup.stages.tuning import initial_tuning
from numpyro_contour.warmup.stages.tuning_step import Moment, Moves, tuning_step
from numpyro_contour.warmup.stages.turning import turned
from numpyro_contour.warmup.stages.whitening import whitening

SIZE = 6
TAU = jnp.ones(())


def turned_scales(condition, seed=0, size=SIZE):
    """A covariance whose eigenvalues span a condition number, turned at random."""
    turn, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))
    return (turn * np.logspace(0, -np.log10(condition), size)) @ turn.T


def moments_of(positions, precision):
    places = np.cov(positions.T)
    return places, precision @ places @ precision


def test_it_is_exact_for_a_gaussian_from_any_positions():
    precision = np.linalg.inv(turned_scales(100.0))
    # Positions of another spread than the target's, turned another way.
    positions = np.random.default_rng(1).normal(size=(40, SIZE)) @ turned_scales(10.0, seed=2)
    moments = moments_of(positions, precision)
    # What rounding may take from the least eigenvalue, in single precision and in double.
    condition = np.linalg.cond(moments[1])
    for wide in (False, True):
        with jax.enable_x64(wide):
            places, gradients = (jnp.asarray(x) for x in moments)
            found = whitening(places, gradients, jnp.zeros((SIZE, SIZE)), jnp.ones(()))
            factor = np.asarray(found.factor, float)
            off = np.abs(factor.T @ precision @ factor - np.eye(SIZE)).max()
            assert off < float(jnp.finfo(places.dtype).eps) * condition
    np.testing.assert_array_equal(found.noise, 0.0)
    largest = np.linalg.eigvalsh(precision)[-1]
    np.testing.assert_allclose(found.stiffness, largest, rtol=0.01)


@pytest.mark.parametrize("tau", [1.0, 2.0])
def test_the_noise_of_the_gradient_is_a_part_of_it(tau):
    covariance, noise = turned_scales(100.0), 3.0 * turned_scales(5.0, seed=3)
    precision = np.linalg.inv(covariance)
    gradients = precision @ covariance @ precision + noise
    found = whitening(*(jnp.asarray(x) for x in (covariance, gradients, noise)), jnp.asarray(tau))
    factor = np.asarray(found.factor, np.float64)
    inverse = factor.T @ (precision + noise / tau) @ factor
    np.testing.assert_allclose(inverse, np.eye(SIZE), atol=0.02)
    # The noise does not covary in the new coordinates, and its variances are the ones told.
    np.testing.assert_allclose(factor.T @ noise @ factor, np.diag(found.noise), atol=0.02)
    assert np.ptp(found.noise) > 0.1


def tuned(covariance, steps, noise=None, seed=0):
    """Three stages of tuning steps of one chain on a Gaussian, with what each has found."""
    size = len(covariance)
    precision = jnp.asarray(np.linalg.inv(covariance), jnp.float32)
    scatter = jnp.zeros((size, size)) if noise is None else jnp.linalg.cholesky(jnp.asarray(noise))

    def energy(key, x):
        slope = scatter @ random.normal(key, (size,))
        return 0.5 * x @ precision @ x + slope @ x, precision @ x + slope

    x = jnp.ones(size)
    chain = start(random.key(seed), x, energy, langevin())
    tuning = initial_tuning(size, None, 0.01, frame=first_frame(x))
    keys = random.split(random.key(seed + 1), (3, steps, 2))

    @jax.jit
    def stage(chain, tuning, keys):
        def body(carry, keys):
            moved = tuning_step(keys, *carry, Moves(energy, noise is None), Moment(TAU, 0.0, True))
            return moved, None

        chain, tuning = jax.lax.scan(body, (chain, tuning), keys)[0]
        ended = end_tuning_stage(
            tuning, TAU, *(jnp.array(x) for x in (False, True, False)), False, False
        )
        return chain, tuning, turned(ended, chain.position, TAU, jnp.array(True))

    seen = []
    for number in range(3):
        chain, before, tuning = stage(chain, tuning, keys[number])
        seen.append((chain, before))
    return seen, tuning


def test_windows_whiten_a_gaussian_that_no_diagonal_can():
    covariance = turned_scales(1e4)
    seen, tuning = tuned(covariance, 600)
    factor = np.asarray(tuning.factor, np.float64)
    np.testing.assert_array_equal(tuning.preconditioner, 1.0)
    whitened = factor.T @ np.linalg.inv(covariance) @ factor
    assert np.linalg.cond(whitened) < 1.05
    # Whatever is tuned, the chain is where its coordinates say.
    assert [bool(before.frame.turned) for _, before in seen] == [False, True, True]
    for chain, before in seen[1:]:
        frame = before.frame
        np.testing.assert_allclose(
            frame.origin + frame.factor @ frame.place, chain.position, atol=1e-4
        )
    chain, before = seen[1]
    # And the moments are those of z: the mean position is the mean of the positions.
    assert np.abs(before.mean_position - before.frame.origin).max() > 1e-3
    # Steps of a whitened Gaussian are long.
    assert 0.15 < float(jnp.exp(seen[2][1].step_size.log_average)) < 0.8


def test_windows_find_the_noise_of_minibatches():
    covariance = turned_scales(30.0)
    noise = 20.0 * turned_scales(10.0, seed=4)
    _, tuning = tuned(covariance, 3000, noise)
    factor = np.asarray(tuning.factor, np.float64)
    np.testing.assert_allclose(factor.T @ noise @ factor, np.diag(tuning.gradient_noise), atol=0.1)
    inverse = factor.T @ (np.linalg.inv(covariance) + noise) @ factor
    assert np.linalg.cond(inverse) < 1.5


def test_too_few_steps_keep_the_diagonal():
    seen, tuning = tuned(turned_scales(1e4), 4 * SIZE)
    np.testing.assert_array_equal(tuning.factor, np.eye(SIZE))
    assert float(tuning.moments.steps) == 0.0
    np.testing.assert_array_equal(tuning.frame.seen.places, 0.0)
    assert float(seen[0][1].moments.steps) == 4 * SIZE


def test_directions_without_moves_keep_their_scale():
    """A chain that has only moved along one line says nothing of the other directions."""
    line = np.ones(SIZE) / np.sqrt(SIZE)
    places, gradients = 4.0 * np.outer(line, line), 0.25 * np.outer(line, line)
    added = 1e-5 * np.eye(SIZE)
    found = whitening(
        jnp.asarray(places + added), jnp.asarray(gradients + added), jnp.zeros((SIZE, SIZE)), TAU
    )
    matrix = np.asarray(found.factor @ found.factor.T)
    # The precision is sqrt(.25 / 4) = 1 / 4 along the line and 1 across.
    np.testing.assert_allclose(line @ matrix @ line, 4.0, rtol=1e-2)
    across = np.eye(SIZE) - np.outer(line, line)
    np.testing.assert_allclose(across @ matrix @ across, across, atol=1e-2)
