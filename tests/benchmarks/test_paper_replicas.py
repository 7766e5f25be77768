"""The experiments of the paper's figure 3 and of the slides of reSGLD, in their quick forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from scipy import integrate

from numpyro_contour.statistics.arviz_versions import from_datasets


@pytest.fixture(autouse=True)
def _from_the_root(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))


# ---------------------------------------------------------------- nine modes


def test_a_mode_is_found_with_a_tenth_of_its_mass():
    from benchmarks.papers import nine_modes

    # 0.0494, 0.1239 and 0.3068 are the exact masses of a corner, an edge and the middle.
    masses = np.full((2, 9), 0.0)
    masses[0, 4] = 1.0
    masses[1] = [0.0049, 0.0125, 0.0050, 0.0123, 0.9, 0.02, 0.0495, 0.0, 0.0052]
    found = nine_modes.modes_found(masses)
    np.testing.assert_array_equal(found.sum(-1), [1, 6])
    np.testing.assert_array_equal(np.flatnonzero(found[1]), [1, 2, 4, 5, 6, 8])


def test_what_a_result_counts():
    from benchmarks.papers import nine_modes

    places = np.array([(a, b) for a in (-5 / 3, 0.0, 5 / 3) for b in (-5 / 3, 0.0, 5 / 3)])
    everywhere = np.tile(places, (10, 1))
    middle = np.zeros((90, 2))
    result = nine_modes.Result(np.stack([everywhere, middle]), 1)
    np.testing.assert_array_equal(result.number, [9, 1])
    np.testing.assert_array_equal(result.corners, [4, 0])
    assert result.all_nine == 0.5
    # Equal shares of 1/9 are too much at the corners; the middle alone lacks all others.
    np.testing.assert_allclose(result.error, [4 * (1 / 9 - 0.0494), 1 - 0.3068], atol=3e-4)


def test_densities_integrate_to_one():
    from benchmarks.papers import nine_modes

    cell = (5 / 60) ** 2
    exact = nine_modes.exact_density()
    assert abs(exact.sum() * cell - 1) < 1e-9
    np.testing.assert_allclose(exact, exact.T, rtol=1e-4)
    np.testing.assert_allclose(exact, exact[::-1], rtol=1e-4)
    # The same at one point by an integral over the plane, and the middle's cell next to it.
    potential = lambda x, y: float(
        (x * x + y * y - 10 * (np.cos(1.2 * np.pi * x) + np.cos(1.2 * np.pi * y))) / 3
        + max(x * x + y * y - 7, 0)
    )
    line = np.linspace(-2.5, 2.5, 301)
    values = np.array([[np.exp(-potential(x, y)) for x in line] for y in line])
    whole = integrate.trapezoid(integrate.trapezoid(values, line), line)
    there = np.exp(-potential(2.5 / 60, 2.5 / 60)) / whole
    assert abs(exact[30, 30] / there - 1) < 0.01
    seen = nine_modes.density(np.array([[0.01, 0.01], [0.02, 0.07], [-1.0, 2.0], [0.01, 0.01]]))
    assert abs(seen.sum() * cell - 1) < 1e-9
    assert abs(seen[30, 30] * cell - 0.75) < 1e-9


def test_resampled_draws_weigh_the_same():
    from benchmarks.papers import nine_modes

    rng = np.random.default_rng(0)
    x, log_weight = rng.normal(size=(3, 40, 2)), rng.normal(size=(3, 40))
    groups = {
        "posterior": xr.Dataset({"z": (("chain", "draw", "axis"), x)}),
        "sample_stats": xr.Dataset({"log_weight": (("chain", "draw"), log_weight)}),
    }
    chosen = nine_modes.resampled(from_datasets(groups))
    assert chosen.shape == x.shape
    for draws, weights, taken in zip(x, np.exp(log_weight), chosen):
        # Each draw is taken as often as its weight says, up to one time.
        times = (taken[None] == draws[:, None]).all(-1).sum(1)
        assert times.sum() == 40
        assert (np.abs(times - weights * 40 / weights.sum()) < 1).all()
    # All draws count the same afterwards: the mean is that of the weighted draws.
    mean = (np.exp(log_weight)[..., None] * x).sum(1) / np.exp(log_weight).sum(1)[:, None]
    np.testing.assert_allclose(chosen.mean(1), mean, atol=0.15)


def test_a_larger_mean_is_told_from_an_equal_one():
    from benchmarks.papers import nine_modes

    spread = np.array([-1.0, 0.0, 1.0, 0.0])
    # The standard error of the difference is sqrt(2 (2/3) / 4) = 0.577.
    assert nine_modes.larger(spread + 1.2, spread)
    assert not nine_modes.larger(spread + 1.1, spread)
    assert not nine_modes.larger(spread, spread + 5)
    assert nine_modes.mean_and_sd(spread, 2) == "0.00 +- 0.82"


# ---------------------------------------------------------------- replica exchange


def test_the_mixture_and_its_bins():
    from benchmarks.papers.replica_exchange import target

    mixture = target.CASES[0].mixture
    assert abs(integrate.quad(mixture.density, -12, 12, points=[-3, 2])[0] - 1) < 1e-8
    bins = mixture.bins()
    assert abs(bins.sum() - 1) < 1e-12
    low, high = mixture.edges[20:22]
    assert abs(bins[20] - integrate.quad(mixture.density, low, high)[0]) < 1e-10
    assert abs(mixture.left_mass - 0.4) < 1e-3
    for x in (-3.3, 0.0, 2.1):
        energy = float(jax.vmap(mixture.potential)(jnp.array([x]))[0])
        assert abs(energy + np.log(mixture.density(x))) < 1e-5
    draws = np.array([[-100.0, -3.01, -3.02, 100.0]])
    shares = mixture.histogram(draws)[0]
    assert (shares[0], shares[-1], shares.max(), shares.sum()) == (0.25, 0.25, 0.5, 1.0)


def test_the_noise_of_energies_has_the_variance_that_is_said():
    from benchmarks.papers.replica_exchange import target

    for case in target.CASES:
        keys = jax.random.split(jax.random.key(0), 10_000)
        energy = target.noisy(case.mixture, case.noise, 0.1)
        values, gradients = jax.vmap(energy, (0, None))(keys, jnp.array(0.3))
        # A sample variance is off by the root of (kurtosis - 1) / 10,000: 0.03 for t with 5.
        assert abs(np.var(values) / case.variance - 1) < 0.1
        assert abs(np.std(gradients) / 0.1 - 1) < 0.03


def test_what_the_trade_off_counts():
    from benchmarks.papers.replica_exchange import correction, target

    mixture = target.CASES[0].mixture
    x = np.array([[-3.0, 2.0, 2.0, -3.0], [2.0, 2.0, 2.0, 2.0]])
    result = correction.Traded(50, 1.0, x, np.array([0.1, 0.3]), mixture)
    np.testing.assert_array_equal(result.masses(), [0.5, 0.0])
    np.testing.assert_array_equal(result.masses(1), [1.0, 0.0])
    assert abs(result.bias - (0.25 - 0.4)) < 1e-3
    assert abs(result.error() - np.sqrt((0.1**2 + 0.4**2) / 2)) < 1e-3
    # Two changes in three intervals of ten steps, and none.
    assert abs(result.crossings - 0.5 * (2 / 3) * 100) < 1e-9
    larger = correction.Traded(200, 1.0, x, np.array([0.1, 0.3]), mixture)
    assert correction.draws_of_equal_rows([result, larger]) == {50: 4, 200: 1}


def test_the_noise_relative_to_a_snapshot_is_that_of_minibatches():
    from benchmarks.minibatches.modes_of_rows.one_column import amplitude
    from benchmarks.papers.replica_exchange import snapshots

    target = amplitude(500, 20)
    (y,) = (np.asarray(column, float) for column in target.columns)
    sd = 3.5 * np.sqrt(500 / 40)
    energies = [0.5 * ((y - a**2) / sd) ** 2 for a in (1.4, 1.7)]
    rng = np.random.default_rng(0)
    rows = rng.integers(500, size=(20_000, 20))
    seen = 500 / 20 * (energies[1] - energies[0])[rows].sum(1)
    found = snapshots.variance_by_snapshot(target, np.array([[1.4, 1.7]], np.float32))
    assert abs(found / seen.var() - 1) < 0.05


def test_windows_start_from_the_exact_masses():
    from benchmarks.papers.replica_exchange import target, windows

    found = windows.windowed(target.CASES[0], 4, has_noise=True, steps=10)
    assert abs(found.masses.mean() - 0.4) < 0.05
    assert found.rates.shape == (target.CHAINS, windows.REPLICAS - 1)
    # Two replicas that swap in half of the rounds make a trip in two of them.
    some = windows.Windowed(1, False, np.full((2, 1), 0.5), np.array([400.0, 600.0]), np.ones(2))
    assert some.cells[2:6] == ["0.500", "0.50", "500.0", "500.0"]


# ---------------------------------------------------------------- the page


@pytest.mark.long
def test_the_quick_forms(tmp_path, capsys):
    from benchmarks.__main__ import main

    names = ["nine_modes", "replica_exchange"]
    main([*(f"papers.{name}" for name in names), "--quick", "--output", str(tmp_path)])
    page = (tmp_path / "papers.md").read_text()
    assert capsys.readouterr().out.strip()
    sections = page.split("<!-- ")
    assert [section.split(" -->")[0] for section in sections[1:]] == names
    for figure in ("nine_modes", "replica_exchange", "correction_factor"):
        assert f"(figures/papers_{figure}.png)" in page
        assert (tmp_path / "figures" / f"papers_{figure}.png").stat().st_size > 10_000
    tables = [line for line in page.splitlines() if line.startswith("|")]
    assert all("nan" not in line.split() for line in tables)
    for method in ("SGLD", "cycSGLD", "reSGLD", "CSGLD", "nothing given"):
        assert sum(line.startswith(f"| {method} |") for line in tables) == 1
    for verdict in (line for line in tables if line.endswith((" yes |", " no |"))):
        assert verdict.count(" | ") == 2
    # The noise's variance of 4 is learnt, and naive swaps take no notice of it.
    cells = {line.split(" | ")[1]: line.split(" | ") for line in tables if "| N(0, 4) |" in line}
    assert abs(float(cells["adaptive reSGLD"][6]) - 4) < 1
    assert float(cells["adaptive reSGLD"][5]) < 0.7 * float(cells["naive reSGLD"][5])
