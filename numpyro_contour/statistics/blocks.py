"""Draws of several scalars at once, in blocks of bounded memory.

What several statistics need of the same draws, their ranks above all, is computed once for a block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np

from numpyro_contour.statistics.crossings import error_of_visits
from numpyro_contour.statistics.effective_sizes import effective_sizes
from numpyro_contour.statistics.ranked import Ranked

# Numbers of a block: 4 MiB, of which the statistics hold some ten copies.
_NUMBERS = 2**19


class Block:
    """Weighted draws of several scalars.

    Args:
        x: draws, (chains, draws, scalars), numbers of any kind.
        weights: their weights, (chains, draws), each chain's of mean 1.
    """

    def __init__(self, x: np.ndarray, weights: np.ndarray):
        #: the kind of the numbers before they became float64
        self.dtype = x.dtype
        #: the draws, (scalars, chains, draws)
        self.values = np.ascontiguousarray(np.moveaxis(x, -1, 0), dtype=np.float64)
        #: their weights, (chains, draws)
        self.weights = weights

    @cached_property
    def mean(self) -> np.ndarray:
        """The weighted means, (scalars,)."""
        return mean(self.values, self.weights)

    @cached_property
    def sd(self) -> np.ndarray:
        """The weighted standard deviations, (scalars,)."""
        return np.sqrt(variance(self.values, self.weights))

    @cached_property
    def influence(self) -> np.ndarray:
        """What each draw adds to the error of the mean, w (x - mean), (scalars, chains, draws)."""
        found = self.values - self.mean[:, None, None]
        found *= self.weights
        return found

    @cached_property
    def influence_size(self) -> np.ndarray:
        """The effective sample sizes of the influences, (scalars,)."""
        return effective_sizes(split(self.influence))

    @cached_property
    def error_of_visits(self) -> np.ndarray:
        """The errors of the means that the trips between modes leave, (scalars,)."""
        ranked = self.ranked
        found = [
            error_of_visits(x, self.weights, (values, weights))
            for x, values, weights in zip(self.values, ranked.values, ranked.weights)
        ]
        return np.array(found)

    @cached_property
    def ranked(self) -> Ranked:
        """The draws in rising order."""
        return Ranked.of(self.values.reshape(len(self.values), -1), self.weights.ravel())

    @cached_property
    def median(self) -> np.ndarray:
        """The weighted medians, (scalars,)."""
        return self.ranked.quantiles(np.array(0.5))

    @cached_property
    def halves(self) -> Block:
        """The halves of the chains; the middle one of an odd number of draws is left out."""
        weights = split(self.weights[None])[0]
        found = object.__new__(Block)
        found.dtype = self.dtype
        found.values = split(self.values)
        found.weights = weights / weights.mean()
        if weights.size == self.weights.size:  # the same draws in the same order
            found.ranked = self.ranked
        return found

    @cached_property
    def normal_scores(self) -> np.ndarray:
        """Normal scores by weighted ranks, (scalars, chains, draws)."""
        return self.ranked.normal_scores(self.weights.size).reshape(self.values.shape)

    @property
    def normal_scores_of_distances(self) -> np.ndarray:
        """Those of the distances from the median, (scalars, chains, draws)."""
        away = self.ranked.distances(self.median)
        return away.normal_scores(self.weights.size).reshape(self.values.shape)


def blocks(x: np.ndarray, weights: np.ndarray) -> Iterator[Block]:
    """The scalars of draws (chains, draws, ...), block by block.

    Args:
        x: draws, (chains, draws, ...).
        weights: their weights, (chains, draws), each chain's of mean 1.
    """
    columns = x.reshape(*x.shape[:2], -1)
    number = max(1, _NUMBERS // max(weights.size, 1))
    for begin in range(0, columns.shape[2], number):
        yield Block(columns[..., begin : begin + number], weights)


def in_blocks(
    function: Callable[[Block], np.ndarray], x: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """`function(block)`, (scalars, ...), of all scalars in (chains, draws, ...)."""
    found = [function(block) for block in blocks(x, weights)]
    if not found:
        return np.empty(x.shape[2:])
    return np.concatenate(found).reshape(x.shape[2:] + found[0].shape[1:])


def split(x: np.ndarray) -> np.ndarray:
    """The halves of chains, (..., chains, draws) to (..., 2 chains, draws // 2)."""
    half = x.shape[-1] // 2
    if x.shape[-1] % 2:
        return np.concatenate([x[..., :half], x[..., -half:]], -2)
    return x.reshape(*x.shape[:-2], 2 * x.shape[-2], half)


def mean(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weighted mean of each scalar in (scalars, chains, draws)."""
    return (weights * values).mean((-2, -1))


def variance(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The unbiased variance for independent draws; that with ddof=1 on equal weights."""
    total = weights.sum()
    freedom = total - (weights**2).sum() / total
    away = values - mean(values, weights)[..., None, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return mean(away**2, weights) * total / freedom
