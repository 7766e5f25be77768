"""The papers' experiments on mixtures of two Gaussians: what they compute, and that they run."""

from pathlib import Path

import numpy as np
import pytest

from numpyro_contour import EnergyPartition
from numpyro_contour.examples import mixture as example


@pytest.fixture
def papers(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    pytest.importorskip("matplotlib")


@pytest.fixture
def exact(papers):
    from benchmarks.papers.mixture import exact

    return exact


@pytest.fixture
def runs(papers):
    from benchmarks.papers.mixture import runs

    return runs


@pytest.fixture
def peaks(papers):
    from benchmarks.papers import peaks

    return peaks


@pytest.mark.parametrize("lower", [0.0, 1.0])
def test_exact_theta_is_that_of_the_example(exact, lower):
    partition = EnergyPartition(lower, lower + 50, 50)
    theta = exact.exact_theta(partition)
    assert theta.sum() == pytest.approx(1)
    np.testing.assert_allclose(theta, example.exact_theta(partition))


def test_exact_theta_is_that_of_a_known_probability(exact):
    # All energy below 2 nats: |x - 4| and |x + 6| below these, by the standard normal.
    from scipy.stats import norm

    base = 0.5 * np.log(2 * np.pi)
    reach = [np.sqrt(2 * (2 - base + np.log(mass))) for mass in (0.4, 0.6)]
    expected = sum(m * (2 * norm.cdf(r) - 1) for m, r in zip((0.4, 0.6), reach))
    assert exact.exact_theta(exact.PARTITION)[0] == pytest.approx(expected, abs=1e-4)


def test_flattened_energy_is_that_of_equation_5(exact):
    theta = exact.exact_theta(exact.PARTITION)
    x = np.array([4.0, 2.3, -6.0, 0.0])
    energy = exact.energy(x)
    np.testing.assert_allclose(energy, example.potential(x), rtol=1e-5)
    # Equation 5: u_i is the upper edge of bin i, from 1, and theta(0) = theta(1).
    i = np.ceil(energy - 1).astype(int)
    log_theta = np.log(np.concatenate([theta[:1], theta]))
    share = energy - 1 - (i - 1)
    log_psi = (1 - share) * log_theta[i - 1] + share * log_theta[i]
    found = exact.flattened_energy(x, theta, exact.PARTITION, exact.PAPERS_PSI)
    np.testing.assert_allclose(found, energy + 0.75 * log_psi, rtol=1e-4, atol=1e-5)


def test_running_mean_is_the_weighted_mean_so_far(runs):
    x = np.array([[1.0, 2.0, 4.0], [0.0, 3.0, 5.0]])
    weights = np.array([[1.0, 3.0, 4.0], [0.0, 1.0, 1.0]])
    with np.errstate(divide="ignore"):
        found = runs.running_mean(x, np.log(weights) + 700)
    np.testing.assert_allclose(found, [[1.0, 7 / 4, 23 / 8], [np.nan, 3.0, 4.0]])


def test_errors_are_counted_in_iterations_with_the_warm_up(runs):
    variant = runs.Variant("", "k", warmup=1000)
    x = np.array([[1.0, 3.0, 5.0]])
    results = runs.Results(variant, x, np.zeros((1, 3)), None, None)
    errors = results.errors(np.array([900, 1000, 1100, 1300]))
    np.testing.assert_allclose(errors, [[np.nan, np.nan, 1.0, 3.0]])


def test_crossings_are_changes_of_the_mode(runs):
    x = np.array([[4.0, 3.0, -5.0, -6.0, 4.0], [4.0, 4.0, 4.0, 4.0, 4.0]])
    results = runs.Results(runs.Variant("", "k"), x, np.zeros(x.shape), None, None)
    assert results.crossings.tolist() == [2, 0]


@pytest.mark.parametrize("shape", ["the paper's", "ours"])
def test_peaks_approach_the_energy_of_the_lesser_mode(peaks, shape):
    psi = peaks.SHAPES[shape][0]
    left, right = peaks.twins()
    # U(-6) is U(4) and the logarithm of the ratio of the masses, here of 5.
    assert right - 4 == pytest.approx(np.sqrt(2 * np.log(5)), abs=1e-5)
    assert 4 - left == pytest.approx(right - 4, abs=1e-5)
    found = peaks.peaks(peaks.line(10_001), 0.1, psi).around_the_greater()
    assert abs(found.energy[found.nearest()] - peaks.shared_energy()) < 0.11
    assert found.x[found.nearest()] == pytest.approx(right, abs=0.07)


@pytest.mark.long
@pytest.mark.parametrize(("name", "figures"), [("mixture", 2), ("peaks", 1)])
def test_quick_forms_run(papers, name, figures, tmp_path):
    from benchmarks.__main__ import main

    main([f"papers.{name}", "--quick", "--output", str(tmp_path)])
    page = (tmp_path / "papers.md").read_text()
    assert f"<!-- {name} -->" in page
    assert "nan" not in page
    assert page.count("](figures/") == figures == len(list((tmp_path / "figures").iterdir()))
