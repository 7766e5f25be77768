"""Walks along bent valleys, and the list that makes them."""

import numpy as np
from landscapes import landscape_of, place, places

from numpyro_contour.modes.known_list import KnownList
from numpyro_contour.modes.shape import SLOPE, shape_at
from numpyro_contour.modes.valleys import lower_places


def valley(x):
    """Walls of width .001, and 12 nats down along the floor."""
    return 0.5 * ((x[1] - x[0] ** 2) / 1e-3) ** 2 + 0.5 * (x[0] - 6) ** 2


def test_walks_lead_from_the_floor_of_a_bent_valley_to_its_bottom():
    landscape = landscape_of(valley, 2)
    # The slopes along the floor, where descents in single precision rest.
    on_floor = [place(landscape, [x, x**2])._replace(gradient=np.zeros(2)) for x in (1.0, 6.0, 9.0)]
    one, bottom, nine = lower_places(landscape, [shape_at(landscape, end) for end in on_floor])
    assert bottom is None
    for lower in (one, nine):
        assert abs(lower[0] - 6) < 1
        assert abs(lower[1] - lower[0] ** 2) < 0.1


def test_a_list_takes_up_bottoms_of_valleys_only():
    landscape = landscape_of(valley, 2)
    found = KnownList(landscape)
    ends = places(landscape, np.array([[1.0, 1.0], [1.0, 1.0], [6.0, 36.0]]))
    ends = ends._replace(gradient=np.zeros((3, 2)))
    onwards = found.add(ends)
    assert found.counts == [1]
    assert found.nowhere == {SLOPE: 2}
    assert onwards.shape == (2, 2)
    assert onwards[0, 0] > 2
