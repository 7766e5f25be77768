"""How the coordinates of weighted draws hang together, as far as it makes chains slow."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats

# An eigenvalue of a correlation matrix below this is rounding.
_LEAST = 1e-12


class Slowdown(NamedTuple):
    """The direction that chains with a scale for each coordinate need longest to cross."""

    #: K, 1 over the least eigenvalue of the precision matrix scaled to a diagonal of ones
    factor: float
    #: how much each coordinate takes part, (d,), of length 1
    direction: np.ndarray


def correlations(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The correlations of the coordinates within the chains, (d, d).

    Args:
        values: draws, (chains, draws, d).
        weights: their weights, (chains, draws), each chain's of mean 1.
    """
    products = np.zeros((values.shape[-1],) * 2)
    for x, of_chain in zip(values, weights):
        away = x - (of_chain[:, None] * x).mean(0)
        products += (of_chain[:, None] * away).T @ away
    scales = np.sqrt(np.maximum(np.diag(products), 1e-300))
    return products / scales / scales[:, None]


def slowdown(correlation: np.ndarray) -> Slowdown:
    r"""By how much correlation slows chains down whatever the scales of the coordinates.

    .. math:: K = 1 / \lambda_{\min}\bigl(D^{-1/2} R^{-1} D^{-1/2}\bigr), \qquad
              D = \operatorname{diag} R^{-1}

    Args:
        correlation: R, (d, d).

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.statistics.dependence import slowdown
        >>> found = slowdown(np.array([[1.0, 0.0, 0.99], [0.0, 1.0, 0.0], [0.99, 0.0, 1.0]]))
        >>> round(found.factor), np.abs(found.direction).round(2).tolist()
        (100, [0.71, 0.0, 0.71])
    """
    values, vectors = np.linalg.eigh(correlation)
    precision = (vectors / np.maximum(values, _LEAST)) @ vectors.T
    scale = 1 / np.sqrt(np.diag(precision))
    least, directions = np.linalg.eigh(scale[:, None] * precision * scale)
    return Slowdown(float(1 / max(least[0], _LEAST)), directions[:, 0])


def rank_correlation(one: np.ndarray, other: np.ndarray, weights: np.ndarray) -> float:
    """The correlation of two scalars by their ranks, weights counted; 0 or NaN of a constant."""
    ranks = [stats.rankdata(x) for x in (one, other)]
    share = weights / weights.sum()
    a, b = (rank - share @ rank for rank in ranks)
    both = np.sqrt((share @ a**2) * (share @ b**2))
    return float(share @ (a * b) / both) if both > 0 else float("nan")
