"""A step size that suits the narrowest of the modes that chains jump to."""

import jax.numpy as jnp
import models
import numpy as np
import pytest
from jax.scipy.stats import norm

from numpyro_contour import SGLD, ContourSGLD, diagnose
from numpyro_contour.core.arrays.factors import LowRank
from numpyro_contour.core.samplers.jumps import no_counts
from numpyro_contour.modes.found_modes import none_found
from numpyro_contour.warmup.stages.frames import first_frame
from numpyro_contour.warmup.stages.steps_that_fit import suited_to_modes
from numpyro_contour.warmup.stages.tuning import initial_tuning

WIDE = np.array([4.0, 4.0, 4.0])
# A normal that is narrower in two coordinates, and in one of their diagonals.
NARROW = np.array([[0.5, 0.4, 0.0], [0.4, 0.5, 0.0], [0.0, 0.0, 9.0]])


def known_modes(temperature=1.0):
    """A wide mode and a narrow one, by the roots of their covariances times the temperature."""
    found = none_found(3)
    roots = [np.diag(WIDE**0.5), np.linalg.cholesky(NARROW)]
    modes = found.modes
    for slot, root in enumerate(roots):
        root = root * temperature**0.5
        modes = modes._replace(
            known=modes.known.at[slot].set(True),
            factor=modes.factor.at[slot].set(root),
            inverse=modes.inverse.at[slot].set(np.linalg.inv(root)),
        )
    return found._replace(modes=modes)


def jumps(made, tried):
    """Jumps from the wide mode to the narrow one."""
    counts = no_counts(len(known_modes().modes.known))
    return counts._replace(
        tried=counts.tried.at[0, 1].set(tried), made=counts.made.at[0, 1].set(made)
    )


def suited(made=10, tried=40, frame=(), temperature=1.0, log_mass=None, normal=True):
    """By jumps to the narrow mode, or by its mass in place of them."""
    found = known_modes(temperature)
    if log_mass is not None:
        masses = found.log_mass.at[0].set(0.0).at[1].set(log_mass)
        found = found._replace(log_mass=masses, is_normal=found.modes.known & normal)
    tuning = initial_tuning(3, jnp.asarray(WIDE), 0.4, frame=frame)
    return suited_to_modes(tuning, found, jumps(made, tried), temperature)


def largest_product(tuning, axes=None):
    """Step size times curvature in the narrow mode, by the matrices as they are written."""
    axes = np.eye(3) if axes is None else axes
    moves = axes @ np.diag(np.asarray(tuning.preconditioner, float)) @ axes.T
    values = np.linalg.eigvals(moves @ np.linalg.inv(NARROW)).real
    return np.exp(float(tuning.step_size.log_average)) * values.max()


def step_size(tuning):
    return np.exp(float(tuning.step_size.log_average))


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_steps_suit_the_narrow_mode(temperature):
    tuning = suited(temperature=temperature)
    np.testing.assert_array_equal(tuning.preconditioner, WIDE)
    np.testing.assert_allclose(largest_product(tuning), 0.45, rtol=0.02)
    assert step_size(tuning) < 0.2


@pytest.mark.parametrize("low_rank", [True, False])
def test_modes_are_compared_in_the_coordinates_that_are_tuned(low_rank):
    axis = np.array([[0.6], [0.8], [0.0]])
    factor = LowRank(jnp.array([1.0, 2.0, 3.0]), jnp.asarray(axis), jnp.array([4.0]))
    axes = np.diag([1.0, 2.0, 3.0]) @ (np.eye(3) + 3 * axis @ axis.T)
    if not low_rank:
        factor = jnp.asarray(axes)
    tuning = suited(frame=first_frame(jnp.zeros(3))._replace(factor=factor))
    np.testing.assert_allclose(largest_product(tuning, axes), 0.45, rtol=0.02)


@pytest.mark.parametrize(("made", "tried"), [(2, 4), (10, 1000)])
def test_a_mode_that_is_hardly_jumped_to_does_not_count(made, tried):
    np.testing.assert_allclose(step_size(suited(made, tried)), 0.4, rtol=1e-5)


def test_a_normal_with_much_of_the_mass_counts_before_any_jump():
    heavy, light = suited(0, 0, log_mass=-3.0), suited(0, 0, log_mass=-5.0)
    np.testing.assert_allclose(step_size(heavy), step_size(suited()), rtol=1e-5)
    np.testing.assert_allclose(step_size(light), 0.4, rtol=1e-5)
    neck = suited(0, 0, log_mass=3.0, normal=False)
    np.testing.assert_allclose(step_size(neck), 0.4, rtol=1e-5)


@pytest.mark.slow
def test_a_narrow_mode_beside_a_wide_one_has_its_mass():
    sds, share, apart = (0.1, 1.0), 0.7, 10.0

    def potential(x):
        narrow = jnp.log(share) - 0.5 * jnp.sum((x / sds[0]) ** 2) - 4 * jnp.log(sds[0])
        wide = jnp.log1p(-share) - 0.5 * jnp.sum(((x - apart) / sds[1]) ** 2)
        return -jnp.logaddexp(narrow, wide)

    kernel = ContourSGLD(potential_fn=potential, num_steps=20)
    how = {"chains": 4, "chain_method": "vectorized", "init_params": jnp.full((4, 4), apart)}
    mcmc = models.run(kernel, 0, warmup=500, samples=1000, **how)
    x = np.asarray(mcmc.get_samples(group_by_chain=True), float)
    extra = mcmc.get_extra_fields(group_by_chain=True)
    weights = np.exp(np.asarray(extra["log_weight"], float))
    weights /= weights.sum(1, keepdims=True)
    inside = x.mean(-1) < apart / 2
    masses = (weights * inside).sum(1)
    assert abs(masses - share).max() < 0.1
    assert abs(masses.mean() - share) < 0.05
    spread = np.sqrt((weights[inside] @ x[inside] ** 2) / weights[inside].sum()) / sds[0]
    assert np.all((spread > 0.85) & (spread < 1.15))
    assert "curvature" not in [fault.check for fault in diagnose(mcmc).faults]


@pytest.mark.slow
def test_steps_suit_a_narrow_mode_where_nothing_is_flattened():
    share, sd, apart = 0.8, 0.3, 6.0

    def potential(x):
        narrow = jnp.log(share) + norm.logpdf(x, apart, sd)
        return -jnp.logaddexp(narrow, jnp.log1p(-share) + norm.logpdf(x))

    kernel = SGLD(potential_fn=potential, num_steps=20)
    how = {"chains": 4, "chain_method": "vectorized", "init_params": jnp.zeros(4)}
    mcmc = models.run(kernel, 0, warmup=500, samples=1000, **how)
    x = np.asarray(mcmc.get_samples(group_by_chain=True), float)
    inside = x > apart / 2
    # Of some 500 independent draws a chain, by two jumps a draw.
    assert abs(inside.mean(1) - share).max() < 0.07
    assert abs(inside.mean() - share) < 0.035
    assert 0.92 < x[inside].std() / sd < 1.08
