"""Mean, spread, quantiles and intervals of weighted draws.

On equal weights each is the number that NumPy and ArviZ give for plain draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numpyro_contour import checks
from numpyro_contour.statistics.blocks import Block, in_blocks
from numpyro_contour.statistics.weights import normalise


def checked(x: Any, log_weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Draws, numbers of any kind (chains, draws, ...), and weights of mean 1 in each chain.

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
    return array, weights


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
    return in_blocks(lambda block: block.mean, *checked(x, log_weights))


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
    return in_blocks(lambda block: block.sd, *checked(x, log_weights))


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
    return in_blocks(lambda block: block.ranked.quantiles(levels), array, weights)


def quantiles(x: np.ndarray, weights: np.ndarray, levels: Sequence[float]) -> np.ndarray:
    """Quantiles of one scalar variable, (chains, draws)."""
    return Block(x[..., None], weights).ranked.quantiles(np.asarray(levels))[0]


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
    return in_blocks(lambda block: block.ranked.narrowest(number), array, weights)


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
    return in_blocks(mad, *checked(x, log_weights))


def mad(block: Block) -> np.ndarray:
    """The median absolute deviations, (scalars,)."""
    return block.ranked.distances(block.median).quantiles(np.array(0.5))
