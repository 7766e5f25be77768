"""The search for modes: what it finds, when it stops, and how much mass may be missing."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from landscapes import landscape_of

from numpyro_contour.modes.known_list import KnownList
from numpyro_contour.modes.search import FIRST_ROUND, ROUND, polished, search
from numpyro_contour.modes.starts import copies


def normals(means, masses, sd=0.5):
    """Normals of one width."""
    means, masses = np.asarray(means), np.asarray(masses)

    def potential(x):
        return -jax.nn.logsumexp(np.log(masses) - 0.5 * jnp.sum((x - means) ** 2, -1) / sd**2)

    return potential, means.shape[1]


def found_in(potential, size, seed=0, most=50_000, given=None):
    given = np.empty((0, size)) if given is None else given
    landscape = landscape_of(potential, size, lanes=64)
    return search(landscape, np.random.default_rng(seed), given, most)


GRID = [(a, b) for a in (-4.0, 0.0, 4.0) for b in (-4.0, 0.0, 4.0)]
MASSES = np.array([0.02, 0.05, 0.08, 0.1, 0.3, 0.15, 0.12, 0.08, 0.1])


@pytest.mark.parametrize("seed", range(3))
def test_all_normals_of_a_grid_are_found_with_their_masses(seed):
    found = found_in(*normals(GRID, MASSES), seed=seed)
    means = np.array([shape.mean for shape in found.shapes])
    places = [int(np.argmin(((mean - GRID) ** 2).sum(1))) for mean in means]
    assert sorted(places) == list(range(9))
    mass = np.exp(found.log_mass - np.logaddexp.reduce(found.log_mass))
    np.testing.assert_allclose(mass, MASSES[places], rtol=0.02)
    assert (np.diff(found.log_mass) <= 0).all()
    assert found.unseen < 0.01
    assert found.descents == found.counts.sum() + sum(found.nowhere.values())


def test_one_mode_takes_two_rounds():
    found = found_in(lambda x: 0.5 * x @ x, 4)
    assert len(found.shapes) == 1
    assert found.descents == FIRST_ROUND + ROUND
    assert found.alone == 0
    assert found.unseen == 0


def test_more_places_may_be_given_than_a_round_has_descents():
    potential, size = normals(GRID, MASSES)
    found = found_in(potential, size, given=np.zeros((2 * FIRST_ROUND, size)))
    assert len(found.shapes) == 9
    assert (found.descents - FIRST_ROUND) % ROUND == 0


def test_no_mode_is_told_of_where_there_is_none():
    found = found_in(lambda x: -x[0] + 0 * x[1], 2, most=5000)
    assert not found.shapes
    assert sum(found.nowhere.values()) == found.descents


def test_a_search_is_ended_by_its_gradients():
    potential, size = normals(GRID, MASSES)
    few = found_in(potential, size, most=1)
    assert few.descents == FIRST_ROUND
    # Wells in each of twelve coordinates: 4,096 modes, of which a round finds as many as it has.
    wells = lambda x: jnp.sum((x**2 - 4) ** 2)
    assert found_in(wells, 12, most=10_000).gradients < 20_000


def test_combinations_of_places_that_were_seen_are_not_missing():
    wells = lambda x: jnp.sum((x**2 - 4) ** 2)
    found = found_in(wells, 12, most=20_000)
    assert len(found.shapes) < 200  # of 4,096
    assert len(found.flips.inside) == 12
    assert found.unseen < 0.01


def test_modes_that_were_seen_once_are_the_mass_that_may_be_missing():
    """Many normals without any order: half of them are found by as many descents."""
    rng = np.random.default_rng(0)
    means = rng.uniform(-12, 12, (60, 6))
    potential, size = normals(means, np.full(60, 1 / 60))
    landscape = landscape_of(potential, size, lanes=64)
    # Nothing known of the rest: random starts alone, near one mean each with the same probability.
    starts = means[rng.integers(60, size=60)] + 0.1 * rng.standard_normal((60, 6))
    listed = KnownList(landscape)
    listed.add(landscape.descend(starts))
    flips, share = listed.flips()
    unseen = listed.unseen(listed.alone(flips, share))
    again = means[rng.integers(60, size=(200, 60))]
    known = np.array([shape.mean for shape in listed.shapes])
    is_known = (np.abs(again[..., None, :] - known) < 0.1).all(-1).any(-1)
    new = np.mean([len(np.unique(x[~k], axis=0)) for x, k in zip(again, is_known)])
    # What a second round finds, in units of what is known; Good and Toulmin's error is 1 / sqrt(n).
    assert unseen == pytest.approx(new / len(known), abs=0.25)


def test_copies_by_an_order_of_coordinates_begin_where_no_mode_is_known():
    """Three names in six orders, of which four are known."""
    orders = [np.array(order, float) for order in itertools.permutations((-4.0, 1.0, 5.0))]
    potential, size = normals(orders, np.full(6, 1 / 6))
    landscape = landscape_of(potential, size)
    known = KnownList(landscape)
    known.add(landscape.descend(np.array(orders[:4])))
    places = copies(np.random.default_rng(0), 8, known.shapes)
    assert len(places) == 8
    missing = np.abs(places[:, None] - np.array(orders[4:])).max(-1)
    assert (missing.min(1) < 0.1).all()
    assert len(set(missing.argmin(1))) == 2


def test_modes_with_signs_have_copies_too():
    means = np.array([[3.0, 1.0], [-3.0, -1.0], [1.5, 2.5]])
    potential, size = normals(means, np.full(3, 1 / 3), sd=0.2)
    landscape = landscape_of(potential, size)
    known = KnownList(landscape)
    known.add(landscape.descend(means))
    places = copies(np.random.default_rng(0), 16, known.shapes)
    assert (np.abs(places - [-1.5, -2.5]).max(1) < 0.1).any()


def test_a_shallow_dent_is_no_mode_of_its_own():
    def dented(x):  # half a nat between two bottoms
        return 0.5 * (x[0] ** 2 - 1) ** 2

    assert len(found_in(dented, 1).shapes) == 1
    assert len(found_in(lambda x: 2 * (x[0] ** 2 - 1) ** 2, 1).shapes) == 2


def test_a_mode_is_at_the_lower_one_of_two_bottoms():
    landscape = landscape_of(lambda x: x[0] ** 2 / 50 - 0.6 * jnp.exp(-2 * (x[0] - 6) ** 2), 1)
    known = KnownList(landscape)
    known.add(landscape.descend(np.array([[6.0]])))  # the dent on the slope
    assert known.shapes[0].mean[0] == pytest.approx(6, abs=0.2)
    known.add(landscape.descend(np.array([[0.5]])))
    assert known.counts == [2]
    assert known.shapes[0].mean[0] == pytest.approx(0, abs=0.1)


def test_modes_that_are_too_light_do_not_matter():
    potential, size = normals([(-5.0,), (5.0,)], [1.0, 1e-7])
    assert len(found_in(potential, size).shapes) == 1


def test_a_broad_mode_does_not_swallow_a_narrow_one_within_it():
    """Half of the mass, two of the broad one's standard deviations away, and a tenth as wide."""

    def potential(x):
        wide = -0.5 * x @ x / 9 - 2 * np.log(3)
        narrow = -0.5 * jnp.sum((x - 4) ** 2) / 0.09 - 2 * np.log(0.3)
        return -jnp.logaddexp(wide, narrow)

    found = found_in(potential, 2)
    assert len(found.shapes) == 2
    mass = np.exp(found.log_mass - np.logaddexp.reduce(found.log_mass))
    np.testing.assert_allclose(mass, 0.5, atol=0.05)


def test_a_narrow_mode_is_found_by_places_that_the_known_one_does_not_explain():
    """Half of the mass in .3^5 of the volume, six standard deviations away."""
    centre = np.array([6.0, 0, 0, 0, 0])

    def potential(x):
        narrow = -0.5 * jnp.sum((x - centre) ** 2) / 0.09 - 5 * np.log(0.3)
        return -jnp.logaddexp(-0.5 * x @ x, narrow)

    # 36 of 40 searches find it, and none of 40 if no round looks at many places.
    found = [len(found_in(potential, 5, seed=seed).shapes) for seed in range(4)]
    assert found.count(2) >= 3


def test_given_places_are_polished_without_a_search():
    potential, size = normals(GRID, MASSES)
    found = polished(landscape_of(potential, size), np.array([[3.5, 0.3], [-4.2, -3.9]]))
    assert len(found.shapes) == 2
    assert np.isnan(found.unseen)
    np.testing.assert_allclose(found.shapes[0].mean, [4, 0], atol=1e-3)
    assert found.energy[0] == pytest.approx(float(potential(np.array([4.0, 0.0]))), abs=1e-3)
    np.testing.assert_allclose(found.gradient, 0, atol=0.01)
