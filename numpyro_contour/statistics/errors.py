"""Monte Carlo errors, effective sample sizes, R-hat and the tail of the weights.

On equal weights each number is the one that ArviZ gives for plain draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

from numpyro_contour import checks
from numpyro_contour.statistics.arviz_versions import effective_sample_size, pareto_shape
from numpyro_contour.statistics.crossings import error_of_visits
from numpyro_contour.statistics.estimates import (
    checked,
    for_each_scalar,
    quantiles,
    ranked_draws,
    variance,
)
from numpyro_contour.statistics.weights import normalise

_ESS_METHODS = ("bulk", "tail", "mean", "sd", "median", "quantile")
_MCSE_METHODS = ("mean", "sd", "median", "quantile")


def weighted_mcse(
    x: Any, log_weights: Any, method: str = "mean", prob: float | None = None
) -> np.ndarray:
    r"""The Monte Carlo standard error of an estimate from weighted, autocorrelated chains.

    The estimate is a ratio, and its error to first order is that of the plain mean of

    .. math:: h_{cd} = w_{cd} (x_{cd} - \hat\mu), \qquad
              \mathrm{MCSE}^2 = \widehat{\mathrm{var}}(h) / \mathrm{ESS}(h)

    with the weights of each chain normalised to mean 1, so that a chain's mean of h is the
    deviation of the chain's own ratio, and ESS(h) is ArviZ's, with autocorrelation and the spread
    between chains in it.

    Where the draws lie in modes between which the chains seldom went, autocorrelations say too
    little: the error of a mean is then at least what the number of round trips leaves unknown about
    the modes' weights, and NaN where there was none.

    Args:
        x: draws, (chains, draws, ...).
        log_weights: log importance weights, (chains, draws).
        method: "mean" (default), "sd", "median" or "quantile".
        prob: which quantile, in (0, 1), for "quantile". None (default) for the other methods.

    Returns:
        An array of the shape of one draw; NaN with fewer than 4 draws a chain, and where there are
        two modes without a round trip between them.

    Raises:
        ValueError: as `weighted_mean`, or `method` or `prob` is unknown.

    Source: the delta method for ratio estimators (Owen 2013, section 9.2); Vehtari et al. (2021)
    for the effective sample size.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import weighted_mcse
        >>> x = np.random.default_rng(0).normal(1.0, 1.0, (4, 1000))  # for N(0, 1): w = exp(-x)
        >>> round(float(weighted_mcse(x, -x)), 2)
        0.04
    """
    checks.one_of("method", method, _MCSE_METHODS)
    level = _checked_level(method, prob)
    functions = {
        "mean": _mcse_with_visits,
        "sd": _mcse_of_sd,
        "median": lambda one, w: _mcse_of_quantile(one, w, level),
        "quantile": lambda one, w: _mcse_of_quantile(one, w, level),
    }
    return for_each_scalar(_guarded(functions[method]), *checked(x, log_weights))


def weighted_ess(x: Any, log_weights: Any, method: str = "bulk", prob: Any = None) -> np.ndarray:
    r"""How many independent, equally weighted draws would estimate as precisely.

    .. math:: \mathrm{ESS} = \widehat{\mathrm{var}}_w(f) / \mathrm{MCSE}(f)^2

    for f = x ("mean"), its squared deviation ("sd"), its normal scores by weighted ranks
    ("bulk"), or the indicator of a quantile ("quantile", "median"; "tail" is the smaller of two).
    For "mean" the round trips between modes count as in `weighted_mcse`.

    Args:
        x: draws, (chains, draws, ...).
        log_weights: log importance weights, (chains, draws).
        method: "bulk" (default), "tail", "mean", "sd", "median" or "quantile".
        prob: the quantile, in (0, 1), for "quantile"; the two quantiles, for "tail". None (default)
            for (0.05, 0.95), and for the other methods.

    Returns:
        An array of the shape of one draw; NaN with fewer than 4 draws a chain.

    Raises:
        ValueError: as `weighted_mean`, or `method` or `prob` is unknown.

    Source: Vehtari et al. (2021), on the linearised ratio.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import weighted_ess
        >>> x = np.random.default_rng(0).normal(1.0, 1.0, (4, 1000))  # for N(0, 1): w = exp(-x)
        >>> bool(500 < weighted_ess(x, -x, method="mean") < 2000)
        True
    """
    checks.one_of("method", method, _ESS_METHODS)
    if method == "tail":
        levels = (0.05, 0.95) if prob is None else tuple(_level(p) for p in prob)
    else:
        levels = (_checked_level(method, prob),)
    of_levels = lambda one, w: min(_ess_of_quantile(one, w, level) for level in levels)
    functions = {
        "bulk": _ess_of_bulk,
        "mean": _ess_with_visits,
        "sd": lambda one, w: ess_of_mean((one - (w * one).mean()) ** 2, w),
        "median": of_levels,
        "quantile": of_levels,
        "tail": of_levels,
    }
    return for_each_scalar(_guarded(functions[method]), *checked(x, log_weights))


def weighted_rhat(x: Any, log_weights: Any) -> np.ndarray:
    r"""Rank-normalised split R-hat of weighted draws.

    .. math:: \hat R = \sqrt{\frac{D - 1}{D} + \frac{\mathrm{var}_c(\hat\mu_c)}
              {\frac1C \sum_c \hat\sigma_c^2}}

    over half chains of D draws, each with its own weighted mean and variance of the normal scores
    by weighted ranks; the larger of that and the same for the distances from the median.

    Args:
        x: draws, (chains, draws, ...).
        log_weights: log importance weights, (chains, draws).

    Returns:
        An array of the shape of one draw: near 1 where chains agree. NaN for a single chain, with
        fewer than 4 draws a chain, where half a chain has no weight, and of what differs by no more
            than rounding, as the first entry of a Cholesky factor of a correlation matrix.

    Raises:
        ValueError: as `weighted_mean`.

    Source: Vehtari et al. (2021), with weighted ranks and ratios.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import weighted_rhat
        >>> x = np.random.default_rng(0).normal(size=(4, 1000))
        >>> round(float(weighted_rhat(x, 0.5 * x)), 2)
        1.0
        >>> x[0] += 2
        >>> bool(weighted_rhat(x, 0.5 * x) > 1.2)
        True
    """
    found = for_each_scalar(_guarded(_rhat, chains=2), *checked(x, log_weights))
    return np.where(_constant(np.asarray(x)), np.nan, found)


def _constant(x: np.ndarray) -> np.ndarray:
    """Which scalars differ between draws by no more than rounding."""
    if not np.issubdtype(x.dtype, np.floating):
        return np.ptp(x, axis=(0, 1)) == 0
    largest = np.abs(x).max(axis=(0, 1), initial=0.0)
    return np.ptp(x, axis=(0, 1)) <= 4 * np.finfo(x.dtype).eps * largest


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
        efficiency = min(effective_sample_size(weights, "mean") / weights.size, 1.0)
    tail = int(np.ceil(min(flat.size / 5, 3 * np.sqrt(flat.size / efficiency))))
    largest = np.sort(flat)[-tail - 1 :]
    if largest[-1] - largest[0] < 1e-10:
        return float("-inf")
    return pareto_shape(flat, efficiency)


# ------------------------------------------------------------------ of one scalar variable


def _guarded(function: Any, chains: int = 1) -> Any:
    """The function, and NaN where ArviZ gives it: too few draws or chains, or draws of NaN."""

    def guarded(x: np.ndarray, weights: np.ndarray) -> float:
        if x.shape[0] < chains or x.shape[1] < 4 or not np.isfinite(x).all():
            return float("nan")
        with np.errstate(divide="ignore", invalid="ignore"):
            return function(x, weights)

    return guarded


def _level(prob: Any) -> float:
    number = checks.number("prob", prob)
    if not 0 < number < 1:
        raise checks.fail("prob", prob, "probabilities between 0 and 1")
    return number


def _checked_level(method: str, prob: Any) -> float:
    if (prob is None) == (method == "quantile"):
        takes = "a probability between 0 and 1" if prob is None else "None"
        raise checks.fail("prob", prob, f"{takes} with method {method!r}")
    return 0.5 if prob is None else _level(prob)


def mcse_of_mean(x: np.ndarray, weights: np.ndarray) -> float:
    """The standard error of the weighted mean of one scalar variable."""
    if _is_constant(x):
        return 0.0
    influence = weights * (x - (weights * x).mean())
    return np.std(influence, ddof=1) / np.sqrt(effective_sample_size(influence, "mean"))


def _mcse_with_visits(x: np.ndarray, weights: np.ndarray) -> float:
    """The standard error of the mean where the chains seldom went from mode to mode."""
    return float(np.maximum(mcse_of_mean(x, weights), error_of_visits(x, weights)))


def _ess_with_visits(x: np.ndarray, weights: np.ndarray) -> float:
    """The effective sample size for the mean, the round trips between modes counted."""
    of_visits = error_of_visits(x, weights)
    if of_visits == 0 or of_visits <= mcse_of_mean(x, weights):
        return ess_of_mean(x, weights)
    return float(variance(x, weights) / of_visits**2)


def ess_of_mean(x: np.ndarray, weights: np.ndarray, method: str = "mean") -> float:
    """The effective sample size for the weighted mean of one scalar variable."""
    if _is_constant(x):
        return float(x.size)
    influence = weights * (x - (weights * x).mean())
    ess = effective_sample_size(influence, method)
    return ess * variance(x, weights) / np.var(influence, ddof=1)


def _is_constant(x: np.ndarray) -> bool:
    """As ArviZ decides it: such draws have as many effective ones as there are."""
    return bool(np.ptp(x) < np.finfo(float).resolution)


def _split(x: np.ndarray) -> np.ndarray:
    """The halves of the chains; the middle one of an odd number of draws is left out."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, -half:]])


def _normal_scores(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Normal quantiles at the weighted ranks; Blom's at the average ranks on equal weights."""
    values, places = np.unique(x, return_inverse=True)
    places = places.reshape(x.shape)
    tied = np.bincount(places.ravel(), weights.ravel(), minlength=len(values))
    ranks = np.cumsum(tied) - tied / 2 + 0.5
    return stats.norm.ppf((ranks[places] - 0.375) / (weights.sum() + 0.25))


def _ess_of_bulk(x: np.ndarray, weights: np.ndarray) -> float:
    halves, weights = _split(x), _split(weights)
    weights = weights / weights.mean()
    return ess_of_mean(_normal_scores(halves, weights), weights, "identity")


def _ess_of_quantile(x: np.ndarray, weights: np.ndarray, prob: float) -> float:
    return ess_of_mean((x <= quantiles(x, weights, prob)).astype(float), weights)


def _mcse_of_sd(x: np.ndarray, weights: np.ndarray) -> float:
    squares = (x - (weights * x).mean()) ** 2
    mean = (weights * squares).mean()
    influence = weights * (squares - mean)
    return np.sqrt((influence**2).mean() / effective_sample_size(influence, "mean") / mean) / 2


def _mcse_of_quantile(x: np.ndarray, weights: np.ndarray, prob: float) -> float:
    """Half the distance between the draws at -1 and +1 standard errors of the probability."""
    ess = _ess_of_quantile(x, weights, prob)
    below, above = stats.beta.ppf([0.1586553, 0.8413447], ess * prob + 1, ess * (1 - prob) + 1)
    values, ranked = ranked_draws(x, weights)
    reached = np.cumsum(ranked)
    low = np.searchsorted(reached, below * reached[-1], side="right") - 1
    high = np.searchsorted(reached, above * reached[-1], side="left")
    return (values[min(high, len(values) - 1)] - values[max(low, 0)]) / 2


def _rhat_of_scores(scores: np.ndarray, weights: np.ndarray) -> float:
    draws = scores.shape[1]
    weights = weights / weights.mean(axis=1, keepdims=True)
    means = (weights * scores).mean(axis=1)
    within = np.mean([variance(s[None], w[None]) for s, w in zip(scores, weights)])
    return np.sqrt(np.var(means, ddof=1) / within + (draws - 1) / draws)


def _rhat(x: np.ndarray, weights: np.ndarray) -> float:
    halves, weights = _split(x), _split(weights)
    folded = np.abs(halves - quantiles(halves, weights, 0.5))
    return max(_rhat_of_scores(_normal_scores(one, weights), weights) for one in (halves, folded))
