"""Quick looks at which of many variables are the worst, so that exact figures are made of few."""

from __future__ import annotations

import numpy as np

#: exact figures are computed for this many variables, the worst by a quick look
LOOKED_AT = 30


def quick_sizes(values: np.ndarray) -> np.ndarray:
    """Effective sample sizes of many variables by batch means; good enough to rank them."""
    draws = values.shape[1]
    batch = max(2, int(draws**0.5))
    count = draws // batch
    batches = values[:, : count * batch].reshape(len(values), count, batch, -1).mean(2)
    within = values.var(1)
    return (count * within / np.maximum(batches.var(1), 1e-300)).sum(0)


def quick_rhat(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The variance of the chains' means over that within the chains, of many variables."""
    means = (weights[..., None] * values).mean(1)
    squares = (weights[..., None] * (values - means[:, None]) ** 2).mean((0, 1))
    return means.var(0) / np.maximum(squares, 1e-300)
