"""Mean, spread, quantiles and intervals of weighted draws.

On equal weights each is the number that NumPy and ArviZ give for plain draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from numpyro_contour import checks
from numpyro_contour.statistics.weights import normalise


def checked(x: Any, log_weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Draws as floats, (chains, draws, ...), and weights of mean 1 in each chain.

    Raises:
        ValueError: as `normalise`, or the shapes do not fit.
    """
    weights = normalise(log_weights).weights
    array = np.asarray(x)
    if array.dtype.kind not in "biuf" or array.shape[:2] != weights.shape:
        raise ValueError(
            f"`x` takes numbers of a shape that begins with (chains, draws) = {weights.shape}, "
            f"the shape of `log_weights`, but got {array.dtype} of shape {array.shape}."
        )
    return array.astype(np.float64), weights


def for_each_scalar(function: Callable, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """`function(x, weights)` of every scalar variable in (chains, draws, ...), which stays last."""
    shape = x.shape[2:]
    columns = x.reshape(*x.shape[:2], -1)
    values = [np.asarray(function(columns[:, :, i], weights)) for i in range(columns.shape[2])]
    if not values:
        return np.empty(shape)
    return np.stack(values).reshape(shape + values[0].shape)


def weighted_mean(x: Any, log_weights: Any) -> np.ndarray:
    r"""The mean under the posterior: the average of the chains' ratio estimates.

    .. math:: \hat\mu = \frac1C \sum_c \frac{\sum_d w_{cd} x_{cd}}{\sum_d w_{cd}}

    Args:
        x: draws, (chains, draws, ...).
        log_weights: log importance weights, (chains, draws).

    Returns:
        An array of the shape of one draw.

    Raises:
        ValueError: as `normalise`, or the shapes do not fit.

    Source: Deng, Lin and Liang (2020), Theorem 2, for one chain.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import weighted_mean
        >>> float(weighted_mean([[1.0, 2.0], [1.0, 2.0]], np.log([[1.0, 3.0], [1.0, 1.0]])))
        1.625
    """
    array, weights = checked(x, log_weights)
    return _mean(array, weights)


def _mean(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return (x * weights.reshape(weights.shape + (1,) * (x.ndim - 2))).mean(axis=(0, 1))


def variance(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The unbiased variance for independent draws; that with ddof=1 on equal weights."""
    total = weights.sum()
    freedom = total - (weights**2).sum() / total
    with np.errstate(divide="ignore", invalid="ignore"):
        return _mean((x - _mean(x, weights)) ** 2, weights) * total / freedom


def weighted_sd(x: Any, log_weights: Any) -> np.ndarray:
    r"""The standard deviation under the posterior.

    .. math:: \hat\sigma^2 = \frac{\sum_i w_i (x_i - \hat\mu)^2}{S - \sum_i w_i^2 / S},
              \qquad S = \sum_i w_i

    Args:
        x: draws, (chains, draws, ...).
        log_weights: log importance weights, (chains, draws).

    Returns:
        An array of the shape of one draw; with `ddof=1` on equal weights.

    Raises:
        ValueError: as `weighted_mean`.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import weighted_sd
        >>> float(weighted_sd([[0.0, 2.0, 4.0]], np.zeros((1, 3))))
        2.0
    """
    return np.sqrt(variance(*checked(x, log_weights)))


def weighted_quantile(x: Any, log_weights: Any, probs: float | Sequence[float]) -> np.ndarray:
    r"""Quantiles under the posterior.

    Sorted draw k stands at :math:`p_k = (C_k - C_1) / (C_n - C_1)` with
    :math:`C_k = \sum_{j < k} w_j + w_k / 2`; between draws one interpolates. On equal weights that
    is NumPy's "linear" method.

    Args:
        x: draws, (chains, draws, ...).
        log_weights: log importance weights, (chains, draws).
        probs: one probability or several, in [0, 1].

    Returns:
        An array (..., probs) whose first axes are those of one draw; of the shape of one draw for a
        single probability.

    Raises:
        ValueError: as `weighted_mean`, or a probability is outside [0, 1].

    Source: Hyndman and Fan (1996), type 7, on equal weights.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import weighted_quantile
        >>> x, weights = [[1.0, 2.0, 3.0]], [[1.0, 1.0, 2.0]]
        >>> weighted_quantile(x, np.log(weights), [0.0, 0.5, 1.0]).round(2).tolist()
        [1.0, 2.17, 3.0]
    """
    array, weights = checked(x, log_weights)
    levels = np.asarray(probs, dtype=np.float64)
    if levels.ndim > 1 or not ((levels >= 0) & (levels <= 1)).all():
        raise checks.fail("probs", probs, "probabilities from 0 to 1")
    return for_each_scalar(lambda one, w: quantiles(one, w, levels), array, weights)


def quantiles(x: np.ndarray, weights: np.ndarray, levels: Any) -> np.ndarray:
    """Quantiles of one scalar variable."""
    if np.isnan(x).any():
        return np.full(np.shape(levels), np.nan)
    values, ranked = ranked_draws(x, weights)
    middle = np.cumsum(ranked) - ranked / 2
    middle -= middle[0]
    if middle[-1] == 0:
        return np.full(np.shape(levels), values[0])
    return np.interp(np.asarray(levels) * middle[-1], middle, values)


def ranked_draws(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The draws that have weight, in rising order, and their weights."""
    flat, ranked = x.ravel(), weights.ravel()
    flat, ranked = flat[ranked > 0], ranked[ranked > 0]
    order = np.argsort(flat, kind="stable")
    return flat[order], ranked[order]


def weighted_eti(x: Any, log_weights: Any, prob: float = 0.94) -> np.ndarray:
    r"""The equal-tailed interval: the quantiles :math:`(1 - p) / 2` and :math:`(1 + p) / 2`.

    Args:
        x: draws, (chains, draws, ...).
        log_weights: log importance weights, (chains, draws).
        prob: probability p inside, in (0, 1]. Defaults to 0.94.

    Returns:
        An array (..., 2), lower and upper ends.

    Raises:
        ValueError: as `weighted_mean`, or `prob` is outside (0, 1].

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import weighted_eti
        >>> weighted_eti(np.arange(101.0)[None], np.zeros((1, 101)), prob=0.9).round(6).tolist()
        [5.0, 95.0]
    """
    tail = (1 - checked_prob(prob)) / 2
    return weighted_quantile(x, log_weights, [tail, 1 - tail])


def checked_prob(prob: float) -> float:
    """The probability inside an interval."""
    number = checks.number("prob", prob)
    if not 0 < number <= 1:
        raise checks.fail("prob", prob, "a probability above 0 and at most 1")
    return number


def weighted_hdi(x: Any, log_weights: Any, prob: float = 0.94) -> np.ndarray:
    r"""The highest density interval: the narrowest one whose draws weigh more than `prob` in all.

    .. math:: \min_{i \le j} \bigl(x_{(j)} - x_{(i)}\bigr) \quad \text{such that} \quad
              \sum_{k = i}^j w_{(k)} > p \sum_k w_k

    over the draws in rising order; with p = 1 all of them. It is one interval also where the
    posterior has several modes: look at the draws then.

    Args:
        x: draws, (chains, draws, ...).
        log_weights: log importance weights, (chains, draws).
        prob: probability p inside, in (0, 1]. Defaults to 0.94.

    Returns:
        An array (..., 2), lower and upper ends, which are draws.

    Raises:
        ValueError: as `weighted_eti`.

    Source: Chen and Shao (1999), on equal weights.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import weighted_hdi
        >>> weighted_hdi([[0.0, 1.0, 2.0, 10.0]], np.log([[1.0, 2.0, 2.0, 1.0]]), 0.6).tolist()
        [1.0, 2.0]
    """
    array, weights = checked(x, log_weights)
    number = checked_prob(prob)
    return for_each_scalar(lambda one, w: hdi(one, w, number), array, weights)


def hdi(x: np.ndarray, weights: np.ndarray, prob: float) -> np.ndarray:
    """The highest density interval of one scalar variable, (2,)."""
    if np.isnan(x).any():
        return np.full(2, np.nan)
    values, ranked = ranked_draws(x, weights)
    reached = np.cumsum(ranked)
    below = np.concatenate([[0.0], reached[:-1]])
    last = np.searchsorted(reached, prob * reached[-1] + below, side="right")
    # An interval that would need more weight than there is does not exist, but for all the draws.
    last[0] = min(last[0], len(values) - 1)
    first = np.flatnonzero(last < len(values))
    widths = values[last[first]] - values[first]
    narrowest = first[np.argmin(widths)]
    return np.array([values[narrowest], values[last[narrowest]]])


def weighted_mad(x: Any, log_weights: Any) -> np.ndarray:
    r"""The median absolute deviation :math:`\operatorname{med} |x - \operatorname{med} x|`.

    Args:
        x: draws, (chains, draws, ...).
        log_weights: log importance weights, (chains, draws).

    Returns:
        An array of the shape of one draw.

    Raises:
        ValueError: as `weighted_mean`.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import weighted_mad
        >>> float(weighted_mad([[0.0, 1.0, 2.0, 9.0, 3.0]], np.zeros((1, 5))))
        1.0
    """
    median = weighted_quantile(x, log_weights, 0.5)
    return weighted_quantile(np.abs(np.asarray(x, np.float64) - median), log_weights, 0.5)
