"""The shapes of modes, and which ends of descents are none."""

import jax.numpy as jnp
import numpy as np
import pytest
from landscapes import end_at, landscape_of, place

from numpyro_contour.core.arrays.factors import LowRank
from numpyro_contour.modes.shape import EDGE, FLAT, SADDLE, SLOPE, NoMode, shape_at


def normal_of(size, condition, seed=0):
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((size, size)))[0]
    sds = np.geomspace(1, condition**0.5, size) * 0.1
    covariance = turn * sds**2 @ turn.T
    return rng.standard_normal(size), covariance


def test_the_shape_of_a_normal_is_its_own():
    mean, covariance = normal_of(6, 1e4)
    precision = np.linalg.inv(covariance)
    landscape = landscape_of(lambda x: 0.5 * (x - mean) @ precision @ (x - mean) + 7, 6)
    shape = shape_at(landscape, end_at(landscape, np.zeros(6)))
    np.testing.assert_allclose(shape.mean, mean, atol=1e-3)
    np.testing.assert_allclose(shape.factor @ shape.factor.T, covariance, rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(shape.inverse @ shape.factor, np.eye(6), atol=1e-9)
    expected = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1] - 7
    assert shape.log_integral == pytest.approx(expected, abs=0.01)
    z = np.array([[0.3, -1.0, 0.2, 0.0, 2.0, 1.0]])
    np.testing.assert_allclose(shape.standardised(shape.placed(z)), z, atol=1e-9)
    assert shape.squares(shape.placed(z))[0] == pytest.approx((z**2).sum())


@pytest.mark.parametrize(
    ("potential", "width"),
    [
        (lambda x: 8 * jnp.abs(x[0]), 0.5 / 8),  # a kink, of no curvature
        (lambda x: x[0] ** 4, 0.5**0.25),  # a flat bottom
        (lambda x: jnp.where(x[0] > -0.2, 2 * (x[0] + 0.19) ** 2, jnp.inf), 0.5),  # an edge beside
    ],
)
def test_a_mode_is_as_wide_as_energies_rise_by_half_a_nat(potential, width):
    landscape = landscape_of(potential, 1)
    bottom = -0.19 if np.isinf(potential(np.array([-1.0]))) else 0.0
    shape = shape_at(landscape, place(landscape, bottom))
    # A rise between .2 and 1.25 nats is about half of one: a factor of 1.6 either way in a square.
    assert width / 2.6 < float(shape.factor[0, 0]) < 2.6 * width


def test_a_part_of_a_ring_is_no_wider_than_the_ring_is_straight():
    ring = lambda x: 0.5 * ((jnp.sqrt(x @ x + 1e-9) - 2) / 0.1) ** 2
    landscape = landscape_of(ring, 2)
    shape = shape_at(landscape, end_at(landscape, np.array([2.3, 0.2])))
    narrow, wide = np.linalg.svd(shape.factor)[1][::-1]
    assert narrow == pytest.approx(0.1, rel=0.05)
    # Along the tangent the radius grows by s^2 / 2r, and half a nat is at sqrt(2 r w) = .63.
    assert 0.4 < wide < 1.0


def test_ends_that_are_no_modes_say_why():
    def why(potential, x):
        landscape = landscape_of(potential, len(x))
        found = shape_at(landscape, place(landscape, x))
        assert isinstance(found, NoMode)
        return found

    saddle = why(lambda x: x[0] ** 2 - x[1] ** 2, [0.0, 0.0])
    assert saddle.why == SADDLE
    np.testing.assert_allclose(np.abs(saddle.onwards[:, 1]), 1 / 2**0.5, rtol=0.01)
    slope = why(lambda x: 0.5 * x[0] ** 2, [5.0])
    assert slope.why == SLOPE
    np.testing.assert_allclose(slope.onwards, [[0.0]], atol=1e-3)
    assert why(lambda x: 0.5 * x[0] ** 2 + 0 * x[1], [0.0, 0.0]).why == FLAT
    assert why(lambda x: jnp.sqrt(-(x[0] ** 2)), [0.0]).why == EDGE


def test_a_shape_of_low_rank_has_volume_and_directions():
    size = 400
    rng = np.random.default_rng(1)
    scales = np.exp(0.5 * rng.standard_normal(size))
    along = np.ones(size) / size**0.5

    def potential(x):  # three times as wide along the diagonal
        z = x / scales
        return 0.5 * (z @ z) - 0.5 * (1 - 1 / 9) * (z @ along) ** 2

    landscape = landscape_of(potential, size)
    shape = shape_at(landscape, end_at(landscape, np.zeros(size) + 0.1))
    assert isinstance(shape.factor, LowRank)
    exact = np.log(scales).sum() + np.log(3)
    assert shape.log_volume == pytest.approx(exact, abs=4)  # of 400 coordinates: 1 % of each
    np.testing.assert_allclose(shape.sds, scales * np.sqrt(1 + 8 / size), rtol=0.25)
    z = rng.standard_normal((2, size))
    np.testing.assert_allclose(shape.standardised(shape.placed(z)), z, atol=1e-6)
    # One standard deviation along the diagonal is one in the shape as well.
    assert shape.squares(3 * scales * along) == pytest.approx(1, abs=0.15)
