"""Quick looks at which of many variables are the worst, so that exact figures are made of few."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from numpyro_contour.statistics.blocks import Block, blocks

#: exact figures are computed for this many variables, the worst by a quick look
LOOKED_AT = 30


class Looks(NamedTuple):
    """Figures of many variables that are good enough to rank them, each (variables,)."""

    #: effective sample sizes of the draws, whatever their weights
    sizes: np.ndarray
    #: effective sample sizes for the weighted mean, or standard deviation if that is less
    weighted_sizes: np.ndarray
    #: the variance of the chains' means over that within the chains
    rhat: np.ndarray
    #: the weighted variance within each chain, (variables, chains)
    variances: np.ndarray


def quick_looks(values: np.ndarray, weights: np.ndarray) -> Looks:
    """Quick figures of all variables, in one pass of bounded memory.

    Args:
        values: draws, (chains, draws, variables).
        weights: their weights, (chains, draws), each chain's of mean 1.
    """
    found = [_looks_of(block) for block in blocks(values, weights)]
    return Looks(*[np.concatenate(of_blocks) for of_blocks in zip(*found)])


def _looks_of(block: Block) -> Looks:
    weights = block.weights
    influence = block.values - block.mean[:, None, None]
    squares = influence**2
    squares -= (weights * squares).mean((1, 2))[:, None, None]
    means = (weights * block.values).mean(2)
    variances = (weights * (block.values - means[..., None]) ** 2).mean(2)
    return Looks(
        _sizes(block.values),
        np.minimum(_sizes(weights * influence), _sizes(weights * squares)),
        means.var(1) / np.maximum(variances.mean(1), 1e-300),
        variances,
    )


def quick_sizes(values: np.ndarray) -> np.ndarray:
    """Effective sample sizes of many variables by batch means, (chains, draws, variables)."""
    even = np.ones(values.shape[:2])
    return np.concatenate([_sizes(block.values) for block in blocks(values, even)])


def _sizes(values: np.ndarray) -> np.ndarray:
    """Effective sample sizes by batch means, of (variables, chains, draws)."""
    variables, chains, draws = values.shape
    batch = max(2, int(draws**0.5))
    count = draws // batch
    kept = values[..., : count * batch]
    batches = kept.reshape(variables, chains, count, batch).mean(3)
    return (count * values.var(2) / np.maximum(batches.var(2), 1e-300)).sum(1)
