"""The barrier of a ladder, the round trips that it allows, and ladders of equal rejections."""

import numpy as np
import pytest
from scipy import stats

from numpyro_contour.statistics.ladders import (
    communication_barrier,
    equal_rejection_temperatures,
    optimal_round_trip_rate,
)


def rejections(ladder, size):
    """Of swaps between normals in `size` dimensions: one minus twice a tail of Fisher's F."""
    ladder = np.asarray(ladder)
    return 1 - 2 * stats.f.sf(ladder[1:] / ladder[:-1], size, size)


def round_trips_of_walkers(rejected, window, rounds, seed):
    """Round trips in a round of all walkers, whose pairs reject independently."""
    generator, size = np.random.default_rng(seed), len(rejected) + 1
    at, heading, trips = np.arange(size), np.zeros(size, int), 0
    for number in range(rounds):
        for pair in range(size - 1):
            has_turn = size == 2 or pair % 2 == number % 2
            if has_turn and generator.random() > rejected[pair] ** window:
                at[[pair, pair + 1]] = at[[pair + 1, pair]]
        trips += heading[at[0]] == -1
        heading[at[0]] = 1
        heading[at[-1]] = -1 if heading[at[-1]] == 1 else heading[at[-1]]
    return trips / (rounds * window)


@pytest.mark.parametrize(
    ("rejected", "window"),
    [((0.4,), 1), ((0.7,), 3), ((0.5, 0.2), 1), ((0.6, 0.8, 0.3, 0.5), 1), ((0.9, 0.8, 0.7), 5)],
)
def test_the_optimal_rate_is_that_of_walkers(rejected, window):
    best = optimal_round_trip_rate(np.array(rejected), window)
    found = [round_trips_of_walkers(rejected, window, 4000, seed) for seed in range(6)]
    error = np.std(found, ddof=1) / 6**0.5
    assert error < 0.04 * best
    assert abs(np.mean(found) - best) < 4 * error + 0.005 * best


def test_arrays_of_ladders():
    rejected = np.array([[0.5, 0.5], [1.0, 0.5]])
    np.testing.assert_allclose(communication_barrier(rejected), [1.0, 1.5])
    np.testing.assert_allclose(optimal_round_trip_rate(rejected), [1 / 6, 0.0])


@pytest.mark.parametrize("size", [2, 10])
def test_rejections_become_equal_in_a_few_runs(size):
    ladder = np.array([1.0, 1.2, 1.5, 2.0, 9.0])
    first = rejections(ladder, size)
    for _ in range(5):
        ladder = equal_rejection_temperatures(ladder, rejections(ladder, size))
    last = rejections(ladder, size)
    assert np.ptp(first) > 0.5
    assert np.ptp(last) < 0.02
    # Equal rejections between normals are equal ratios.
    np.testing.assert_allclose(ladder, np.geomspace(1, 9, 5), rtol=0.03)
    assert optimal_round_trip_rate(last) > optimal_round_trip_rate(first)


def test_ladders_of_other_lengths_and_pairs_without_rejections():
    found = equal_rejection_temperatures((1.0, 4.0), (0.6,), num_replicas=3)
    np.testing.assert_allclose(found, [1.0, 2.0, 4.0])
    for rejected in ((0.0, 0.5), (0.0, 0.0), (1.0, 1.0)):
        found = equal_rejection_temperatures((1.0, 2.0, 4.0), rejected)
        assert (np.diff(found) > 0).all()
        np.testing.assert_array_equal(found[[0, -1]], [1.0, 4.0])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("temperatures", ((2.0, 1.0), (0.5,))),
        ("temperatures", ((1.0,), ())),
        ("temperatures", ((0.0, 1.0), (0.5,))),
        ("rejection_rates", ((1.0, 2.0), (0.5, 0.5))),
        ("rejection_rates", ((1.0, 2.0), (1.5,))),
        ("num_replicas", ((1.0, 2.0), (0.5,), 1)),
    ],
)
def test_wrong_arguments(name, arguments):
    with pytest.raises(ValueError, match=f"^`{name}` takes"):
        equal_rejection_temperatures(*arguments)
