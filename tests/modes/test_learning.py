"""What the warm-up learns of modes: nothing where they are right, and what is wrong where not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numpyro_contour.core.arrays.factors import LowRank
from numpyro_contour.modes.blocks import no_flips
from numpyro_contour.modes.learning import learnt, no_lessons, pooled_covariance, with_draws
from numpyro_contour.modes.mode_shapes import TAILS, mode_shapes
from numpyro_contour.modes.tries import first_plan, no_tries

SIZE = 4
MEANS = np.array([np.zeros(SIZE), np.full(SIZE, 20.0)])
ROOT = np.linalg.cholesky(0.5 * np.eye(SIZE) + 0.5)


def plan_of(means, factors, masses=(0.5, 0.5)):
    modes = mode_shapes(means, factors, np.log(masses))
    return first_plan(modes, no_flips(means.shape[1]), 3)


def taught(plan, draws, modes, gradients=7.0):
    lessons = no_lessons(plan.modes)
    of_tries = jax.tree.map(
        lambda x: np.zeros((len(draws), *x.shape), x.dtype), no_tries(np.float32)
    )
    draws = jnp.asarray(draws, jnp.float32)
    spent = jnp.full(len(draws), gradients)
    return with_draws(
        jax.tree.map(jnp.asarray, lessons), plan, draws, jnp.asarray(modes), spent, of_tries
    )


def draws_of(rng, number, share=0.5, tail=None):
    which = (rng.random(number) < share).astype(int)
    z = rng.standard_normal((number, SIZE))
    if tail is not None:
        z *= np.sqrt((tail - 2) / rng.chisquare(tail, number))[:, None]
    return MEANS[which] + z @ ROOT.T, which


def covariance_of(modes, number):
    root = np.asarray(modes.roots[number])
    return root @ root.T


def test_shapes_that_are_right_stay_as_they_are():
    """Draws only add noise then, and it would cost acceptance: half of it in 50 coordinates."""
    plan = plan_of(MEANS, np.stack([ROOT, ROOT]))
    draws = draws_of(np.random.default_rng(0), 400)
    after = learnt(plan, taught(plan, *draws), True)
    for k in range(2):
        # A sample's own covariance would be off by .07 in each entry.
        np.testing.assert_allclose(covariance_of(after.modes, k), ROOT @ ROOT.T, atol=0.025)
    np.testing.assert_allclose(after.modes.mean, MEANS, atol=0.06)


def test_shapes_that_are_wrong_become_those_of_the_draws():
    wrong = np.stack([np.diag([3.0, 1.0, 0.3, 1.0]), ROOT])
    plan = plan_of(MEANS + np.array([[0.5, 0, 0, 0], [0, 0, 0, 0]]), wrong)
    draws = draws_of(np.random.default_rng(0), 8000)
    after = learnt(plan, taught(plan, *draws), True)
    np.testing.assert_allclose(covariance_of(after.modes, 0), ROOT @ ROOT.T, atol=0.08)
    np.testing.assert_allclose(after.modes.mean[0], 0, atol=0.06)
    back = np.asarray(after.modes.back)
    np.testing.assert_allclose(
        back[0].T @ np.asarray(after.modes.roots[0]), np.eye(SIZE), atol=1e-4
    )
    log_det = 0.5 * np.linalg.slogdet(covariance_of(after.modes, 0))[1]
    assert float(after.modes.log_volume[0]) == pytest.approx(log_det, abs=1e-3)


@pytest.mark.parametrize("tail", [4, 8, None])
def test_tails_are_those_of_the_draws(tail):
    plan = plan_of(MEANS, np.stack([ROOT, ROOT]))
    draws = draws_of(np.random.default_rng(1), 4000, tail=tail)
    after = learnt(plan, taught(plan, *draws), True)
    assert [TAILS[k] for k in np.asarray(after.modes.tail)] == [tail or max(TAILS)] * 2


def test_masses_are_those_of_the_draws_and_never_0():
    plan = plan_of(MEANS, np.stack([ROOT, ROOT]))
    draws, _ = draws_of(np.random.default_rng(0), 950, share=0.0)
    after = learnt(plan, taught(plan, draws, np.zeros(950, int)), True)
    np.testing.assert_allclose(np.exp(after.modes.log_mass), [0.975, 0.025], atol=1e-3)


def test_few_draws_teach_nothing():
    plan = plan_of(MEANS, np.stack([3 * ROOT, ROOT]))
    draws = draws_of(np.random.default_rng(0), 12)
    after = learnt(plan, taught(plan, *draws), True)
    np.testing.assert_allclose(after.modes.roots, plan.modes.roots, rtol=1e-5)
    np.testing.assert_allclose(after.modes.mean, plan.modes.mean)


@pytest.mark.parametrize(
    ("changes", "gradients", "tries"),
    [(0.9, 7, 1), (0.1, 7, 5), (0.01, 7, 7), (0.01, 200, 50), (0.0, 3, 3)],
)
def test_as_many_tries_as_change_a_mode_every_other_draw_but_no_more_than_gradients(
    changes, gradients, tries
):
    plan = plan_of(MEANS, np.stack([ROOT, ROOT]))
    lessons = taught(plan, *draws_of(np.random.default_rng(0), 100), gradients=gradients)
    of_tries = lessons.of_tries._replace(
        tries=jnp.array([60.0, 40.0, 0.0]),
        changes=jnp.array(100 * changes),
        gain=jnp.array([6.0, 2.0, 0.0]),
    )
    after = learnt(plan, lessons._replace(of_tries=of_tries), True)
    assert int(after.tries) == tries
    # Gains of a try: .1 and .05.
    np.testing.assert_allclose(np.exp(after.log_share), [2 / 3, 1 / 3, 0], atol=1e-5)
    assert int(learnt(plan, lessons._replace(of_tries=of_tries), False).tries) == 3


@pytest.mark.parametrize("dense", [False, True])
def test_a_mass_matrix_for_all_modes_suits_the_narrow_one(dense):
    roots = np.stack([np.diag([2.0, 1.0]), np.diag([0.5, 1.0])])
    modes = mode_shapes(np.array([[0.0, 0.0], [9.0, 0.0]]), roots, np.log([0.5, 0.5]))
    on_host = pooled_covariance(modes, dense, np.arange(2))
    traced = jax.jit(lambda m: pooled_covariance(m, dense, np.arange(2)))(modes)
    expected = np.array([1 / (0.5 / 4 + 0.5 / 0.25), 1.0])
    np.testing.assert_allclose(on_host, np.diag(expected) if dense else expected, rtol=1e-5)
    np.testing.assert_allclose(traced, on_host, rtol=1e-5)
    turned = pooled_covariance(modes, dense, np.array([1, 0]))
    np.testing.assert_allclose(np.diag(turned) if dense else turned, expected[::-1], rtol=1e-5)


def test_shapes_of_low_rank_learn_their_scales():
    size = 6
    scales = np.ones((2, size))
    direction = np.zeros((2, size, 1))
    direction[:, 0] = 1.0
    factors = LowRank(scales, direction, np.full((2, 1), 2.0))
    means = np.stack([np.zeros(size), np.full(size, 30.0)])
    plan = plan_of(means, factors)
    rng = np.random.default_rng(0)
    which = rng.integers(2, size=6000)
    truth = np.array([2.0, 1, 1, 3, 1, 1])
    draws = means[which] + truth * rng.standard_normal((6000, size))
    after = learnt(plan, taught(plan, draws, which), True)
    np.testing.assert_allclose(after.modes.sds, np.broadcast_to(truth, (2, size)), rtol=0.06)
    np.testing.assert_allclose(after.modes.log_volume, np.log(truth).sum(), atol=0.15)
