"""What the derivative does not explain: jumps, and nothing else."""

import numpy as np
import pytest

from numpyro_contour.runs.gradient_along_lines import jumps

LINE = np.linspace(0, 1, 65)


def of(values, slopes, shares=LINE, **arguments):
    return jumps(shares, values * np.ones_like(shares), slopes * np.ones_like(shares), **arguments)


def test_smooth_functions_do_not_jump():
    for f, slope in (
        (lambda x: 50 * (x - 0.4) ** 2, lambda x: 100 * (x - 0.4)),
        (lambda x: np.exp(3 * x), lambda x: 3 * np.exp(3 * x)),
        (lambda x: np.sin(9 * x), lambda x: 9 * np.cos(9 * x)),
        (lambda x: np.log1p(40 * x), lambda x: 40 / (1 + 40 * x)),
    ):
        assert of(f(LINE), slope(LINE)) < 1e-3


@pytest.mark.parametrize("place", np.linspace(0.01, 0.99, 9))
def test_corners_are_no_jumps(place):
    assert of(30 * np.abs(LINE - place), 30 * np.sign(LINE - place)) < 1e-9


def test_jumps_add_up_whatever_their_sign():
    values = LINE**2 + 2.0 * (LINE > 0.3) - 1.5 * (LINE > 0.81)
    assert of(values, 2 * LINE) == pytest.approx(3.5, rel=0.01)


def test_a_staircase_is_all_jumps():
    """Rounding: the slope is 0 everywhere, and the function rises all the same."""
    fine = np.round(7.0 * LINE, 2)
    assert of(fine, 0.0) == pytest.approx(7.0, rel=0.01)
    assert of(np.round(7.0 * LINE), 0.0) == pytest.approx(7.0, rel=0.01)


def test_places_need_not_be_even():
    """Halved where it jumps: what was not halved again stands alone and says nothing."""
    near = 1 / 3 + np.array([-1, 1]) / 2**12
    shares = {0.0, 1.0}
    begin, end = 0.0, 1.0
    for _ in range(12):
        middle = 0.5 * (begin + end)
        shares.add(middle)
        begin, end = (middle, end) if middle < 1 / 3 else (begin, middle)
    shares = np.sort(list(shares))
    assert shares[np.abs(shares - 1 / 3).argmin()] == pytest.approx(1 / 3, abs=np.ptp(near))
    assert of(5.0 * (shares > 1 / 3), 0.0, shares) == pytest.approx(5.0)
    assert of(90 * np.abs(shares - 1 / 3), 90 * np.sign(shares - 1 / 3), shares) < 1e-9


def test_rounding_of_large_numbers_is_no_jump():
    large = np.float32(1e6) + np.float32(3.0) * LINE.astype(np.float32)
    differences = large.astype(float) - 1e6
    assert of(differences, 3.0) > 0.1
    assert of(differences, 3.0, largest=1e6) == 0
