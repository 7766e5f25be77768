"""The search for modes: bottoms and shapes of normals, copies of a mode, and which are kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from numpyro_contour.core.samplers.chain import Evaluation
from numpyro_contour.core.samplers.known_modes import image, no_modes, place_of, taken
from numpyro_contour.modes.found_modes import none_found, renewed, slots, with_modes
from numpyro_contour.modes.way_down import MOST_FULL_SHAPE, Shape, scales_at, shape_at, way_down

KEY = random.key(0)


def energy_of(potential):
    return lambda key, x: jax.value_and_grad(potential)(x)


def found_from(potential, starts, temperature=1.0):
    """The modes that descents from some starts find."""
    energy = energy_of(potential)

    @jax.jit
    def found(starts):
        bottoms = jax.vmap(lambda x: way_down(KEY, energy, x))(starts)
        shapes = jax.vmap(lambda bottom: shape_at(KEY, energy, bottom, temperature))(bottoms)
        return with_modes(none_found(starts.shape[-1]), shapes, temperature, potential)

    return found(jnp.asarray(starts))


def test_the_shape_of_a_normal_is_its_mean_and_covariance():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((6, 6)) * np.geomspace(0.01, 10, 6)[:, None]
    mean, covariance = rng.normal(0, 5, 6), root @ root.T
    precision = jnp.asarray(np.linalg.inv(covariance))
    energy = energy_of(lambda x: 0.5 * (x - mean) @ precision @ (x - mean) + 3.0)
    bottom = way_down(KEY, energy, jnp.asarray(mean + 3 * root @ rng.standard_normal(6)))
    shape = shape_at(KEY, energy, bottom, 2.0)
    assert shape.arrived
    whitened = np.linalg.solve(root, np.asarray(shape.factor, float)) / 2**0.5
    np.testing.assert_allclose(whitened @ whitened.T, np.eye(6), atol=0.02)
    np.testing.assert_allclose(shape.factor @ shape.inverse, np.eye(6), atol=1e-3)
    np.testing.assert_allclose(
        shape.log_volume, 0.5 * np.linalg.slogdet(2 * covariance)[1], atol=0.02
    )
    assert np.linalg.norm(np.linalg.solve(root, np.asarray(shape.mean) - mean)) < 0.01
    assert abs(shape.energy - 3) < 1e-3


def test_a_descent_that_has_not_arrived_is_no_mode():
    slope = energy_of(lambda x: 1e3 * x[0] + 0.5 * x[1] ** 2)
    bottom = way_down(KEY, slope, jnp.ones(2))
    assert not shape_at(KEY, slope, bottom, 1.0).arrived
    assert not scales_at(bottom, jnp.ones(2), 1.0).arrived


def labels(x):
    """A density with two labels, (location, log scale) each, that is not a normal."""
    rows = jnp.array([-2.0, -1.4, -1.0, 0.5, 1.5, 2.0, 2.5, 3.5])[:, None]
    at, log_scale = 1.5 * x[:2], 0.3 * x[2:]
    each = -0.5 * ((rows - at) / jnp.exp(log_scale)) ** 2 - log_scale
    return -jnp.sum(jax.nn.logsumexp(each, 1)) + 0.5 * jnp.sum(x**2)


@pytest.mark.slow
def test_exchanged_labels_are_copies_whose_map_is_the_exchange():
    found = found_from(labels, [[-1.0, 1.0, 0.1, -0.1], [1.0, -1.0, 0.1, -0.1]])
    assert found.modes.known.sum() == 2
    x = found.modes.mean[0] + jnp.array([0.3, -0.2, 0.5, 0.1])
    place = place_of(found.modes, x)
    to = taken(found.modes, place, image(jnp.full(slots(4), 0.5), found.modes, place))
    np.testing.assert_allclose(to.position, x[jnp.array([1, 0, 3, 2])], atol=1e-4)
    assert to.returns
    assert abs(to.log_factor) < 1e-4
    assert abs(labels(to.position) - labels(x)) < 1e-3


def test_a_mode_is_a_normal_where_energies_rise_as_its_do():
    def twisted(x):
        """A bottom in a bend, and a normal."""
        bent = 0.5 * x[0] ** 2 + 0.5 * ((x[1] - x[0] ** 2) / 0.1) ** 2
        return -jnp.logaddexp(-bent, -0.5 * jnp.sum((x - 20) ** 2))

    found = found_from(twisted, [[0.1, 0.0], [19.0, 21.0]])
    known = np.asarray(found.modes.known)
    normal = dict(zip(np.asarray(found.modes.mean)[known, 0].round(), found.is_normal[known]))
    assert not normal[0.0]
    assert normal[20.0]


def test_signs_are_turned_and_a_mere_likeness_of_places_is_no_copy():
    # A product and a small difference of both ends: signs of both coordinates at once.
    banana = lambda x: 8 * (x[0] * x[1] - 2) ** 2 + 0.5 * x[0] ** 2 + x[1] ** 2 / 8 + 0.02 * x[0]
    found = found_from(banana, [[1.0, 2.2], [-1.0, -2.2]])
    assert found.modes.known.sum() == 2
    move = jnp.array([0.3, -0.3])
    place = place_of(found.modes, found.modes.mean[0] + move)
    to = image(jnp.full(slots(2), 0.5), found.modes, place)
    np.testing.assert_allclose(to.position, -found.modes.mean[0] - move, atol=1e-3)

    # Bottoms at mirrored places, but one mode ten times as wide as the other.
    wide = lambda x: (
        -jnp.logaddexp(
            -0.5 * jnp.sum((x - 9) ** 2), -0.5 * jnp.sum((x + 9) ** 2) / 100 - 2 * jnp.log(10.0)
        )
    )
    found = found_from(wide, [[8.0, 10.0], [-8.0, -10.0]])
    assert found.modes.known.sum() == 2
    volumes = np.asarray(found.modes.log_volume)[np.asarray(found.modes.known)]
    assert abs(np.ptp(volumes) - 2 * np.log(10)) < 0.1


def test_a_mode_is_listed_once_and_slots_keep_the_most_probable():
    # Modes in a row of rising mass, more than there are slots.
    number = slots(1) + 4
    places, heights = 8.0 * np.arange(number), 0.3 * np.arange(number)
    comb = lambda x: -jax.nn.logsumexp(heights - 0.5 * (x[0] - places) ** 2)
    starts = np.concatenate([places + 0.5, places - 0.7])[:, None]
    found = found_from(comb, starts)
    assert found.modes.known.all()
    kept = np.sort(np.asarray(found.modes.mean)[:, 0])
    np.testing.assert_allclose(kept, places[4:], atol=0.01)
    # Tries aim at modes by the root of their mass.
    shares = np.asarray(found.modes.log_share)[np.argsort(np.asarray(found.modes.mean)[:, 0])]
    np.testing.assert_allclose(np.diff(shares), 0.15, atol=0.01)


def test_what_no_barrier_parts_is_one_mode():
    """Descents that stopped early look like bottoms by scales that are too narrow."""
    pair = lambda x: -jnp.logaddexp(-0.5 * jnp.sum(x**2), -0.5 * jnp.sum((x - 8) ** 2))
    means = jnp.array([[0.1, 0.0], [1.0, -0.5], [8.0, 8.0], [7.0, 8.0]])
    scale = jnp.full((4, 2), 0.2)
    shapes = Shape(
        means, scale, 1 / scale, jnp.log(scale).sum(-1), jax.vmap(pair)(means), jnp.ones(4, bool)
    )
    found = with_modes(
        none_found(2)._replace(modes=no_modes(slots(2), 2, dense=False)), shapes, 1.0, pair
    )
    np.testing.assert_array_equal(found.modes.mean[found.modes.known], means[::2])


@pytest.mark.parametrize("dense", [True, False])
def test_modes_go_where_other_gradients_put_their_bottoms(dense):
    factor = np.array([[1.0, 0.0], [0.5, 0.2]]) if dense else np.array([[1.0, 0.0], [0.0, 0.2]])
    precision = jnp.asarray(np.linalg.inv(factor @ factor.T), jnp.float32) / 2.0
    bottom, far = jnp.array([0.4, -0.1]), jnp.array([30.0, 0.0])
    potential = lambda x: (x - bottom) @ precision @ (x - bottom) + 3.0
    found = none_found(2)
    modes = no_modes(slots(2), 2, dense)
    shape = (lambda x: jnp.asarray(x, jnp.float32)) if dense else (lambda x: jnp.diag(jnp.array(x)))
    known = modes.known.at[:2].set(True)
    modes = modes._replace(
        known=known,
        mean=modes.mean.at[1].set(far),
        factor=modes.factor.at[:2].set(shape(factor)),
        inverse=modes.inverse.at[:2].set(shape(np.linalg.inv(factor))),
    )
    found = found._replace(modes=modes)
    energies, slopes = jax.vmap(jax.value_and_grad(potential))(modes.mean)
    after = renewed(found, Evaluation(energies, slopes, jnp.zeros_like(energies)), 1.0)
    # A normal's bottom is one step away; what would be thirty standard deviations is none.
    np.testing.assert_allclose(after.modes.mean[:2], [bottom, far], atol=1e-5)
    np.testing.assert_allclose(after.energy[:2], [3.0, potential(far)], rtol=1e-5)
    assert after.log_mass[0] > after.log_mass[1] > -jnp.inf
    assert jnp.isneginf(after.log_mass[2:]).all()


def test_many_coordinates_have_scales_only():
    size = MOST_FULL_SHAPE + 1
    assert none_found(size).modes.factor.shape == (slots(size), size)
    assert none_found(size - 1).modes.factor.shape == (slots(size - 1), size - 1, size - 1)
