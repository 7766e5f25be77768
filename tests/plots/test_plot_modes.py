"""What the figure of modes shows, against the numbers of the group."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from mode_groups import CHAINS, mode_groups

from numpyro_contour.plots import plot_modes
from numpyro_contour.statistics.arviz_versions import from_datasets


@pytest.fixture(autouse=True)
def _no_windows():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


def groups():
    """Four modes, one of next to no mass; jumps that are rarer one way."""
    found = mode_groups([0.5, 0.3, 0.1995, 0.0005], [0.5, 0.3, 0.1995, 0.0005])
    found["modes"]["jumps_made"].values[:, 0, 2] = 20
    return found


def drawn(data, *arguments):
    return plot_modes(data, *arguments, axes=Figure().subplots(1, 3))


def test_places_are_bottoms_with_a_standard_deviation():
    places, _, _ = drawn(from_datasets(groups()))
    assert [label.get_text() for label in places.get_xticklabels()] == list("abc")
    containers = places.containers
    assert [c.get_label() for c in containers] == ["0", "1", "2"]
    for mode, container in enumerate(containers):
        line, _, (bars,) = container.lines
        np.testing.assert_allclose(line.get_ydata(), 8.0 * mode)
        lengths = [np.ptp(segment[:, 1]) for segment in bars.get_segments()]
        np.testing.assert_allclose(lengths, 2.0)


def test_two_coordinates_are_a_plane():
    places, _, _ = drawn(from_datasets(groups()), ["a", "c"])
    assert (places.get_xlabel(), places.get_ylabel()) == ("a", "c (bottom, ± 1 sd)")
    points = [container.lines[0].get_xydata()[0].tolist() for container in places.containers]
    assert points == [[0, 0], [8, 8], [16, 16]]


def test_masses_have_two_standard_errors():
    _, masses, _ = drawn(from_datasets(groups()))
    by_draws, by_bridges, by_normals = masses.containers
    for container in (by_draws, by_bridges, by_normals):
        np.testing.assert_allclose(container.lines[0].get_ydata(), [0.5, 0.3, 0.1995])
    for container in (by_draws, by_bridges):
        (bars,) = container.lines[2]
        assert [np.ptp(s[:, 1]) for s in bars.get_segments()] == pytest.approx([0.04] * 3)
    assert by_normals.lines[2] == ()
    names = [text.get_text() for text in masses.get_legend().get_texts()]
    assert names == ["each chain", "weighted draws", "bridge sampling", "normal at the bottom"]
    without = groups()
    without["modes"] = without["modes"].drop_vars(["mass_by_bridge", "mass_by_bridge_mcse"])
    _, masses, _ = drawn(from_datasets(without))
    assert len(masses.containers) == 2


def test_jumps_are_shares_of_tries_with_their_numbers():
    *_, jumps = drawn(from_datasets(groups()))
    (image,) = jumps.get_images()
    share = image.get_array().filled(np.nan)
    expected = np.full((3, 3), 0.5)
    expected[0, 2] = 0.1
    np.fill_diagonal(expected, np.nan)
    np.testing.assert_allclose(share, expected)
    texts = {text.get_position(): text.get_text() for text in jumps.texts}
    assert texts[(2, 0)] == str(20 * CHAINS)
    assert texts[(0, 2)] == str(100 * CHAINS)
    assert len(texts) == 6


def test_what_cannot_be_drawn_is_refused():
    found = groups()
    for names in (["d"], [], "d"):
        with pytest.raises(ValueError, match="`coordinates` takes"):
            plot_modes(from_datasets(found), names)
    with pytest.raises(ValueError, match="`axes` takes 3"):
        plot_modes(from_datasets(found), axes=Figure().subplots(1, 2))
    del found["modes"]
    with pytest.raises(ValueError, match="without a group 'modes'"):
        plot_modes(from_datasets(found))


def test_a_figure_of_its_own_holds_all():
    figure = plot_modes(from_datasets(groups()), "b")[0].figure
    figure.canvas.draw()
    extent = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert -0.02 <= extent.x0 <= extent.x1 <= width + 0.02
    assert -0.02 <= extent.y0 <= extent.y1 <= height + 0.02
