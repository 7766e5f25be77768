"""Masses of modes by bridges between the draws of a mode and those of a normal.

How many draws lie in a mode does not enter: only how they are spread within it, against draws of a
normal whose density is known. Where chains hardly change modes, it is the other way to the masses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from numpyro_contour.statistics.blocks import split
from numpyro_contour.statistics.effective_sizes import effective_sizes

_MOST_ROUNDS, _SETTLED = 1000, 1e-9


class Bridge(NamedTuple):
    """The integral of a density over a mode."""

    #: the logarithm of the integral
    log_integral: float
    #: its standard error
    error: float


def bridge(log_ratios: np.ndarray, weights: np.ndarray, log_ratios_of_normal: np.ndarray) -> Bridge:
    r"""The integral Z of a density p over a mode, by the optimal bridge to a normal density q.

    .. math:: Z = \frac{\mathrm{E}_q[p h]}{\mathrm{E}_p[q h]}, \qquad
              h = \frac{1}{n_p p / Z + n_q q}

    with p 0 outside the mode, in turns until Z stays. Where the mode has no draws, it is the mean
    of p / q over draws of q.

    Args:
        log_ratios: log p - log q at the draws, (chains, draws), minus infinity outside the mode.
        weights: their weights, (chains, draws), at least 0.
        log_ratios_of_normal: log p - log q at independent draws of q, (n,), in the same form.

    Returns:
        A `Bridge`; its integral is 0 with an unknown error, NaN, where no draw of q is in the mode.

    Source: Meng and Wong (1996), *Simulating ratios of normalizing constants via a simple
    identity*, for the bridge; Frühwirth-Schnatter (2004), *Estimating marginal likelihoods for
    mixture and Markov switching models*, for its error from draws that depend on each other.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.statistics.bridges import bridge
        >>> rng = np.random.default_rng(0)
        >>> x, z = 0.5 * rng.normal(size=(4, 500)), rng.normal(size=2000)
        >>> log_ratio = lambda x: -2 * x**2 + 0.5 * x**2 + 0.5 * np.log(2 * np.pi)
        >>> found = bridge(log_ratio(x), np.ones(x.shape), log_ratio(z))
        >>> round(float(np.exp(found.log_integral) / (0.5 * np.sqrt(2 * np.pi))), 1)
        1.0
    """
    inside = np.isfinite(log_ratios) & (weights > 0)
    number = len(log_ratios_of_normal)
    if not np.isfinite(log_ratios_of_normal).any():
        return Bridge(-np.inf, np.nan)
    log_z = float(logsumexp(log_ratios_of_normal)) - np.log(number)
    if not inside.any():
        return Bridge(log_z, _spread(np.exp(log_ratios_of_normal - log_z)))
    shares = np.where(inside, weights, 0.0)
    effective = shares.sum() ** 2 / (shares**2).sum()
    log_p, log_q = np.log(np.array([effective, number]) / (effective + number))
    of_draws = np.where(inside, log_ratios, 0.0)
    start = np.average(of_draws, weights=shares)
    log_z = start if not np.isfinite(log_z) else log_z
    for _ in range(_MOST_ROUNDS):
        # Both times the densities' common size, exp(log_z), so that nothing overflows.
        log_h = _log_h(log_ratios_of_normal, log_z, log_p, log_q)
        log_above = log_ratios_of_normal - log_z - log_h
        log_below = -_log_h(of_draws, log_z, log_p, log_q)
        change = logsumexp(log_above) - np.log(number)
        change -= logsumexp(log_below, b=shares / shares.sum())
        log_z += change
        if abs(change) < _SETTLED:
            break
    # What each draw adds to the error of the ratio of means.
    above = np.exp(log_above - log_above.max())
    below = np.exp(log_below - log_below.max())
    mean = np.average(below, weights=shares)
    influence = shares * (below - mean) / (mean * shares.mean())
    size = effective_sizes(split(influence[None]))[0]
    error = np.hypot(_spread(above), influence.std(ddof=1) / np.sqrt(size))
    return Bridge(float(log_z), float(error))


def _log_h(log_ratios: np.ndarray, log_z: float, log_p: float, log_q: float) -> np.ndarray:
    """Log of n_p p / (q Z) + n_q."""
    return np.logaddexp(log_p + log_ratios - log_z, log_q)


def _spread(values: np.ndarray) -> float:
    """The standard error of the mean of independent values, over the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)) / values.mean())


def shares(log_integrals: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    r"""Integrals over modes as shares of their sum, with the errors of the shares.

    .. math:: p_k = Z_k / \textstyle\sum_j Z_j, \qquad
              s_k^2 = p_k^2 \textstyle\sum_j (1\{j = k\} - p_j)^2 e_j^2

    Args:
        log_integrals: log Z, (modes,).
        errors: the standard errors e of independent log Z, (modes,); that of a Z of 0 counts as 0.

    Returns:
        p and s, (modes,) each.

    Source: the delta method.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.statistics.bridges import shares
        >>> [x.round(3).tolist() for x in shares(np.log([1.0, 3.0]), np.array([0.1, 0.0]))]
        [[0.25, 0.75], [0.019, 0.019]]
    """
    p = np.exp(log_integrals - logsumexp(log_integrals))
    known = np.where(p > 0, errors, 0.0)
    return p, p * np.sqrt((((np.eye(len(p)) - p) * known) ** 2).sum(1))
