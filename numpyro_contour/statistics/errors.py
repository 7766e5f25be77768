"""Monte Carlo errors, effective sample sizes and R-hat.

On equal weights each number is the one that ArviZ gives for plain draws.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from numpyro_contour import checks
from numpyro_contour.statistics.blocks import Block, in_blocks, mean, split, variance
from numpyro_contour.statistics.effective_sizes import effective_sizes
from numpyro_contour.statistics.estimates import checked

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
    return in_blocks(lambda block: mcse(block, method, level), *checked(x, log_weights))


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
    return in_blocks(lambda block: ess(block, method, levels), *checked(x, log_weights))


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
    return in_blocks(rhat, *checked(x, log_weights))


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


# ------------------------------------------------------------------ of the scalars of a block


def mcse(block: Block, method: str = "mean", level: float = 0.5) -> np.ndarray:
    """As `weighted_mcse`, (scalars,)."""
    functions = {
        "mean": _mcse_with_visits,
        "sd": _mcse_of_sd,
        "median": lambda of: _mcse_of_quantile(of, level),
        "quantile": lambda of: _mcse_of_quantile(of, level),
    }
    return _guarded(functions[method], block)


def ess(block: Block, method: str = "bulk", levels: tuple[float, ...] = (0.05, 0.95)) -> np.ndarray:
    """As `weighted_ess`, (scalars,)."""
    of_levels = lambda of: functools.reduce(
        # The first where one is NaN, as Python and ArviZ take the smaller of two.
        lambda one, other: np.where(other < one, other, one),
        [_ess_of_quantile(of, level) for level in levels],
    )
    functions = {
        "bulk": _ess_of_bulk,
        "mean": _ess_with_visits,
        "sd": lambda of: ess_of_mean(_squares(of), of.weights),
        "median": of_levels,
        "quantile": of_levels,
        "tail": of_levels,
    }
    return _guarded(functions[method], block)


def rhat(block: Block) -> np.ndarray:
    """As `weighted_rhat`, (scalars,)."""
    found = _guarded(_rhat, block, chains=2)
    return np.where(_differs_by_rounding(block), np.nan, found)


def _guarded(function: Callable[[Block], np.ndarray], block: Block, chains: int = 1) -> np.ndarray:
    """The function, and NaN where ArviZ gives it: too few draws or chains, or draws of NaN."""
    number, (of_chains, draws) = len(block.values), block.weights.shape
    if of_chains < chains or draws < 4:
        return np.full(number, np.nan)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(np.isfinite(block.values).all((1, 2)), function(block), np.nan)


def _differs_by_rounding(block: Block) -> np.ndarray:
    """Which scalars differ between draws by no more than rounding of their own kind."""
    spread = np.ptp(block.values, axis=(1, 2))
    if not np.issubdtype(block.dtype, np.floating):
        return spread == 0
    return spread <= 4 * np.finfo(block.dtype).eps * np.abs(block.values).max((1, 2), initial=0.0)


def mcse_of_mean(block: Block) -> np.ndarray:
    """The standard errors of the weighted means, autocorrelations alone counted, (scalars,)."""
    errors = block.influence.std((1, 2), ddof=1) / np.sqrt(block.influence_size)
    return np.where(_constant(block.values), 0.0, errors)


def _mcse_with_visits(block: Block) -> np.ndarray:
    """The standard errors of the mean where the chains seldom went from mode to mode."""
    return np.maximum(mcse_of_mean(block), block.error_of_visits)


def _ess_with_visits(block: Block) -> np.ndarray:
    """The effective sample sizes for the mean, the round trips between modes counted."""
    of_visits = block.error_of_visits
    autocorrelated = (of_visits == 0) | (of_visits <= mcse_of_mean(block))
    sizes = block.influence_size * block.sd**2 / block.influence.var((1, 2), ddof=1)
    sizes = np.where(_constant(block.values), float(block.weights.size), sizes)
    return np.where(autocorrelated, sizes, block.sd**2 / of_visits**2)


def ess_of_mean(values: np.ndarray, weights: np.ndarray, halved: bool = True) -> np.ndarray:
    """The effective sample sizes for the weighted means of (scalars, chains, draws)."""
    influence = values - mean(values, weights)[..., None, None]
    influence *= weights
    size = effective_sizes(split(influence) if halved else influence)
    sizes = size * variance(values, weights) / influence.var((1, 2), ddof=1)
    return np.where(_constant(values), float(weights.size), sizes)


def _constant(values: np.ndarray) -> np.ndarray:
    """As ArviZ decides it: such draws have as many effective ones as there are."""
    return np.ptp(values, axis=(1, 2)) < np.finfo(float).resolution


def _ess_of_bulk(block: Block) -> np.ndarray:
    halves = block.halves
    return ess_of_mean(halves.normal_scores, halves.weights, halved=False)


def _ess_of_quantile(block: Block, level: float) -> np.ndarray:
    ends = block.ranked.quantiles(np.array(level))
    return ess_of_mean((block.values <= ends[:, None, None]).astype(float), block.weights)


def _squares(block: Block) -> np.ndarray:
    return (block.values - block.mean[:, None, None]) ** 2


def _mcse_of_sd(block: Block) -> np.ndarray:
    squares = _squares(block)
    of_squares = mean(squares, block.weights)
    influence = block.weights * (squares - of_squares[:, None, None])
    sizes = effective_sizes(split(influence))
    return np.sqrt((influence**2).mean((1, 2)) / sizes / of_squares) / 2


def _mcse_of_quantile(block: Block, level: float) -> np.ndarray:
    """Half the distance between the draws at -1 and +1 standard errors of the probability."""
    sizes, ranked = _ess_of_quantile(block, level), block.ranked
    ends = [
        stats.beta.ppf(p, sizes * level + 1, sizes * (1 - level) + 1)
        for p in (0.1586553, 0.8413447)
    ]
    found = []
    for values, reached, below, above in zip(ranked.values, ranked.reached, *ends):
        low = np.searchsorted(reached, below * reached[-1], side="right") - 1
        high = np.searchsorted(reached, above * reached[-1], side="left")
        found.append((values[min(high, len(values) - 1)] - values[max(low, 0)]) / 2)
    return np.array(found)


def _rhat_of_scores(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """R-hat of the scores (scalars, chains, draws), each chain's weights of mean 1."""
    draws = scores.shape[2]
    means = (weights * scores).mean(2)
    squares = (weights * (scores - means[..., None]) ** 2).mean(2)
    within = (squares * draws / (draws - (weights**2).sum(1) / draws)).mean(1)
    return np.sqrt(means.var(1, ddof=1) / within + (draws - 1) / draws)


def _rhat(block: Block) -> np.ndarray:
    halves = block.halves
    weights = halves.weights / halves.weights.mean(1, keepdims=True)
    of_draws = _rhat_of_scores(halves.normal_scores, weights)
    # NaN of two values that are as far from the median: they are no distances then.
    of_distances = _rhat_of_scores(halves.normal_scores_of_distances, weights)
    return np.where(of_distances > of_draws, of_distances, of_draws)
