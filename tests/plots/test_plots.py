import builtins

import numpy as np
import pytest
from matplotlib.figure import Figure

from numpyro_contour.plots import plot_predictions, plot_weighted_draws


@pytest.fixture
def ax():
    return Figure().subplots()


def test_predictions_show_values_intervals_and_misses(ax):
    y, mean = np.array([1.0, 2.0, 3.0]), np.array([1.1, 1.5, 5.0])
    lower, upper = np.array([0.5, 1.0, 4.0]), np.array([1.6, 2.5, 6.0])
    plot_predictions(y, mean, lower, upper, unit="MPa", ax=ax)
    inside, outside = ax.lines[:2]
    np.testing.assert_array_equal(inside.get_xydata(), [[1.0, 1.1], [2.0, 1.5]])
    np.testing.assert_array_equal(outside.get_xydata(), [[3.0, 5.0]])
    bars_inside, bars_outside = (bars.get_segments() for bars in ax.collections)
    np.testing.assert_array_equal(bars_inside[1], [[2.0, 1.0], [2.0, 2.5]])
    np.testing.assert_array_equal(bars_outside, [[[3.0, 4.0], [3.0, 6.0]]])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("observed (MPa)", "predicted (MPa)")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0]], [1.0], [0.0], [2.0]), "`observed` takes"),
        (([1.0], [1.0, 2.0], [0.0], [2.0]), "`predicted` takes .* got \\(2,\\)"),
        (([1.0], [1.0], [3.0], [2.0]), "`lower` takes"),
    ],
)
def test_predictions_refuse_what_does_not_fit(arguments, message, ax):
    with pytest.raises(ValueError, match=message):
        plot_predictions(*arguments, ax=ax)


def test_weighted_draws_have_areas_by_weight(ax):
    samples = np.arange(12.0).reshape(2, 3, 2)
    weights = np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 5.0]])
    plot_weighted_draws(samples, weights, ax=ax)
    (points,) = ax.collections
    np.testing.assert_array_equal(points.get_offsets(), samples.reshape(-1, 2))
    np.testing.assert_allclose(points.get_sizes() / points.get_sizes()[0], weights.ravel())


def test_draws_of_no_weight_do_not_stretch_the_axes(ax):
    samples = np.concatenate([np.random.default_rng(0).normal(size=(1000, 2)), [[50.0, -80.0]]])
    plot_weighted_draws(samples, np.append(np.ones(1000), 1e-9), ax=ax)
    for low, high in (ax.get_xlim(), ax.get_ylim()):
        assert -6.0 < low < -2.5
        assert 2.5 < high < 6.0


@pytest.mark.parametrize(
    ("samples", "weights", "message"),
    [
        (np.zeros((4, 3)), np.ones(4), "`samples` takes .* got \\(4, 3\\)"),
        (np.zeros((4, 2)), np.ones(5), "`weights` takes .* got \\(5,\\)"),
        (np.zeros((4, 2)), np.zeros(4), "`weights` takes"),
    ],
)
def test_weighted_draws_refuse_what_does_not_fit(samples, weights, message, ax):
    with pytest.raises(ValueError, match=message):
        plot_weighted_draws(samples, weights, ax=ax)


def test_new_axes_are_made_when_none_are_given():
    import matplotlib.pyplot as plt

    plt.switch_backend("Agg")
    ax = plot_weighted_draws([[0.0, 1.0]], [1.0], figsize=(3.0, 2.0))
    assert ax.figure.number in plt.get_fignums()
    assert ax.figure.get_size_inches().tolist() == [3.0, 2.0]
    plt.close(ax.figure)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    original = builtins.__import__

    def without_matplotlib(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_matplotlib)
    with pytest.raises(ImportError, match=r"pip install numpyro_contour\[plots\]"):
        plot_weighted_draws([[0.0, 1.0]], [1.0])
