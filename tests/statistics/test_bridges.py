"""Integrals over modes by bridges, against exact ones, with errors that are right."""

import numpy as np
import pytest
from scipy import stats

from numpyro_contour.statistics.bridges import bridge, shares

CHAINS, DRAWS, REPEATS = 4, 200, 200
SD, EDGE = 1.6, 0.5  # of the density, which ends at the edge: a cell
LOG_Z = 3.0


def log_ratio(x):
    """Of a normal density of integral exp(LOG_Z) that ends at the edge, over the standard one."""
    log_p = stats.norm.logpdf(x, scale=SD) - stats.norm.logcdf(EDGE, scale=SD) + LOG_Z
    return np.where(x < EDGE, log_p - stats.norm.logpdf(x), -np.inf)


def correlated(rng, rho):
    """Chains of draws of the density, by rank of a normal chain that remembers rho of itself."""
    x = rng.normal(size=(CHAINS, DRAWS))
    for i in range(1, DRAWS):
        x[:, i] = rho * x[:, i - 1] + np.sqrt(1 - rho**2) * x[:, i]
    return stats.norm.ppf(stats.norm.cdf(x) * stats.norm.cdf(EDGE / SD)) * SD


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "tilt"), [(0.0, 0.0), (0.8, 0.0), (0.0, 0.2)])
def test_integrals_are_right_within_their_errors(rho, tilt):
    """Also where draws are of exp(tilt x) times the density, and weighted, or depend on others."""
    rng = np.random.default_rng(0)
    scores, errors = [], []
    for _ in range(REPEATS):
        x = correlated(rng, rho)
        weights = np.ones(x.shape)
        if tilt:  # half of all draws, those that exp(tilt x) would have
            keep = rng.uniform(size=x.shape) < np.exp(tilt * (x - EDGE))
            weights = np.where(keep, np.exp(-tilt * x), 0.0)
        # A third of the draws is elsewhere, and does not count.
        elsewhere = rng.uniform(size=x.shape) < 1 / 3
        found = bridge(
            np.where(elsewhere, -np.inf, log_ratio(x)), weights, log_ratio(rng.normal(size=3000))
        )
        scores.append((found.log_integral - LOG_Z) / found.error)
        errors.append(found.error)
    # Scores of mean 0 and sd 1: four standard errors of each over the repeats, and a tenth for
    # errors that are themselves estimated.
    assert abs(np.mean(scores)) < 4 / np.sqrt(REPEATS)
    assert abs(np.std(scores) - 1) < 4 / np.sqrt(2 * REPEATS) + 0.1
    assert np.mean(errors) < 0.1


def test_scales_do_not_overflow():
    rng = np.random.default_rng(0)
    x, z = correlated(rng, 0.0), rng.normal(size=300)
    far = [bridge(log_ratio(x) + c, np.ones(x.shape), log_ratio(z) + c) for c in (0.0, 1e5)]
    assert far[1].log_integral - far[0].log_integral == pytest.approx(1e5)
    assert far[1].error == pytest.approx(far[0].error, rel=1e-6)


def test_a_mode_without_draws_or_without_normal_draws():
    rng = np.random.default_rng(0)
    z = rng.normal(size=3000)
    found = bridge(np.full((CHAINS, DRAWS), -np.inf), np.ones((CHAINS, DRAWS)), log_ratio(z))
    assert abs(found.log_integral - LOG_Z) < 4 * found.error < 0.2
    none = bridge(np.zeros((CHAINS, DRAWS)), np.ones((CHAINS, DRAWS)), np.full(9, -np.inf))
    assert none.log_integral == -np.inf
    assert np.isnan(none.error)


def test_shares_have_the_errors_of_their_integrals():
    log_z, errors = np.log([1.0, 2.0, 5.0]), np.array([0.03, 0.01, 0.02])
    noise = np.random.default_rng(0).normal(size=(4000, 3)) * errors
    drawn = np.exp(log_z + noise)
    drawn /= drawn.sum(1, keepdims=True)
    p, s = shares(log_z, errors)
    np.testing.assert_allclose(p, [1 / 8, 2 / 8, 5 / 8])
    np.testing.assert_allclose(drawn.std(0), s, rtol=4 / np.sqrt(2 * 4000) + 0.01)
    assert shares(np.array([0.0, -np.inf]), np.array([0.1, np.nan]))[1].tolist() == [0.0, 0.0]
