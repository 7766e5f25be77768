"""Effective sample sizes of plain draws of many scalars at once, as ArviZ computes each."""

from __future__ import annotations

import numpy as np
from scipy import fft


def effective_sizes(x: np.ndarray) -> np.ndarray:
    r"""How many independent draws would give means as precise.

    .. math:: \frac{C D}{-1 + 2 \sum_{k < K} P_k + \rho_{2 K}}, \qquad
              P_k = \min_{j \le k} (\rho_{2 j} + \rho_{2 j + 1})

    with the autocorrelations of all chains together, up to the first pair K that is not positive.

    Args:
        x: draws, (scalars, chains, draws).

    Returns:
        An array (scalars,); the number of draws for a constant, NaN for draws that are not finite.

    Source: Vehtari et al. (2021), as `az.ess(x, method="identity")` computes it for one scalar.
    """
    chains, draws = x.shape[1:]
    covariance = _autocovariance(x)
    within = covariance[:, :1] * (draws / (draws - 1))
    total = covariance[:, :1].copy()
    if chains > 1:
        total += x.mean(2).var(1, ddof=1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = 1 - (within - covariance) / total
    correlation[:, 0] = 1.0
    number = max((draws - 3) // 2, 0) + 1
    pairs = correlation[:, : 2 * number].reshape(len(x), number, 2).sum(2)
    # The pair that ends the sum: the first that is not positive, or the last that there is.
    ends = ~(pairs > 0)
    last = np.where(ends.any(1), ends.argmax(1), number - 1)
    counted = np.arange(number) < last[:, None]
    sums = np.where(counted, np.minimum.accumulate(pairs, 1), 0.0).sum(1)
    rows = np.arange(len(x))
    even = correlation[rows, 2 * last]
    more = np.where((even > 0) | (pairs[rows, last] >= 0), even, 0.0)
    time = np.maximum(-1 + 2 * sums + more, 1 / np.log10(chains * draws))
    sizes = chains * draws / time
    spread = x.max((1, 2)) - x.min((1, 2))
    sizes = np.where(spread < np.finfo(float).resolution, float(chains * draws), sizes)
    return np.where(np.isfinite(spread), sizes, np.nan)


def _autocovariance(x: np.ndarray) -> np.ndarray:
    """Autocovariances at all lags, in the mean of the chains, (scalars, draws)."""
    draws = x.shape[2]
    length = fft.next_fast_len(2 * draws, real=True)
    spectrum = fft.rfft(x - x.mean(2, keepdims=True), n=length, axis=2)
    # The mean comes before the transform back: one for all chains.
    power = (spectrum.real**2 + spectrum.imag**2).mean(1)
    return fft.irfft(power, n=length, axis=1)[:, :draws] / draws
