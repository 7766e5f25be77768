"""Statistics of flattening: against counts by brute force and values known beforehand."""

import numpy as np
import pytest
from scipy import stats

from numpyro_contour.diagnostics import (
    counted_share,
    end_masses,
    histogram_flatness,
    noise_in_bins,
    round_trips,
    share_above,
    theta_drift,
    theta_spread,
)
from numpyro_contour.statistics.flatness import distance

# --------------------------------------------------------------------------- evenness of visits


def test_flatness_is_the_number_of_evenly_visited_bins_over_those_in_range():
    visits = [
        [7, 7, 7, 7, 7, 7],
        [0, 0, 5, 5, 5, 0],  # bins outside the range do not count
        [0, 5, 0, 0, 5, 0],  # those inside it do: 2 of 4
        [0, 0, 3, 0, 0, 0],
        [2, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
    ]
    # Shares 1/2, 1/4, 1/4 have an entropy of 1.5 log 2.
    expected = [1.0, 1.0, 0.5, 1.0, 2**1.5 / 3, np.nan]
    np.testing.assert_allclose(histogram_flatness(visits), expected, rtol=1e-12)


def test_flatness_of_exact_distributions():
    energy = np.arange(2000) * 0.01
    geometric = 1e8 * np.exp(-energy)
    # Bins finer than the density is curved: exp of the entropy of an exponential, e, over 20.
    assert histogram_flatness([geometric])[0] == pytest.approx(np.e / 20, rel=0.01)
    normal = stats.norm.pdf(energy, 10.0, 1.0)
    entropy = 0.5 * np.log(2 * np.pi * np.e)
    assert histogram_flatness([normal])[0] == pytest.approx(np.exp(entropy) / 20, rel=0.01)
    # Nearly all visits in one bin of many.
    lonely = np.append(1e12, np.ones(99))
    assert histogram_flatness([lonely])[0] == pytest.approx(1 / 100, rel=1e-6)
    # Scale says nothing, and every chain is by itself.
    both = histogram_flatness(np.stack([geometric, 3 * normal]))
    np.testing.assert_allclose(both, [histogram_flatness([x])[0] for x in (geometric, normal)])


# --------------------------------------------------------------------------- round trips


def walk(seed, steps=4000, top=20):
    """Positions of a bounded random walk on 0..top."""
    moves = np.random.default_rng(seed).choice([-1, 1], steps)
    places = np.empty(steps, int)
    at = int(np.random.default_rng(seed + 10**6).integers(0, top + 1))
    for i, move in enumerate(moves):
        at = min(max(at + move, 0), top)
        places[i] = at
    return places


def brute_force(places, low, high):
    """Whole trips low, high, low of single positions, by looking for the next end in turn."""
    trips, at = 0, 0
    is_low, is_high = places <= low, places >= high

    def next_of(flags, start):
        found = np.flatnonzero(flags[start:])
        return None if found.size == 0 else start + int(found[0])

    at = next_of(is_low, 0)
    while at is not None:
        up = next_of(is_high, at)
        at = None if up is None else next_of(is_low, up)
        trips += at is not None
    return trips


def windows(places, size):
    cut = places[: len(places) // size * size].reshape(-1, size)
    return cut.min(1), cut.max(1)


LOW, HIGH = 3, 16


@pytest.mark.parametrize("size", [2, 3, 7, 20, 50, 200])
def test_windows_never_count_too_many_trips(size):
    counted, true = [], []
    for seed in range(60):
        places = walk(seed)
        lowest, highest = windows(places, size)
        counted.append(round_trips([lowest], [highest], LOW, HIGH)[0])
        true.append(brute_force(places[: len(lowest) * size], LOW, HIGH))
    counted, true = np.array(counted), np.array(true)
    assert (counted <= true).all()
    assert sum(true) > 200  # some 17 each: 4000 steps at 13^2 steps a way
    # A way takes at least 13 steps: windows shorter than that hide next to nothing.
    assert counted.sum() > (0.95 if size <= 3 else 0.5 if size <= 50 else 0.05) * true.sum()


def test_trips_of_single_positions_are_exact():
    walks = np.stack([walk(seed) for seed in range(60)])
    expected = [brute_force(places, LOW, HIGH) for places in walks]
    assert min(expected) < max(expected)
    np.testing.assert_array_equal(round_trips(walks, walks, LOW, HIGH), expected)


def test_trips_in_the_adverse_order():
    """Whatever the order within windows, as few trips as that are certain."""
    both = [0, 9]

    def count(*windows):
        lowest, highest = np.transpose(windows)
        return round_trips([lowest], [highest], 1, 8)[0]

    low, high, between = [0, 1], [8, 9], [4, 5]
    assert count(low, high, low) == 1
    assert count(low, between, high, between, low) == 1
    assert count(low, high) == count(high, low) == count(high, low, high) == 0
    # Each window of both ends is a way, the first only a beginning: its low may come last.
    assert count(both) == count(both, both) == 0
    assert count(both, both, both) == 1
    assert count(low, both, low) == 1  # low, high, low
    assert count(high, both, high) == 0  # high, low, high: never back down after
    assert count(high, high, high) == count(between, between) == count(low, low) == 0


def test_the_ends_of_a_trip_are_inclusive():
    energy = [[1.0, 8.0, 1.0, 7.9, 1.0, 8.0, 1.1]]
    assert round_trips(energy, energy, 1.0, 8.0)[0] == 1
    energy = [[np.nan, 1.0, np.nan, np.inf, 1.0]]
    assert round_trips(energy, energy, 1.0, 8.0)[0] == 1


# --------------------------------------------------------------------------- theta


def test_drift_is_between_the_means_of_the_last_two_quarters():
    rng = np.random.default_rng(0)
    theta = rng.dirichlet(np.ones(7), size=(3, 103))
    expected = [
        stats_distance(chain[-50:-25].mean(0), chain[-25:].mean(0))
        for chain in theta  # 103 // 4 = 25 draws in a quarter
    ]
    np.testing.assert_allclose(theta_drift(theta), expected, rtol=1e-12)


def stats_distance(one, other):
    """The largest difference of two distribution functions on the same bins, one by one."""
    return max(abs(sum(one[: i + 1]) - sum(other[: i + 1])) for i in range(len(one)))


def test_drift_of_known_moves():
    settled = np.full((40, 4), 0.25)
    early = settled.copy()
    early[:20] = [1.0, 0.0, 0.0, 0.0]  # the first half does not matter
    late = settled.copy()
    late[20:30], late[30:] = [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]
    up_a_bin = settled.copy()
    up_a_bin[20:30], up_a_bin[30:] = [0.5, 0.5, 0, 0], [0, 0.5, 0.5, 0]
    found = theta_drift(np.stack([settled, early, late, up_a_bin]))
    np.testing.assert_allclose(found, [0.0, 0.0, 1.0, 0.5], atol=1e-12)
    # A fine partition does not drift more than a coarse one.
    fine = np.repeat(up_a_bin, 10, axis=1) / 10
    assert theta_drift(fine[None])[0] == pytest.approx(0.5)


def test_drift_needs_four_draws():
    theta = np.linspace([0.2, 0.8], [0.8, 0.2], 4)[None]
    assert np.isnan(theta_drift(theta[:, :3]))
    assert theta_drift(theta)[0] == pytest.approx(0.2)


def bins(begin, end, number):
    edges = np.linspace(begin, end, number + 1)
    return edges[:-1], edges[1:]


def masses(distribution, lower, upper):
    found = distribution.cdf(upper) - distribution.cdf(lower)
    found[0] += distribution.cdf(lower[0])  # the first bin also takes what is below it
    found[-1] += distribution.sf(upper[-1])
    return found


def spread_of(distributions, partitions):
    lower, upper = (np.stack(edges) for edges in zip(*partitions))
    theta = np.stack([masses(d, *p) for d, p in zip(distributions, partitions)])
    return theta_spread(theta, lower, upper)


def test_spread_of_the_same_distribution_on_other_bins_is_none():
    gamma = stats.gamma(5.0, loc=100.0)
    partitions = [bins(100.0, 130.0, 200), bins(99.3, 127.0, 200), bins(100.9, 140.0, 200)]
    spread = spread_of([gamma] * 3, partitions)
    # Below 100.9 nats the distribution has 0.2 % of its mass; a bin has at most 4 %.
    assert spread.max() < 0.005
    # As vectors the thetas are far apart.
    theta = [masses(gamma, *partition) for partition in partitions]
    assert distance(theta[0], theta[2]) > 0.1


def test_spread_of_shifted_distributions():
    partitions = [bins(0.0, 30.0, 300), bins(-1.0, 29.0, 300), bins(0.5, 33.0, 300)]
    near, far = stats.norm(12.0, 2.0), stats.norm(13.0, 2.0)
    # Two normals are most different half way between: Phi(1/4) - Phi(-1/4), a third of it and two
    # thirds from the mean of three.
    apart = 2 * stats.norm.cdf(0.25) - 1
    found = spread_of([near, near, far], partitions)
    np.testing.assert_allclose(found, [apart / 3, apart / 3, 2 * apart / 3], atol=2e-4)


def test_spread_where_a_chain_begins_higher():
    """Half of the mass of one chain is below 5; the first bin of the other ends at 7, with half."""
    lower, upper = [[0.0, 5.0], [6.0, 7.0]], [[5.0, 10.0], [7.0, 10.0]]
    # What is below 6 is in that bin too, so that below 7 nothing is known.
    np.testing.assert_allclose(theta_spread([[0.5, 0.5], [0.7, 0.3]], lower, upper), [0.0, 0.0])
    # A tenth at 7 is at most a tenth at 5, where the other has a half.
    np.testing.assert_allclose(theta_spread([[0.5, 0.5], [0.1, 0.9]], lower, upper), [0.2, 0.2])


def test_spread_of_chains_at_other_energies():
    lower, upper = [[0.0, 1.0], [50.0, 51.0]], [[1.0, 2.0], [51.0, 52.0]]
    found = theta_spread([[0.9, 0.1], [0.1, 0.9]], lower, upper)
    np.testing.assert_allclose(found, [0.4, 0.4])


def test_spread_of_the_same_distribution_in_bins_that_begin_in_its_middle():
    gamma = stats.gamma(1.0)
    partitions = [bins(start, 20.0, 200) for start in (-0.1, 0.5, 1.0)]
    assert spread_of([gamma] * 3, partitions).max() < 0.01


def test_spread_against_a_fine_grid():
    rng = np.random.default_rng(3)
    partitions = [bins(rng.uniform(0, 5), rng.uniform(10, 20), 6) for _ in range(4)]
    lower, upper = (np.stack(edges) for edges in zip(*partitions))
    theta = rng.dirichlet(np.ones(6), size=4)
    grid = np.linspace(-1, 21, 200_001)
    inside = np.clip((grid[:, None, None] - lower) / (upper - lower), 0, 1)
    # The first bin is empty up to its end or full at once, the last as well.
    bounds = []
    for full in (0.0, 1.0):
        inside[..., 0] = np.where(grid[:, None] >= upper[:, 0], 1.0, full)
        inside[..., -1] = np.where(grid[:, None] <= lower[:, -1], 0.0, full)
        bounds.append((inside * theta).sum(-1))
    least, most = bounds
    apart = np.maximum(least - most.mean(1)[:, None], least.mean(1)[:, None] - most)
    expected = np.maximum(apart, 0).max(0)
    np.testing.assert_allclose(theta_spread(theta, lower, upper), expected, atol=1e-4)
    np.testing.assert_allclose(theta_spread(7 * theta, lower, upper), expected, atol=1e-4)


def test_one_chain_has_no_spread():
    assert np.isnan(theta_spread([[0.5, 0.5]], [[0, 1]], [[1, 2]])).tolist() == [True]


def test_distance_is_that_of_distribution_functions():
    rng = np.random.default_rng(1)
    one, other = rng.dirichlet(np.ones(5), size=(2, 3))
    expected = [stats_distance(a, b) for a, b in zip(one, other)]
    np.testing.assert_allclose(distance(one, other), expected, rtol=1e-12)


# --------------------------------------------------------------------------- shares


def test_counted_share_is_that_of_the_steps_between_draws():
    rng = np.random.default_rng(0)
    happened = rng.random((3, 1000)) < [[0.01], [0.2], [0.0]]
    before, every = 400, 30  # what happened in the steps of warm-up does not count
    ends = np.arange(before, 1000 + 1, every)
    counts = happened.cumsum(1)[:, ends - 1]
    expected = happened[:, ends[0] : ends[-1]].mean(1)
    found = counted_share(counts, np.broadcast_to(ends, counts.shape))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found[2] == 0.0


def test_counted_share_of_a_single_draw_is_since_the_start():
    np.testing.assert_allclose(counted_share([[5], [0]], [[200], [0]]), [0.025, 0.0])
    assert counted_share([[5, 5]], [[200, 200]]).tolist() == [0.0]


def test_end_masses():
    visits = [[[1, 2, 3, 4], [0, 0, 0, 0]], [[0, 0, 0, 5], [3, 0, 0, 0]]]
    expected = [[[0.1, 0.4], [np.nan, np.nan]], [[0.0, 1.0], [1.0, 0.0]]]
    np.testing.assert_allclose(end_masses(visits), expected)
    np.testing.assert_allclose(end_masses([0.1, 0.7, 0.2]), [0.1, 0.2])
    np.testing.assert_allclose(end_masses([[4.0]]), [[1.0, 1.0]])


def test_noise_in_bins_is_the_median_of_a_chain_over_its_own_width():
    noise = [[1.0, 100.0, 2.0, 3.0, 0.0], [5.0, 5.0, 5.0, 5.0, 80.0]]
    np.testing.assert_allclose(noise_in_bins(noise, [0.5, 10.0]), [4.0, 0.5])
    np.testing.assert_allclose(noise_in_bins([[0.0], [3.0]], [2.0, 2.0]), [0.0, 1.5])


def test_share_above():
    energy = np.random.default_rng(0).normal(10.0, 2.0, size=(2, 20_000))
    # sqrt(p (1 - p) / n) is .0026.
    np.testing.assert_allclose(share_above(energy, 12.0), 2 * [stats.norm.sf(1.0)], atol=0.011)
    assert share_above([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], 3.0).tolist() == [0.0, 1.0]


# --------------------------------------------------------------------------- what they refuse

GOOD = np.ones((2, 3))
REFUSED = {
    "visits of a vector": (
        lambda: histogram_flatness([1, 2]),
        "`visits` takes an array (chains, bins), but got (2,).",
    ),
    "visits below 0": (
        lambda: histogram_flatness([[1, -2]]),
        "`visits` takes finite counts of at least 0, but got -2.0.",
    ),
    "visits of NaN": (
        lambda: histogram_flatness([[1, np.nan]]),
        "`visits` takes finite counts of at least 0, but got nan.",
    ),
    "visits in words": (
        lambda: histogram_flatness("many"),
        "`visits` takes an array (chains, bins) of numbers, but got 'many'.",
    ),
    "no visits": (
        lambda: histogram_flatness(np.empty((2, 0))),
        "`visits` takes an array (chains, bins), but got (2, 0).",
    ),
    "lowest": (
        lambda: round_trips([1, 2], GOOD, 0, 1),
        "`lowest` takes an array (chains, draws), but got (2,).",
    ),
    "highest": (
        lambda: round_trips(GOOD, [1, 2], 0, 1),
        "`highest` takes an array (chains, draws), but got (2,).",
    ),
    "highest of another shape": (
        lambda: round_trips(GOOD, np.ones((2, 4)), 0, 1),
        "`highest` takes an array of the shape of `lowest`, (2, 3), but got (2, 4).",
    ),
    "high is low": (
        lambda: round_trips(GOOD, GOOD, np.float64(2), np.float64(2)),
        "`high` takes a number above `low`, 2.0, but got 2.0.",
    ),
    "high is NaN": (
        lambda: round_trips(GOOD, GOOD, 2, np.nan),
        "`high` takes a number above `low`, 2.0, but got nan.",
    ),
    "theta of one chain": (
        lambda: theta_drift(GOOD),
        "`theta` takes an array (chains, draws, bins), but got (2, 3).",
    ),
    "theta without draws": (
        lambda: theta_spread([0.5, 0.5], GOOD, GOOD),
        "`theta` takes an array (chains, bins), but got (2,).",
    ),
    "lower": (
        lambda: theta_spread(GOOD, np.ones((2, 2)), GOOD),
        "`lower` takes edges of the shape of `theta`, (2, 3), but got (2, 2).",
    ),
    "upper": (
        lambda: theta_spread(GOOD, GOOD, np.ones((1, 3))),
        "`upper` takes edges of the shape of `theta`, (2, 3), but got (1, 3).",
    ),
    "counts": (
        lambda: counted_share([1], [[2]]),
        "`counts` takes an array (chains, draws), but got (1,).",
    ),
    "steps": (
        lambda: counted_share(GOOD, [[2]]),
        "`steps` takes an array of the shape of `counts`, (2, 3), but got (1, 1).",
    ),
    "no bins": (
        lambda: end_masses(np.empty((2, 0))),
        "`theta` takes an array (..., bins), but got (2, 0).",
    ),
    "a number for bins": (
        lambda: end_masses(1.0),
        "`theta` takes an array (..., bins), but got ().",
    ),
    "noise": (
        lambda: noise_in_bins([1.0], [1.0]),
        "`noise` takes an array (chains, draws), but got (1,).",
    ),
    "width": (
        lambda: noise_in_bins(GOOD, np.ones((2, 1))),
        "`width` takes an array (chains,), but got (2, 1).",
    ),
    "a width of fewer chains": (
        lambda: noise_in_bins(GOOD, [1.0]),
        "`width` takes a width for each of 2 chains, but got (1,).",
    ),
    "energy": (
        lambda: share_above([1.0], 0.0),
        "`energy` takes an array (chains, draws), but got (1,).",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    call, message = REFUSED[case]
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message
