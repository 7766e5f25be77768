"""Modes of a search on the host in slots: which of them, their copies, and their shares."""

import jax.numpy as jnp
import numpy as np
import pytest
from landscapes import landscape_of

from numpyro_contour.core.arrays.factors import LowRank
from numpyro_contour.modes.found_modes import slots
from numpyro_contour.modes.known_list import KnownList
from numpyro_contour.modes.listed_modes import found_modes, spread_of, with_new_modes
from numpyro_contour.modes.search import explore
from numpyro_contour.modes.shape import Shape


def mixture(means, precisions, log_masses):
    """The potential energy of a mixture of normals that are far apart."""

    def potential(x):
        away = x - jnp.asarray(means)
        squares = jnp.einsum("ki,kij,kj->k", away, jnp.asarray(precisions), away)
        volumes = 0.5 * jnp.linalg.slogdet(jnp.asarray(precisions))[1]
        return -jnp.logaddexp.reduce(jnp.asarray(log_masses) + volumes - 0.5 * squares)

    return potential


def searched(potential, size):
    found = KnownList(landscape_of(potential, size))
    explore(found, np.random.default_rng(0), np.empty((0, size)), 50_000)
    return found


PRECISION = np.array([[2.0, 0.6], [0.6, 1.0]])
TURN = np.array([[0.0, -1.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("precision", "is_copy"),
    [(TURN @ PRECISION @ TURN.T, True), (PRECISION, False), (4 * TURN @ PRECISION @ TURN.T, False)],
)
def test_a_copy_has_the_factor_of_its_original(precision, is_copy):
    """Only if energies around it are those around the original, in the other order and signs."""
    mean = np.array([5.0, 1.0])
    potential = mixture([mean, TURN @ mean], [PRECISION, precision], [0.0, -1.0])
    known = searched(potential, 2)
    modes = found_modes(known, with_new_modes([], known))
    assert modes.modes.known.sum() == 2
    found = modes.modes
    np.testing.assert_allclose(found.mean[:2], [mean, TURN @ mean], atol=2e-2)
    for k, expected in enumerate((PRECISION, precision)):
        covariance = found.factor[k] @ found.factor[k].T
        np.testing.assert_allclose(covariance @ expected, np.eye(2), atol=0.05)
        np.testing.assert_allclose(found.factor[k] @ found.inverse[k], np.eye(2), atol=1e-5)
    same = np.allclose(found.factor[1], TURN @ np.asarray(found.factor[0]), atol=1e-6)
    assert same == is_copy
    assert modes.is_normal[:2].all()
    assert not modes.is_normal[2:].any()
    mass = np.exp(np.diff(modes.log_mass[:2]))[0]
    assert mass == pytest.approx(np.exp(-1), rel=0.03)
    # Tries aim by the square root of the mass.
    assert np.diff(found.log_share[:2])[0] == pytest.approx(-0.5, abs=0.02)
    np.testing.assert_allclose(
        modes.energy[:2], [potential(jnp.asarray(m)) for m in found.mean[:2]], atol=0.02
    )


def test_a_box_is_no_normal():
    known = searched(lambda x: jnp.sum(x**8), 2)
    assert not found_modes(known, [0]).is_normal[0]


def test_in_many_coordinates_one_diagonal_serves_all():
    size = 50
    sds = np.geomspace(0.5, 2, size)
    means = np.stack([np.full(size, 6.0), np.full(size, -6.0)])
    precision = np.diag(1 / sds**2)
    known = searched(mixture(means, [precision, precision], [0.0, 0.0]), size)
    found = found_modes(known, with_new_modes([], known))
    assert found.modes.known.sum() == 2
    assert found.modes.factor.shape == (slots(size), size)
    np.testing.assert_allclose(found.modes.factor[:2], [sds, sds], rtol=0.05)
    np.testing.assert_allclose(found.modes.log_volume[:2], np.log(sds).sum(), atol=0.5)
    np.testing.assert_allclose(found.modes.log_volume[0], found.modes.log_volume[1])
    np.testing.assert_allclose(found.modes.inverse * found.modes.factor, 1.0, rtol=1e-5)


def listed(means, sds, energies):
    """A list of modes as if a search had found them."""
    size = len(means[0])
    found = KnownList(landscape_of(lambda x: jnp.sum(x**2), size))
    for mean, sd, energy in zip(means, sds, energies):
        factor = np.diag(np.broadcast_to(sd, (size,)))
        log_volume = float(np.log(np.diag(factor)).sum())
        found.shapes.append(
            Shape(np.asarray(mean, float), factor, np.linalg.inv(factor), log_volume, energy)
        )
        found.counts.append(2)
    return found


def test_modes_keep_their_slots_and_light_ones_have_none():
    found = listed([[0.0], [9.0], [-9.0], [20.0]], [1.0] * 4, [3.0, 1.0, 2.0, 40.0])
    assert with_new_modes([], found) == [1, 2, 0]
    assert with_new_modes([0], found) == [0, 1, 2]


def test_where_slots_are_full_the_lightest_that_others_can_replace_gives_way():
    most = slots(1)
    # A row of places, the lightest of them at the end that nothing else is at.
    means = [[10.0 * k] for k in range(most)] + [[5.0]]
    energies = [float(k == most - 1) for k in range(most)] + [0.5]
    found = listed(means, [1.0] * (most + 1), energies)
    kept = with_new_modes(list(range(most)), found)
    assert kept == [*range(most - 1), most]
    # In two coordinates it alone is elsewhere in the second one: it stays.
    means = [[*mean, 9.0 * (k == most - 1)] for k, mean in enumerate(means)]
    found = listed(means, [1.0] * (most + 1), energies)
    assert with_new_modes(list(range(most)), found) == list(range(most))


def test_first_preconditioner_is_what_spreads_come_to():
    """The root of the variance over the precision of each coordinate."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((3, 3))
    dense = Shape(np.zeros(3), root, np.linalg.inv(root), 0.0, 0.0)
    covariance = root @ root.T
    expected = np.sqrt(np.diag(covariance) / np.diag(np.linalg.inv(covariance)))
    np.testing.assert_allclose(spread_of(dense), expected)
    scales, stretches = np.array([1.0, 2.0, 0.5]), np.array([3.0])
    direction = np.linalg.qr(rng.standard_normal((3, 1)))[0]
    low_rank = Shape(np.zeros(3), LowRank(scales, direction, stretches), None, 0.0, 0.0)
    root = scales[:, None] * (np.eye(3) + 2.0 * direction @ direction.T)
    covariance = root @ root.T
    expected = np.sqrt(np.diag(covariance) / np.diag(np.linalg.inv(covariance)))
    np.testing.assert_allclose(spread_of(low_rank), expected)
