import builtins
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from numpyro.infer import MCMC

from numpyro_contour import SGLD, ContourSGLD, EnergyPartition, to_inference_data
from numpyro_contour.plots import (
    plot_energy_histogram,
    plot_predictions,
    plot_warmup,
    plot_weighted_draws,
)


@pytest.fixture
def ax():
    return Figure().subplots()


def contour_run(chains):
    kernel = ContourSGLD(
        potential_fn=lambda x: x**2 / 2, step_size=0.1, partition=EnergyPartition(0.0, 5.0, 10)
    )
    mcmc = MCMC(
        kernel,
        num_warmup=50,
        num_samples=200,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), init_params=jnp.zeros(chains) if chains > 1 else jnp.zeros(()))
    return mcmc


@pytest.fixture(scope="module")
def two_chains():
    return contour_run(2)


def drawn(ax):
    visits, theta = ax.patches
    return visits.get_data(), theta.get_data()


def test_histogram_shows_the_visits_and_theta_of_the_state(two_chains, ax):
    assert plot_energy_histogram(two_chains, ax=ax) is ax
    state = two_chains.last_state
    counts = np.asarray(state.sampler.theta.bin_counts)
    assert counts.sum(axis=1).tolist() == [250, 250]
    visits, theta = drawn(ax)
    np.testing.assert_allclose(visits.values, counts.mean(axis=0) / 250)
    expected = np.exp(np.asarray(state.log_theta)).mean(axis=0)
    np.testing.assert_allclose(theta.values, expected, rtol=1e-5)
    for stairs in (visits, theta):
        np.testing.assert_allclose(stairs.edges, np.linspace(0.0, 5.0, 11), rtol=1e-6)
    assert ax.get_yscale() == "log"
    visited = visits.edges[1:][visits.values > 0].max()
    assert visited < ax.get_xlim()[1] < visited + 0.2
    low, high = ax.get_ylim()
    assert 0 < low < visits.values[visits.values > 0].min()
    assert high >= max(visits.values.max(), theta.values.max())


def test_histogram_of_one_chain_from_its_state(ax):
    state = contour_run(1).last_state
    visits, theta = drawn(plot_energy_histogram(state, ax=ax))
    np.testing.assert_allclose(visits.values, np.asarray(state.sampler.theta.bin_counts) / 250)
    np.testing.assert_allclose(theta.values, np.exp(np.asarray(state.log_theta)), rtol=1e-5)


def test_chains_of_different_partitions_are_drawn_one_by_one(ax):
    edges = np.array([[0.0, 1.0, 2.0, 3.0], [0.0, 2.0, 4.0, 6.0]])
    counts = np.array([[1, 1, 2], [3, 0, 1]])
    state = SimpleNamespace(
        partition=SimpleNamespace(edges=edges),
        log_theta=np.log([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]),
        sampler=SimpleNamespace(theta=SimpleNamespace(bin_counts=counts)),
    )
    plot_energy_histogram(state, ax=ax)
    assert len(ax.patches) == 4
    visits, theta = ax.patches[2:]
    np.testing.assert_allclose(visits.get_data().values, [0.75, 0.0, 0.25])
    np.testing.assert_allclose(theta.get_data().values, [0.6, 0.3, 0.1])
    np.testing.assert_allclose(theta.get_data().edges, edges[1])


def test_histogram_refuses_runs_without_theta(ax):
    kernel = SGLD(potential_fn=lambda x: x**2 / 2, step_size=0.1)
    mcmc = MCMC(kernel, num_warmup=1, num_samples=2, progress_bar=False)
    with pytest.raises(ValueError, match=r"`run` takes .* has not been run"):
        plot_energy_histogram(mcmc, ax=ax)
    mcmc.run(jax.random.key(0), init_params=jnp.zeros(()))
    with pytest.raises(ValueError, match=r"`run` takes .* contour kernel .* got SGLDState"):
        plot_energy_histogram(mcmc, ax=ax)


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
    ax = plot_weighted_draws([[0.0, 1.0]], [1.0])
    assert ax.figure.number in plt.get_fignums()
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


@pytest.mark.usefixtures("quick_compilation")
def test_warmup_is_drawn_by_stage():
    kernel = ContourSGLD(potential_fn=lambda x: x**2 / 2, num_steps=10)
    mcmc = MCMC(kernel, num_warmup=50, num_samples=5, progress_bar=False)
    mcmc.run(jax.random.key(0), init_params=jnp.array(1.0))
    idata = to_inference_data(mcmc)
    for run in (mcmc, idata):
        axes = plot_warmup(run, axes=Figure().subplots(3, 1))
        group = idata["warmup"]
        lines = (axes[0].containers[0].lines[0], axes[1].lines[0], axes[2].lines[0])
        for line, name in zip(lines, ("energy", "step_size", "acceptance")):
            drawn_values = np.asarray(line.get_ydata(), float)
            np.testing.assert_allclose(drawn_values, group[name].values[0])
        labels = [label.get_text() for label in axes[2].get_xticklabels()]
        assert labels == list(group["stage"].values)
    with pytest.raises(ValueError, match="`axes` takes three"):
        plot_warmup(mcmc, axes=Figure().subplots(2, 1))
    with pytest.raises(ValueError, match="`run` takes a run whose warm-up had something to find"):
        plot_warmup(contour_run(1))
