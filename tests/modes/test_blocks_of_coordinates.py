"""Blocks of coordinates with places of their own, and the flips between these."""

import itertools

import jax.numpy as jnp
import numpy as np
from landscapes import landscape_of

from numpyro_contour.modes.blocks import fitting, flips_of, places_of


def combinations(blocks, places):
    """All combinations of the places of blocks of two coordinates."""
    chosen = itertools.product(*[places] * blocks)
    return np.array([[c for place in row for c in place] for row in chosen])


PLACES = ((-3.0, 2.0), (3.0, -2.0))


def test_coordinates_that_change_together_are_a_block():
    means = combinations(3, PLACES)[[0, 1, 3, 6]]  # half of the eight
    flips = flips_of(means, np.ones_like(means), np.zeros(4))
    blocks = {tuple(np.flatnonzero(inside)) for inside in flips.inside}
    assert blocks == {(0, 1), (2, 3), (4, 5)}


def test_a_flip_leads_to_the_other_place_and_back():
    means = combinations(2, PLACES)
    flips = flips_of(means, np.full_like(means, 0.5), np.zeros(4))
    which = np.flatnonzero(flips.inside[:, 0])[:1]
    x = means[:1] + np.array([[0.3, -0.2, 0.1, 0.7]])
    moved = flips.flipped(x, which)
    np.testing.assert_allclose(moved - x, [[6.0, -4.0, 0.0, 0.0]])
    np.testing.assert_allclose(flips.flipped(moved, which), x)


def test_modes_in_which_all_changes_together_have_no_flips():
    two = np.array([[-3.0, -3.0], [3.0, 3.0]])
    assert not len(flips_of(two, np.ones((2, 2)), np.zeros(2)).inside)
    three = np.array([[-6.0, -6.0], [0.0, 0.0], [6.0, 6.0]])
    assert not len(flips_of(three, np.ones((3, 2)), np.zeros(3)).inside)


def test_places_are_apart_where_standard_deviations_do_not_meet():
    means = np.array([[0.0], [1.0], [5.0]])
    assert places_of(means, np.full((3, 1), 0.6))[0].tolist() == [0, 0, 1]
    assert places_of(means, np.full((3, 1), 0.4))[0].tolist() == [0, 1, 2]


def test_only_flips_that_lead_to_modes_fit():
    wells = lambda x: jnp.sum((x**2 - 9) ** 2) / 9
    means = 3.0 * np.array([[-1, -1], [1, -1], [-1, 1]])
    flips = flips_of(means, np.full((3, 2), 0.5), np.zeros(3))
    assert fitting(flips, means, np.zeros(3), landscape_of(wells, 2)).tolist() == [1.0, 1.0]

    def of_two_names(x):  # two components in two orders: no combinations
        orders = jnp.array([[-3.0, 3.0], [3.0, -3.0], [-3.0, -9.0]])
        return jnp.min(20 * jnp.sum((x - orders) ** 2, -1))

    orders = np.array([[-3.0, 3.0], [3.0, -3.0], [-3.0, -9.0]])
    flips = flips_of(orders, np.full((3, 2), 0.3), np.zeros(3))
    share = fitting(flips, orders, np.zeros(3), landscape_of(of_two_names, 2))
    assert len(share)
    assert share.max() < 0.9
