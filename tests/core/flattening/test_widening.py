"""Bins that widen with the energy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numpyro_contour.core.arrays.entries import interpolation_weights
from numpyro_contour.core.flattening.wang_landau import gaussian_log_theta
from numpyro_contour.core.flattening.widening_partition import WideningPartition
from numpyro_contour.core.samplers.climbing import TARGET_ACCEPTANCE, initial_steps, update_steps


def partition(dense=4.0):
    return WideningPartition(-1.0, 2.0, 3.0, 100.0, 130.0, 40, dense)


@pytest.mark.parametrize("dense", [1.0, 4.0])
def test_edges_are_where_the_coordinate_is_whole(dense):
    bins = partition(dense)
    edges = np.asarray(bins.edges)
    coordinate, index = jax.jit(bins.coordinate), jax.jit(bins.index)
    np.testing.assert_allclose(coordinate(edges), np.arange(41), atol=2e-3)
    assert edges[0] == -1
    assert edges[-1] == 130
    within = 0.5 * (edges[1:] + edges[:-1])
    assert index(within).tolist() == list(range(40))
    assert index(np.array([-50.0, 1e9, np.nan])).tolist() == [0, 39, 0]


@pytest.mark.parametrize("energy", [0.0, 2.5, 30.0, 99.0, 101.0, 129.0])
def test_the_rate_is_the_slope_of_the_coordinate(energy):
    bins = partition()
    slope = jax.grad(bins.coordinate)(energy)
    assert float(bins.rate(energy)) == pytest.approx(float(slope), rel=1e-4)
    # What the names promise: bins as wide as at the typical energy times 1 + e / r.
    expected = 1 / (1 + max(energy - 2, 0) / 3)
    assert float(bins.evenness(energy)) == pytest.approx(expected, rel=1e-5)


def test_bins_are_dense_from_the_barrier_upwards():
    edges = np.asarray(partition(dense=4.0).edges)
    widths = np.diff(edges) * np.asarray(partition().evenness(0.5 * (edges[1:] + edges[:-1])))
    below, above = widths[edges[1:] < 100], widths[edges[:-1] > 100]
    assert len(above) > 3
    np.testing.assert_allclose(below.mean() / above.mean(), 4, rtol=0.05)


def test_it_goes_through_transformations():
    bins = partition()
    again = jax.jit(lambda p: p)(bins)
    assert isinstance(again, WideningPartition)
    np.testing.assert_allclose(again.edges, bins.edges, rtol=1e-6)
    many = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * 3), bins)
    np.testing.assert_allclose(many.edges[1], bins.edges, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0.0, -1.0, 1.0, 5.0, 6.0, 10), "level"),
        ((0.0, 1.0, 0.0, 5.0, 6.0, 10), "reach"),
        ((0.0, 1.0, 1.0, 7.0, 6.0, 10), "level"),
        ((0.0, 1.0, 1.0, 5.0, 6.0, 2), "num_bins"),
    ],
)
def test_what_is_out_of_order_is_named(arguments, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        WideningPartition(*arguments)


def test_theta_of_a_gaussian_is_that_of_its_energies():
    # In two dimensions the energy above the minimum is exponential: the mass of a bin is known.
    bins = WideningPartition(0.0, 1.0, 1.0, 40.0, 60.0, 60, 1.0)
    edges = np.asarray(bins.edges, np.float64)
    exact = -edges[:-1] + np.log1p(-np.exp(edges[:-1] - edges[1:]))
    theta = np.asarray(gaussian_log_theta(bins, jnp.asarray(1.0)), np.float64)
    difference = exact - theta
    # Over 60 nats the first guess is off by a bin's own curvature and the bulk's shape.
    assert np.ptp(difference[5:]) < 2.5


def test_interpolation_weights_are_those_of_numpy():
    values = np.array([3.0, -1.0, 4.0, 1.0])
    for place in (-2.0, 0.0, 0.25, 1.9, 3.0, 9.0):
        weights = interpolation_weights(jnp.asarray(place), 4)
        assert float(weights.sum()) == pytest.approx(1, abs=1e-6)
        assert float(weights @ values) == pytest.approx(np.interp(place, np.arange(4), values))


def test_steps_are_learnt_where_they_are_made():
    steps = initial_steps(jnp.zeros(()), jnp.ones(2))
    low, high = jnp.asarray(0.0), jnp.asarray(1.0)
    for _ in range(50):
        steps = update_steps(steps, low, 1.0, low, jnp.array([2.0, 1.0]))
        steps = update_steps(steps, high, 0.0, high, jnp.array([20.0, 1.0]))
    assert steps.log_step_size[0] > 0 > steps.log_step_size[-1]
    assert steps.log_step_size[1] == 0
    np.testing.assert_allclose(steps.square[0], [4.0, 1.0], rtol=0.1)
    np.testing.assert_allclose(steps.square[-1], [400.0, 1.0], rtol=0.1)
    same = update_steps(steps, low, TARGET_ACCEPTANCE, low, jnp.array([2.0, 1.0]))
    assert float(same.log_step_size[0]) == pytest.approx(float(steps.log_step_size[0]), abs=1e-6)
