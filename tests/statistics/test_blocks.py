"""Statistics of many scalars at once against the same by their definitions, one by one."""

import tracemalloc

import arviz as az
import numpy as np
import pytest
import slow_statistics as slow

from numpyro_contour.diagnostics import (
    normalise,
    weighted_ess,
    weighted_hdi,
    weighted_mad,
    weighted_mcse,
    weighted_mean,
    weighted_quantile,
    weighted_rhat,
    weighted_sd,
)
from numpyro_contour.statistics import blocks
from numpyro_contour.statistics.effective_sizes import effective_sizes

RNG = np.random.default_rng(5)


def chains_of(shape, scalars, coefficient):
    x = RNG.normal(size=(*shape, scalars))
    for t in range(1, shape[1]):
        x[:, t] = coefficient * x[:, t - 1] + (1 - coefficient**2) ** 0.5 * x[:, t]
    return x


def weights_of(shape, share_without):
    log_weights = RNG.normal(size=shape)
    return np.where(RNG.random(shape) < share_without, -np.inf, log_weights)


#: draws and log weights
CASES = {
    "even number": (chains_of((4, 60), 5, 0.6), weights_of((4, 60), 0.0)),
    "odd number": (chains_of((3, 61), 5, 0.9), weights_of((3, 61), 0.0)),
    "without weight": (chains_of((4, 60), 5, 0.3), weights_of((4, 60), 0.2)),
    "ties": (np.round(3 * chains_of((4, 80), 5, 0.6)), weights_of((4, 80), 0.1)),
    "single precision": (
        chains_of((2, 90), 4, 0.7).astype(np.float32),
        weights_of((2, 90), 0.0),
    ),
    "whole numbers": (RNG.poisson(4.0, size=(4, 70, 3)), weights_of((4, 70), 0.0)),
    "antithetic": (chains_of((2, 90), 4, -0.7), weights_of((2, 90), 0.0)),
}
STATISTICS = {
    "mean": (weighted_mean, slow.mean),
    "sd": (weighted_sd, slow.sd),
    "quantile": (lambda x, w: weighted_quantile(x, w, 0.3), lambda x, w: slow.quantile(x, w, 0.3)),
    "hdi": (lambda x, w: weighted_hdi(x, w, 0.8), lambda x, w: slow.hdi(x, w, 0.8)),
    "wide hdi": (lambda x, w: weighted_hdi(x, w, 0.99), lambda x, w: slow.hdi(x, w, 0.99)),
    "mad": (weighted_mad, slow.mad),
    "mcse of mean": (weighted_mcse, slow.mcse_mean),
    "mcse of sd": (lambda x, w: weighted_mcse(x, w, "sd"), slow.mcse_sd),
    "mcse of median": (lambda x, w: weighted_mcse(x, w, "median"), slow.mcse_median),
    "bulk": (weighted_ess, slow.ess_bulk),
    "tail": (lambda x, w: weighted_ess(x, w, "tail"), slow.ess_tail),
    "ess of mean": (lambda x, w: weighted_ess(x, w, "mean"), slow.ess_of_mean),
    "ess of sd": (lambda x, w: weighted_ess(x, w, "sd"), slow.ess_sd),
    "rhat": (weighted_rhat, slow.rhat),
}


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("case", CASES)
def test_many_scalars_at_once_are_each_by_its_definition(case, statistic, monkeypatch):
    x, log_weights = CASES[case]
    # Two scalars a block, and one in the last.
    monkeypatch.setattr(blocks, "_NUMBERS", 2 * log_weights.size)
    ours, theirs = STATISTICS[statistic]
    weights = normalise(log_weights).weights
    expected = [theirs(x[..., i].astype(float), weights) for i in range(x.shape[2])]
    np.testing.assert_allclose(ours(x, log_weights), expected, rtol=1e-8)


@pytest.mark.parametrize("shape", [(1, 4), (2, 5), (3, 6), (1, 7), (4, 50), (2, 301)])
@pytest.mark.parametrize("coefficient", [-0.9, 0.0, 0.5, 0.99])
def test_effective_sizes_are_arvizs(shape, coefficient):
    x = chains_of(shape, 30, coefficient)
    x[..., 1] = 3.0
    x[..., 2] = np.arange(shape[1])  # no pair of autocorrelations ends the sum early
    x[0, 0, 3] = np.nan
    with np.errstate(invalid="ignore"):
        found = effective_sizes(np.moveaxis(x, 2, 0))
    expected = [float(az.ess(x[..., i], method="identity")) for i in range(30)]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.slow
def test_memory_is_that_of_a_block(monkeypatch):
    """No copy of all draws is made, least of all in float64."""
    x = RNG.normal(size=(2, 1000, 4000)).astype(np.float32)
    log_weights = RNG.normal(size=(2, 1000))
    monkeypatch.setattr(blocks, "_NUMBERS", 2**16)
    tracemalloc.start()
    weighted_mcse(x, log_weights)
    weighted_rhat(x, log_weights)
    weighted_hdi(x, log_weights)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < x.nbytes / 2
