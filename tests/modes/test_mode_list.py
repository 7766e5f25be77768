"""Lists of modes as users see them: printed, saved, loaded, and refused."""

import numpy as np
import pytest
from landscapes import landscape_of

from numpyro_contour import ModeList
from numpyro_contour.core.arrays.factors import LowRank
from numpyro_contour.modes.search import search

WELLS = lambda x: (x[0] ** 2 - 9) ** 2 / 18 + 0.5 * (x[1:] ** 2).sum() - 0.1 * x[0]


def listed(size=3, shapes=None):
    landscape = landscape_of(WELLS, size)
    found = search(landscape, np.random.default_rng(0), np.empty((0, size)), 20_000)
    names = ["a", *(f"b[{i}]" for i in range(size - 1))]
    return ModeList.of(found, names, shapes or {"a": (), "b": (size - 1,)}, data=17)


def test_a_list_has_positions_by_name_and_masses():
    modes = listed()
    assert len(modes) == 2
    np.testing.assert_allclose(modes.positions["a"], [3, -3], atol=0.05)
    np.testing.assert_allclose(modes.positions["b"], np.zeros((2, 2)), atol=0.01)
    # A tilt of .1 over six units.
    assert modes.mass[0] / modes.mass[1] == pytest.approx(np.exp(0.6), rel=0.05)
    assert len(modes.heaviest(1)) == 1
    assert modes.heaviest(1).mean.tolist() == modes.mean[:1].tolist()
    assert modes.heaviest(5) is modes


def test_a_list_is_printed_as_a_table():
    lines = repr(listed()).splitlines()
    assert lines[0].startswith("2 modes by 96 descents, 0 of which ended in a new mode")
    assert lines[1].split() == ["mode", "mass", "energy", "descents", "a", "b[0]", "b[1]"]
    assert lines[2].split()[:2] == ["0", "0.640"]


@pytest.mark.parametrize("size", [3, 300])
def test_a_saved_list_comes_back_as_it_was(tmp_path, size):
    modes = listed(size)
    assert isinstance(modes.factor, LowRank) == (size == 300)
    modes.save(tmp_path / "modes.npz")
    again = ModeList.load(tmp_path / "modes.npz")
    assert repr(again) == repr(modes)
    assert (again.coordinates, again.shapes, again.data) == (modes.coordinates, modes.shapes, 17)
    np.testing.assert_array_equal(again.sds, modes.sds)
    for name in ("mean", "energy", "gradient", "log_integral", "counts"):
        np.testing.assert_array_equal(getattr(again, name), getattr(modes, name))
    np.testing.assert_array_equal(again.flips.inside, modes.flips.inside)


def test_files_of_other_things_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    with pytest.raises(ValueError, match="`path` takes the file of a ModeList"):
        ModeList.load(tmp_path / "other.npz")
    (tmp_path / "text.npz").write_text("modes")
    with pytest.raises(ValueError, match="`path` takes the file of a ModeList"):
        ModeList.load(tmp_path / "text.npz")
