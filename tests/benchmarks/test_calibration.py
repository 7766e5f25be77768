"""Ranks of simulation-based calibration: p-values, envelopes, and a model with exact draws."""

import numpy as np
import pytest
from scipy.stats import kstest


@pytest.fixture(autouse=True)
def _from_the_root(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))


def uniform_ranks(sets, number=200):
    return np.random.default_rng(1).integers(100, size=(sets, number))


def test_p_values_of_uniform_ranks_are_uniform():
    from benchmarks.calibration.envelopes import p_value

    assert kstest([p_value(ranks) for ranks in uniform_ranks(1000)], "uniform").pvalue > 0.01


@pytest.mark.parametrize(
    "change",
    [lambda r: np.minimum(r + 12, 99), lambda r: 20 + 6 * r // 10, lambda r: 99 - r // 2],
    ids=["shifted", "narrow", "upper half"],
)
def test_p_values_of_other_ranks_are_small(change):
    from benchmarks.calibration.envelopes import p_value

    assert max(p_value(change(ranks)) for ranks in uniform_ranks(10)) < 0.01


def test_p_values_agree_with_the_envelope_of_arviz():
    from benchmarks.calibration.envelopes import envelope, p_value, shares_below

    low, high = envelope(200)
    leaves, small = [], []
    for ranks in uniform_ranks(1000):
        shares = shares_below(ranks)
        leaves.append(bool(((shares < low - 1e-9) | (shares > high + 1e-9)).any()))
        small.append(p_value(ranks) < 0.05)
    assert np.mean(leaves) == pytest.approx(0.05, abs=0.025)
    assert np.mean(np.equal(leaves, small)) > 0.97


@pytest.mark.parametrize(("too_wide", "calibrated"), [(1.0, True), (1.5, False)])
def test_a_conjugate_normal_is_calibrated_with_exact_draws_alone(too_wide, calibrated):
    from benchmarks.calibration.envelopes import p_of_model
    from benchmarks.calibration.ranks import AMONG, ranks_among

    rng = np.random.default_rng(3)
    ranks = {"mean": [], "distance": []}
    for _ in range(200):
        drawn = rng.normal(size=1)
        y = rng.normal(drawn, 1.0, 5)
        # N(0, 1) and five rows of N(mean, 1).
        draws = rng.normal(y.sum() / 6, too_wide / np.sqrt(6), AMONG)
        truth = {"mean": drawn, "distance": np.abs(drawn - y.mean())}
        among = {"mean": draws, "distance": np.abs(draws - y.mean())}
        for name, rank in ranks_among(rng, truth, among).items():
            ranks[name].append(rank)
    assert (p_of_model(ranks) > 0.05) == calibrated


def test_equal_draws_are_ranked_by_chance():
    from benchmarks.calibration.ranks import rank

    rng = np.random.default_rng(0)
    found = [rank(rng, 1.0, np.array([0.0, 1.0, 1.0, 2.0])) for _ in range(300)]
    assert set(found) == {1, 2, 3}
    assert np.bincount(found)[1:].min() > 70


def test_ranks_are_read_as_they_were_kept(tmp_path):
    from benchmarks.calibration.ranks import Ranks
    from benchmarks.calibration.results import keep, kept_of

    ranks = Ranks({"a": [0, 3]}, {"a": [99, 1]}, ["", "length"], [0.1, 2.0])
    assert kept_of("a (b)", tmp_path) is None
    keep("a (b)", ranks, tmp_path)
    assert kept_of("a (b)", tmp_path) == ranks
    assert ranks.of_faultless() == {"a": [0]}
