"""The energy histogram against energies of a known distribution: no mass is lost or moved."""

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from numpyro_contour.plots import plot_energy_histogram, plot_theta_trace
from numpyro_contour.plots.shared import common_edges, joined_edges, spread
from numpyro_contour.statistics.arviz_versions import from_datasets

STEPS, ZETA = 20_000, 0.75


def below(u):
    """The probability of an energy below u: that of a normal in the plane is exponential."""
    return 1.0 - np.exp(-np.maximum(u, 0.0))


def theta_of(edges):
    """The exact probability of each bin; the outermost ones hold what lies outside."""
    return np.diff(np.concatenate([[0.0], below(edges[1:-1]), [1.0]]))


def groups_of(edges, visits, theta):
    """A run of these partitions, (chains, bins + 1)."""
    edges = np.asarray(edges, float)
    chains, ways = len(edges), ("chain", "bin")
    draws = ("chain", "draw"), np.zeros((chains, 4))
    partition = {
        "lower_edge": (ways, edges[:, :-1]),
        "upper_edge": (ways, edges[:, 1:]),
        "theta": (ways, np.asarray(theta, float)),
        "visits": (ways, np.asarray(visits)),
    }
    log_theta = np.log(np.maximum(theta, 1e-300))[:, None].repeat(4, axis=1)
    stats = {"log_weight": draws, "lp": draws, "log_theta": (("chain", "draw", "bin"), log_theta)}
    return from_datasets(
        {
            "posterior": xr.Dataset({"x": draws}),
            "sample_stats": xr.Dataset(stats, attrs={"zeta": ZETA}),
            "energy_partition": xr.Dataset(partition),
        }
    )


def drawn(data):
    """Visits, theta and f as they are drawn, and the band of the visits where there is one."""
    ax = plot_energy_histogram(data, ax=Figure().subplots())
    shown = [patch.get_data() for patch in ax.patches]
    if len(shown) == 4:  # one chain has no bands
        visits, _, theta, flattened = shown
        return ax, visits, theta, flattened, None
    visits, _, band, theta, _, flattened = shown
    return ax, visits, theta, flattened, band


def mass(stairs):
    return stairs.values * np.diff(stairs.edges)


def flat_visits(rng, theta):
    power = theta ** (1.0 - ZETA)
    return rng.multinomial(STEPS, power / power.sum())


def test_shares_are_those_of_the_exact_distribution():
    """Chains without flattening visit energies as often as they are probable."""
    rng = np.random.default_rng(0)
    edges = np.tile(np.linspace(0.0, 20.0, 81), (3, 1))
    counts = np.stack([np.histogram(rng.exponential(size=STEPS), e)[0] for e in edges])
    theta = [theta_of(edge) for edge in edges]
    ax, visits, shown, _, band = drawn(groups_of(edges, counts, theta))
    assert mass(visits).sum() == pytest.approx(1.0, abs=1e-12)
    assert np.diff(visits.edges).max() > 0.6 > 0.3 > np.diff(visits.edges).min()
    low, high = visits.edges[:-1], np.append(visits.edges[1:-1], np.inf)
    exact = below(high) - below(low)
    error = np.sqrt(exact * (1 - exact) / (3 * STEPS))
    assert np.all(np.abs(mass(visits) - exact) < 5 * error)
    assert np.all(mass(visits) * 3 * STEPS > 14.9)
    np.testing.assert_allclose(mass(shown)[:-1], exact[:-1], rtol=0.5)
    np.testing.assert_allclose(mass(shown)[:10], exact[:10], rtol=1e-6)
    # The band is that of the chains, over the same bins.
    places = np.searchsorted(edges[0], visits.edges)
    chains = np.add.reduceat(counts, places[:-1], axis=1) / STEPS / np.diff(visits.edges)
    np.testing.assert_allclose(band.values, chains.max(0))
    np.testing.assert_allclose(band.baseline, chains.min(0))
    # The axis ends where nothing is known any more.
    assert visits.values.min() / 2000 < ax.get_ylim()[0] < visits.values.min()
    assert ax.get_ylabel() == "share per nat"


def test_partitions_of_their_own_show_one_distribution():
    rng = np.random.default_rng(1)
    edges = [np.linspace(-0.1 * c, 25.0 + 3 * c, 251) for c in range(4)]
    theta = [theta_of(edge) for edge in edges]
    counts = [np.histogram(rng.exponential(size=STEPS), e)[0] for e in edges]
    _, visits, shown, _, _ = drawn(groups_of(edges, counts, theta))
    assert mass(visits).sum() == pytest.approx(1.0, abs=1e-12)
    # Within a bin mass is spread evenly, which moves less than 0.003 of it at this width.
    reached = np.cumsum(mass(visits))[:-1]
    error = 5 * np.sqrt(reached * (1 - reached) / (4 * STEPS)) + 0.003
    assert np.all(np.abs(reached - below(visits.edges[1:-1])) < error)
    inside = visits.edges[1:-1] < 5.0
    at = np.cumsum(mass(shown))[:-1][inside]
    np.testing.assert_allclose(at, below(visits.edges[1:-1])[inside], atol=0.003)


@pytest.mark.parametrize("chains", [1, 3])
def test_visits_of_a_flattened_run_follow_flattened_theta(chains):
    rng = np.random.default_rng(2)
    edges = np.tile(np.linspace(0.0, 30.0, 61), (chains, 1))
    theta = np.stack([theta_of(edge) for edge in edges])
    counts = np.stack([flat_visits(rng, t) for t in theta])
    _, visits, _, flattened, band = drawn(groups_of(edges, counts, theta))
    assert (band is None) == (chains == 1)
    for shown in (visits, flattened):
        assert mass(shown).sum() == pytest.approx(1.0, abs=1e-12)
    expected = mass(flattened)
    error = np.sqrt(expected / (chains * STEPS))
    assert np.all(np.abs(mass(visits) - expected) < 5 * error)


def test_theta_falls_below_the_axis_and_not_the_axis_with_it():
    edges = np.tile(np.linspace(0.0, 100.0, 101), (2, 1))
    theta = np.stack([theta_of(edge) for edge in edges])
    counts = np.full((2, 100), 1000)
    counts[:, 60:] = np.arange(40) % 7 == 3  # single visits, far apart
    ax, visits, *_ = drawn(groups_of(edges, counts, theta))
    assert len(visits.values) < 70
    assert np.all(visits.values > 0)
    assert ax.get_ylim()[0] > 1e-11
    assert ax.get_xlim() == pytest.approx((-1.98, 100.98))


def test_theta_that_is_too_small_for_a_number_is_drawn():
    theta = np.array([[0.6, 0.4, 0.0]])
    ax, _, shown, flattened, _ = drawn(groups_of([[0.0, 1, 2, 3]], [[50, 40, 30]], theta))
    np.testing.assert_allclose(shown.values, theta[0])
    assert flattened.values[2] == 0.0
    assert 0.0 < ax.get_ylim()[0] < 0.25


def test_bins_are_joined_until_visits_are_enough():
    edges = np.arange(9.0)
    visits = np.array([0, 0, 9, 3, 3, 1, 0, 0])
    assert joined_edges(edges, visits, 5).tolist() == [2, 3, 6]
    assert joined_edges(edges, visits, 100).tolist() == [2, 6]
    assert joined_edges(edges, visits, 0.5).tolist() == [2, 3, 4, 5, 6]
    assert joined_edges(edges, np.array([4, 1, 2, 2, 5, 0, 0, 4]), 5).tolist() == [0, 2, 8]


def test_mass_is_spread_evenly_and_none_is_lost():
    edges = np.array([0.0, 1.0, 2.0, 4.0])
    masses = np.array([[1.0, 2.0, 4.0], [0.0, 3.0, 1.0]])
    np.testing.assert_allclose(spread(masses, edges, edges), masses)
    onto = np.array([-1.0, 0.5, 1.5, 3.0])
    np.testing.assert_allclose(spread(masses, edges, onto), [[0.5, 1.5, 5.0], [0.0, 1.5, 2.5]])
    np.testing.assert_allclose(spread(masses, edges, np.array([1.0, 2.0])), [[7.0], [4.0]])
    shifted = np.stack([edges, edges + 0.5])
    assert common_edges(np.stack([edges, edges])).tolist() == edges.tolist()
    common = common_edges(shifted)
    assert (common[0], common[-1]) == (0.0, 4.5)
    np.testing.assert_allclose(np.diff(common), 1.0, rtol=0.2)


def test_theta_of_one_colour_is_for_the_same_energies():
    edges = [np.linspace(0.0, 20.0 + c, 201) for c in range(3)]
    theta = [theta_of(edge) for edge in edges]
    ax = plot_theta_trace(
        groups_of(edges, np.ones((3, 200)), theta), [0, 40], ax=Figure().subplots()
    )
    mean = np.mean(edges, axis=0)
    for place, lines in ((0, ax.lines[:3]), (40, ax.lines[3:])):
        expected = below(mean[place + 1]) - below(mean[place])
        for line in lines:
            np.testing.assert_allclose(line.get_ydata(), expected, rtol=0.02)
    # The same numbers of bins have thetas that are further apart.
    assert theta[0][40] / theta[2][40] > 1.2
