"""Are ranks uniform? Envelopes of their distribution function, and p-values to match."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.stats import binom

from benchmarks.calibration.ranks import AMONG

#: values of a rank
VALUES = AMONG + 1
#: sets of uniform ranks that p-values and envelopes are simulated from
SIMULATED = 10_000
#: places at which distribution functions are compared: a rank is below i with probability i / 100
PLACES = np.arange(1, VALUES) / VALUES


def shares_below(ranks: Sequence[int]) -> np.ndarray:
    """The share of the ranks that are below 1, 2, ..., which is `PLACES` if they are uniform."""
    return _counts_below(np.asarray(ranks)[None])[0] / len(ranks)


def _counts_below(ranks: np.ndarray) -> np.ndarray:
    """How many of the ranks in each row are below 1, 2, ..., (rows, places)."""
    rows = np.arange(len(ranks))[:, None]
    places = (rows * VALUES + ranks).ravel()
    each = np.bincount(places, minlength=len(ranks) * VALUES).reshape(-1, VALUES)
    return each.cumsum(1)[:, :-1]


@lru_cache
def _tails(number: int) -> np.ndarray:
    """By count and place twice the smaller tail of the binomial distribution, (counts, places)."""
    counts = np.arange(number + 1)[:, None]
    below, above = binom.cdf(counts, number, PLACES), binom.sf(counts - 1, number, PLACES)
    return 2 * np.minimum(below, above)


def gammas(ranks: np.ndarray) -> np.ndarray:
    """The statistic of each row of ranks: the least of the two-sided tails over all places.

    Source: Säilynoja, Bürkner and Vehtari (2022), equation (7), at fixed places.
    """
    counts = _counts_below(ranks)
    return _tails(ranks.shape[1])[counts, np.arange(VALUES - 1)].min(1)


@lru_cache
def _of_uniform(number: int) -> np.ndarray:
    """The statistic of sets of so many uniform ranks, sorted."""
    rng = np.random.default_rng(2022)
    drawn = (rng.integers(VALUES, size=(1000, number)) for _ in range(SIMULATED // 1000))
    return np.sort(np.concatenate([gammas(ranks) for ranks in drawn]))


def p_value(ranks: Sequence[int]) -> float:
    """How often so many uniform ranks stray as far from the diagonal anywhere, at least 1 / 10,001.

    It is below 0.05 where the distribution function leaves an envelope of 95 %.
    """
    null = _of_uniform(len(ranks))
    farther = np.searchsorted(null, gammas(np.asarray(ranks)[None])[0], side="right")
    return (1 + int(farther)) / (1 + SIMULATED)


def p_of_model(ranks: dict[str, list[int]]) -> float:
    """The least p-value of its quantities times their number (Bonferroni), at most 1."""
    return min(1.0, len(ranks) * min(map(p_value, ranks.values())))


@lru_cache
def envelope(number: int, probability: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Where the shares below each place are, all at once, with this probability, by ArviZ."""
    rng = np.random.default_rng(0)
    try:
        from arviz.stats.ecdf_utils import ecdf_confidence_band
    except ImportError:  # arviz 1.x
        from arviz_stats import ecdf_utils

        each = ecdf_utils.simulate_confidence_bands(number, 1, PLACES, probability, 2000, rng)
        return ecdf_utils.get_pointwise_confidence_band(each, number, PLACES)
    uniform = lambda size, random_state: random_state.random(size)
    return ecdf_confidence_band(
        number,
        PLACES,
        PLACES,
        probability,
        "simulated",
        rvs=uniform,
        num_trials=2000,
        random_state=rng,
    )
