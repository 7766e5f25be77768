"""The tail of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from numpyro_contour.statistics.arviz_versions import pareto_shape
from numpyro_contour.statistics.blocks import split
from numpyro_contour.statistics.effective_sizes import effective_sizes
from numpyro_contour.statistics.weights import normalise


def pareto_khat(log_weights: Any) -> float:
    r"""The shape k of the right tail of the weights, by Pareto smoothed importance sampling.

    .. math:: P(w > u + y \mid w > u) \approx (1 + k y / \sigma)^{-1 / k}

    for the largest weights, those above u. Below 0.7 the weighted means can be trusted to have
    errors of the size that is reported; from 1 on the mean of the weights themselves is not finite.

    Args:
        log_weights: log importance weights, (chains, draws); each chain is normalised first.

    Returns:
        k-hat; -inf for weights that are equal in the tail, which has then no shape; NaN where fewer
        than 25 draws have weight.

    Raises:
        ValueError: as `normalise`.

    Source: Vehtari et al. (2024), as ArviZ computes it.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import pareto_khat
        >>> x = np.random.default_rng(0).normal(size=(4, 1000))
        >>> bool(pareto_khat(0.3 * x) < 0.5), bool(pareto_khat(1.5 * x**2) > 0.7)
        (True, True)
    """
    normalised = normalise(log_weights)
    weights = normalised.weights
    flat = normalised.log_weights[np.isfinite(normalised.log_weights)]
    if flat.size < 25:  # a fifth of them is the tail, and a shape needs 5
        return float("nan")
    efficiency = 1.0
    if weights.shape[1] >= 4:
        size = effective_sizes(split(weights[None]))[0]
        efficiency = min(size / weights.size, 1.0)
    tail = int(np.ceil(min(flat.size / 5, 3 * np.sqrt(flat.size / efficiency))))
    largest = np.sort(flat)[-tail - 1 :]
    if largest[-1] - largest[0] < 1e-10:
        return float("-inf")
    return pareto_shape(flat, efficiency)
