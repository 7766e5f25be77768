"""Log importance weights of several chains: their checks, normalisers and evenness."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from numpyro_contour import checks


class NormalisedWeights(NamedTuple):
    """Weights of mean 1 in each chain, and what they were divided by."""

    #: log weights, (chains, draws); -inf for a weight of 0
    log_weights: np.ndarray
    #: log of each chain's mean weight before, (chains,)
    log_normalisers: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """The weights themselves, (chains, draws)."""
        return np.exp(self.log_weights)


def normalise(log_weights: Any) -> NormalisedWeights:
    r"""Normalise the weights of each chain to mean 1, before chains are pooled.

    .. math:: \log \bar w_{cd} = \log w_{cd} - \log Z_c, \qquad Z_c = \frac1D \sum_d w_{cd}

    A chain's weights are known up to a constant of the chain's own theta and energy partition.
    Pooled as they are they would count the chains in proportion to those constants.

    Args:
        log_weights: log importance weights, (chains, draws), each finite or -inf.

    Returns:
        `NormalisedWeights`: the log weights and the log normalisers :math:`\log Z_c`, (chains,).

    Raises:
        ValueError: the shape is not (chains, draws), a weight is NaN or infinite, or a chain has
            no weight at all.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import normalise
        >>> normalised = normalise(np.log([[1.0, 3.0], [10.0, 30.0]]))
        >>> normalised.weights.round(2).tolist()
        [[0.5, 1.5], [0.5, 1.5]]
        >>> np.exp(normalised.log_normalisers).round(2).tolist()
        [2.0, 20.0]
    """
    array = checked_log_weights(log_weights)
    found = normalised(array)
    if np.isneginf(found.log_normalisers).any():
        chain = int(np.argmin(found.log_normalisers))
        raise ValueError(
            f"`log_weights` takes chains with at least one finite log weight, but all "
            f"{array.shape[1]} of chain {chain} are -inf: every one of its moves was refused, or "
            "made while a cycle explored."
        )
    return found


def normalised(log_weights: np.ndarray) -> NormalisedWeights:
    """As `normalise`; a chain without any weight stays so, and its log normaliser is -inf."""
    highest = log_weights.max(1, keepdims=True)
    # Differences first: large log weights have no digits left for those of a mean.
    above = log_weights - np.where(np.isfinite(highest), highest, 0.0)
    mean = logsumexp(above, axis=1) - np.log(log_weights.shape[1])
    shift = np.where(np.isfinite(mean), mean, 0.0)[:, None]
    log_normalisers = np.where(np.isfinite(mean), mean + highest[:, 0], -np.inf)
    return NormalisedWeights(above - shift, log_normalisers)


def checked_log_weights(log_weights: Any) -> np.ndarray:
    """Log weights as a float64 array (chains, draws) without NaN and +inf.

    Raises:
        ValueError: as `normalise`, but chains without weight pass.
    """
    takes = "an array (chains, draws) of log weights, finite or -inf"
    try:
        array = np.asarray(log_weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise checks.fail("log_weights", log_weights, takes) from None
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"`log_weights` takes {takes}, but got the shape {array.shape}.")
    unusable = np.isnan(array) | np.isposinf(array)
    if unusable.any():
        chain, draw = np.argwhere(unusable)[0]
        raise ValueError(
            f"`log_weights` takes {takes}, but got {array[chain, draw]} at chain {chain}, draw "
            f"{draw} (and {unusable.sum() - 1} more)."
        )
    return array


def kish_share(log_weights: Any) -> float:
    r"""The share of the draws that uneven weights leave, 1 for even ones.

    .. math:: \frac{(\sum_i w_i)^2}{n \sum_i w_i^2}

    Correlation between draws does not enter; `weighted_ess` counts both.

    Args:
        log_weights: log importance weights, (chains, draws); each chain is normalised first.

    Returns:
        A number above 0 and at most 1.

    Raises:
        ValueError: as `normalise`.

    Source: Kish (1965).

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import kish_share
        >>> round(kish_share(np.log([[1.0, 1.0, 2.0, 4.0]])), 3)
        0.727
    """
    weights = normalise(log_weights).weights
    return float(weights.sum() ** 2 / (weights**2).sum() / weights.size)
