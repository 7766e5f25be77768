"""Modes of a scalar, and what the trips between them leave unknown."""

import numpy as np
import pytest

from numpyro_contour.statistics.blocks import Block
from numpyro_contour.statistics.crossings import error_of_visits, valleys
from numpyro_contour.statistics.errors import mcse_of_mean, weighted_ess, weighted_mcse

DRAWS = 1000


def two_modes(rng, to_high, to_low, chains=1, draws=DRAWS, apart=6.0):
    """Unit normals at 0 and `apart`, left at these rates; and which draws are above."""
    above = np.zeros((chains, draws), bool)
    at = rng.random(chains) < to_high / (to_high + to_low)
    for t in range(draws):
        at = np.where(at, rng.random(chains) >= to_low, rng.random(chains) < to_high)
        above[:, t] = at
    return rng.normal(size=above.shape) + apart * above, above


def even(x):
    return np.ones(x.shape)


def plain_mcse(x):
    """By autocorrelations alone."""
    return mcse_of_mean(Block(x[..., None], even(x)))[0]


def test_trips_of_each_chain():
    x, above = two_modes(np.random.default_rng(0), 0.02, 0.01, chains=3)
    (valley,) = valleys(x, even(x))
    assert 2 < valley.cut < 4
    assert abs(valley.low) < 0.5 < 5.5 < valley.high < 6.5
    assert valley.share == pytest.approx(above.mean(), abs=0.005)
    # On the slope a draw is on no side: chance does not count as a trip.
    changes = (np.diff(above.astype(int), axis=1) != 0).sum(1)
    assert valley.trips.tolist() == (changes // 2).tolist()
    begins = above & ~np.concatenate([np.zeros((3, 1), bool), above[:, :-1]], 1)
    assert valley.stays[0] == pytest.approx(above.sum() / begins.sum(), rel=0.1)


def test_weights_say_how_deep_a_valley_is_and_draws_without_any_are_nowhere():
    rng = np.random.default_rng(1)
    x, above = two_modes(rng, 0.02, 0.02)
    weights = np.where(above, 3.0, 1.0)
    (valley,) = valleys(x, weights)
    assert valley.share == pytest.approx(3 * above.mean() / (1 + 2 * above.mean()), abs=0.005)
    assert not valleys(x, np.where(above, 0.0, 1.0))
    # A flattened density is level between the modes: only its weights show that there are two.
    level = 3 * rng.random((1, DRAWS)) + 3 * (np.arange(DRAWS) // 50 % 2)
    weights = np.exp(-0.5 * np.minimum(level, 6 - level) ** 2)
    assert not valleys(level, even(level))
    assert len(valleys(level, weights / weights.mean())) == 1


@pytest.mark.parametrize("seed", range(5))
def test_what_has_one_mode(seed):
    rng = np.random.default_rng(seed)
    for x in (
        rng.normal(size=(1, DRAWS)),
        rng.standard_t(2, size=(1, DRAWS)),
        rng.lognormal(size=(2, DRAWS)),
        rng.uniform(size=(1, DRAWS)),
        rng.exponential(size=(1, 100)),
        rng.random((1, DRAWS)) < 0.01,  # an event that is rare is no mode
        np.zeros((1, DRAWS)),
    ):
        assert not valleys(x.astype(float), even(x))
        assert error_of_visits(x.astype(float), even(x)) == 0


def test_a_chain_that_is_slow_everywhere_has_no_modes():
    walks = np.random.default_rng(2).normal(size=(20, 1, DRAWS)).cumsum(-1)
    assert sum(bool(valleys(x, even(x))) for x in walks) <= 4


def test_three_modes_have_two_valleys():
    rng = np.random.default_rng(3)
    mode = rng.permutation(np.repeat([0, 1, 2], 20)).repeat(30)[None]
    x = rng.normal(size=mode.shape) + 8 * mode
    found = valleys(x, even(x))
    assert [round(v.cut / 8, 1) for v in found] == [0.5, 1.5]
    assert found[0].share == pytest.approx(2 / 3, abs=0.01)
    assert found[1].share == pytest.approx(1 / 3, abs=0.01)


def test_the_error_is_the_scatter_of_the_means():
    rng = np.random.default_rng(4)
    x, _ = two_modes(rng, 0.02, 0.01, chains=400)
    errors = [error_of_visits(one[None], even(one[None])) for one in x]
    assert np.mean(errors) == pytest.approx(x.mean(1).std(), rel=0.15)
    # Of many trips autocorrelations tell as much.
    often, _ = two_modes(rng, 0.2, 0.1)
    assert error_of_visits(often, even(often)) == 0
    assert weighted_mcse(often, np.zeros(often.shape)) == plain_mcse(often)


def test_a_mode_that_was_found_by_chance():
    """Three standard errors hold the truth, as they do not where autocorrelations alone count."""
    rng = np.random.default_rng(5)
    x, above = two_modes(rng, 0.004, 0.004, chains=300)
    once = (np.diff(above.astype(int), axis=1) != 0).sum(1) >= 2
    wrong = plain = 0
    for one in x[once][:, None]:
        off = abs(one.mean() - 3)
        wrong += off > 3 * weighted_mcse(one, np.zeros(one.shape))
        plain += off > 3 * plain_mcse(one)
    assert once.sum() > 200
    assert plain / once.sum() > 0.05
    assert wrong / once.sum() < 0.02


def test_no_trip_no_error():
    rng = np.random.default_rng(6)
    above = np.arange(DRAWS)[None] > 900
    x = rng.normal(size=above.shape) + 6 * above
    flat = np.zeros(x.shape)
    assert np.isnan(weighted_mcse(x, flat))
    assert np.isnan(weighted_ess(x, flat, "mean"))
    assert np.isfinite(weighted_mcse(rng.normal(size=x.shape), flat))
    # Nor where chains stay apart from each other.
    apart = rng.normal(size=(4, DRAWS)) + np.array([[0.0], [0.0], [9.0], [9.0]])
    assert np.isnan(weighted_mcse(apart, np.zeros(apart.shape)))
    # The effective size belongs to the error.
    x, _ = two_modes(rng, 0.005, 0.005, chains=2)
    flat = np.zeros(x.shape)
    assert error_of_visits(x, even(x)) > plain_mcse(x) / 2
    assert weighted_ess(x, flat, "mean") == pytest.approx(
        x.var(ddof=1) / weighted_mcse(x, flat) ** 2
    )
