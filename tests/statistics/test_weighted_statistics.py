"""Statistics of weighted draws: against ArviZ on equal weights, and against known distributions."""

import functools

import arviz as az
import jax.numpy as jnp
import models
import numpy as np
import pytest
from scipy import stats
from weighted_runs import mixture_run

from numpyro_contour import SGLD, ContourSGLD, EnergyPartition
from numpyro_contour.diagnostics import (
    kish_share,
    normalise,
    pareto_khat,
    weighted_ess,
    weighted_eti,
    weighted_hdi,
    weighted_mad,
    weighted_mcse,
    weighted_mean,
    weighted_quantile,
    weighted_rhat,
    weighted_sd,
)
from numpyro_contour.examples import mixture
from numpyro_contour.statistics.arviz_versions import IS_DATATREE

RNG = np.random.default_rng(0)


def autoregressive(shape, coefficient=0.8, seed=0):
    """Stationary chains of standard normals; the draws are the last axis."""
    noise = np.random.default_rng(seed).normal(size=shape)
    x = noise.copy()
    for t in range(1, shape[-1]):
        x[..., t] = coefficient * x[..., t - 1] + (1 - coefficient**2) ** 0.5 * noise[..., t]
    return x


# --------------------------------------------------------------------------- equal weights: ArviZ

PLAIN = {
    "even": autoregressive((4, 500)),
    "odd": autoregressive((3, 301)),
    "one chain": autoregressive((1, 100)),
    "ties": np.round(autoregressive((4, 200))),
    "constant": np.ones((2, 50)),
    "few draws": autoregressive((2, 3)),
    "not a number": np.where(np.arange(100) == 7, np.nan, autoregressive((2, 100))),
}


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("name", PLAIN)
def test_equal_weights_give_the_numbers_of_arviz(name):
    x = PLAIN[name]
    even = np.full(x.shape, -7.3)
    same = functools.partial(np.testing.assert_allclose, rtol=1e-8, atol=1e-12)
    for method in ("bulk", "tail", "mean", "sd", "median", "quantile"):
        prob = {"tail": {"prob": (0.05, 0.95)}, "quantile": {"prob": 0.2}}.get(method, {})
        same(weighted_ess(x, even, method, **prob), az.ess(x, method=method, **prob))
    for method in ("mean", "sd", "median", "quantile"):
        if method == "sd" and name == "constant":
            continue  # ArviZ divides 0 by 0
        prob = {"prob": 0.2} if method == "quantile" else {}
        same(weighted_mcse(x, even, method, **prob), az.mcse(x, method=method, **prob))
    if name != "constant":
        same(weighted_rhat(x, even), az.rhat(x, method="rank"))
    same(weighted_mean(x, even), x.mean())
    same(weighted_sd(x, even), x.std(ddof=1))
    same(weighted_quantile(x, even, [0.0, 0.3, 1.0]), np.quantile(x, [0.0, 0.3, 1.0]))
    same(weighted_mad(x, even), stats.median_abs_deviation(x, axis=None))
    if name == "not a number":
        return
    for prob in (0.5, 0.89, 0.94):
        same(weighted_eti(x, even, prob), np.quantile(x, [(1 - prob) / 2, (1 + prob) / 2]))
        arguments = {"prob": prob} if IS_DATATREE else {"hdi_prob": prob}
        same(weighted_hdi(x, even, prob), az.hdi(x.ravel(), **arguments))


def test_every_scalar_of_a_draw_is_its_own():
    x = RNG.normal(size=(2, 60, 3, 2)) * np.arange(1, 7).reshape(3, 2)
    log_weights = RNG.normal(size=(2, 60))
    for function in (
        weighted_mean,
        weighted_sd,
        weighted_mad,
        weighted_hdi,
        weighted_eti,
        weighted_mcse,
        weighted_ess,
        weighted_rhat,
        lambda x, w: weighted_quantile(x, w, [0.1, 0.9]),
    ):
        together = function(x, log_weights)
        assert together.shape[:2] == (3, 2)
        np.testing.assert_allclose(together[1, 1], function(x[:, :, 1, 1], log_weights))
    assert weighted_mean(np.empty((2, 60, 0)), log_weights).shape == (0,)


# --------------------------------------------------------------------------- weights

STATISTICS = {
    "mean": weighted_mean,
    "sd": weighted_sd,
    "quantile": lambda x, w: weighted_quantile(x, w, [0.05, 0.5, 0.95]),
    "hdi": weighted_hdi,
    "mad": weighted_mad,
    "mcse": weighted_mcse,
    "mcse of sd": lambda x, w: weighted_mcse(x, w, "sd"),
    "mcse of median": lambda x, w: weighted_mcse(x, w, "median"),
    "bulk": weighted_ess,
    "tail": lambda x, w: weighted_ess(x, w, "tail"),
    "rhat": weighted_rhat,
}


@pytest.mark.parametrize("name", STATISTICS)
def test_the_scale_of_a_chains_weights_says_nothing(name):
    x, log_weights = autoregressive((3, 200)), RNG.normal(size=(3, 200))
    scaled = log_weights + np.array([[-1000.0], [0.0], [500.0]])
    found, expected = (STATISTICS[name](x, w) for w in (scaled, log_weights))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["mean", "quantile", "hdi", "mad"])
def test_a_draw_without_weight_is_not_there(name):
    x = RNG.normal(size=(1, 100))
    log_weights = RNG.normal(size=(1, 100))
    refused = np.where(np.arange(100) % 3 == 0, -np.inf, log_weights)
    kept = np.isfinite(refused[0])
    found = STATISTICS[name](np.where(np.isfinite(refused), x, 99.0), refused)
    np.testing.assert_allclose(found, STATISTICS[name](x[:, kept], log_weights[:, kept]))


def test_mean_and_sd_are_those_of_repeated_draws():
    copies = RNG.integers(1, 6, size=500)
    x = RNG.normal(size=500)
    repeated = np.repeat(x, copies)
    log_weights = np.log(copies)[None]
    np.testing.assert_allclose(weighted_mean(x[None], log_weights), repeated.mean())
    # As many degrees of freedom as draws of that unevenness have.
    freedom = copies.sum() - (copies**2).sum() / copies.sum()
    expected = (repeated.var() * copies.sum() / freedom) ** 0.5
    np.testing.assert_allclose(weighted_sd(x[None], log_weights), expected)


def test_hdi_is_the_narrowest_interval_of_its_weight():
    x, log_weights = RNG.normal(size=(2, 40)), RNG.normal(size=(2, 40))
    weights = normalise(log_weights).weights
    low, high = weighted_hdi(x, log_weights, 0.8)
    inside = lambda a, b: weights[(x >= a) & (x <= b)].sum() / weights.sum()
    ends = np.sort(x.ravel())
    wide_enough = [(b - a) for a in ends for b in ends if b >= a and inside(a, b) > 0.8]
    assert inside(low, high) > 0.8
    assert high - low == pytest.approx(min(wide_enough))


def test_normalisers_are_kept():
    log_weights = RNG.normal(size=(3, 50)) + np.array([[3.0], [-800.0], [0.0]])
    normalised = normalise(log_weights)
    np.testing.assert_allclose(normalised.weights.mean(axis=1), 1.0)
    np.testing.assert_allclose(
        normalised.log_weights + normalised.log_normalisers[:, None], log_weights
    )


def test_pareto_k_is_the_shape_of_the_tail():
    """Weights exp(s E) of exponential E have a Pareto tail of shape s."""
    for shape in (0.3, 0.6, 0.9):
        drawn = np.random.default_rng(1).exponential(size=(4, 5000))
        # The tail has 3 sqrt(n) = 424 draws: sd of the shape (1 + s) / sqrt(424).
        assert abs(pareto_khat(shape * drawn) - shape) < 4 * (1 + shape) / 424**0.5
    assert pareto_khat(np.zeros((2, 50))) == -np.inf
    assert np.isnan(pareto_khat(RNG.normal(size=(1, 20))))


# --------------------------------------------------------------------------- known distributions


@functools.cache
def replicates(chains=4, draws=3000, number=200):
    """Autoregressive chains of N(0.5, 1), weighed so that the target is N(0, 1)."""
    x = 0.5 + autoregressive((number, chains, draws), 0.7, seed=3)
    return x, -0.5 * x


EXACT = {
    "mean": (lambda x, w: (weighted_mean(x, w), weighted_mcse(x, w)), 0.0),
    "sd": (lambda x, w: (weighted_sd(x, w), weighted_mcse(x, w, "sd")), 1.0),
    "probability": (lambda x, w: (weighted_mean(x > 1, w), weighted_mcse(x > 1, w)), 0.158655),
    "median": (
        lambda x, w: (weighted_quantile(x, w, 0.5), weighted_mcse(x, w, "median")),
        0.0,
    ),
    "quantile": (
        lambda x, w: (weighted_quantile(x, w, 0.2), weighted_mcse(x, w, "quantile", 0.2)),
        stats.norm.ppf(0.2),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_deviations_are_of_the_size_that_is_reported(name):
    x, log_weights = replicates()
    function, exact = EXACT[name]
    found = np.array([function(*one) for one in zip(x, log_weights)])
    z = (found[:, 0] - exact) / found[:, 1]
    # The root-mean-square of 200 scores has an sd of 0.05, the share inside one of 0.015, and their
    # mean one of 0.07; a chain's ratio is biased by 1 / ESS, here a tenth of its error.
    assert 0.85 < np.sqrt(np.mean(z**2)) < 1.2
    assert 0.89 < np.mean(np.abs(z) < 1.96) < 0.995
    assert abs(z.mean()) < 4 * 0.07 + 0.1
    # It can fail: without the weights the draws are those of N(0.5, 1).
    plain = np.array([function(one, np.zeros_like(one)) for one in x[:20]])
    if name != "sd":
        assert np.abs((plain[:, 0] - exact) / plain[:, 1]).mean() > 4


def test_effective_size_of_independent_draws():
    """For f = x, w = exp(-x / 2) and x ~ N(0.5, 1): E[w^2 (x - mu)^2] / E[w]^2 = 1.25 e^0.25."""
    x = 0.5 + np.random.default_rng(2).normal(size=(4, 20_000))
    expected = 80_000 / (1.25 * np.exp(0.25))
    assert weighted_ess(x, -0.5 * x, "mean") == pytest.approx(expected, rel=0.05)
    assert kish_share(-0.5 * x) == pytest.approx(np.exp(-0.25), rel=0.02)
    bulk, tail = (weighted_ess(x, -0.5 * x, method) for method in ("bulk", "tail"))
    assert bulk == pytest.approx(expected, rel=0.1)
    assert tail < bulk


# --------------------------------------------------------------------------- runs on the mixture


@functools.cache
def trapped_run(mode, chains=2, partition=None):
    """Chains that stay in the mode that they start in."""
    arguments = {"step_size": 0.1, "num_steps": 3, "potential_fn": mixture.potential}
    if partition is None:
        kernel = SGLD(**arguments)
    else:
        kernel = ContourSGLD(partition=partition, collect_theta=False, zeta=0.5, **arguments)
    mcmc = models.run(
        kernel,
        5,
        warmup=1000,
        samples=1000,
        init_params=jnp.full(chains, mode),
        chains=chains,
        chain_method="vectorized",
    )
    x = np.asarray(mcmc.get_samples(group_by_chain=True), np.float64)
    assert np.all(np.abs(x - mode) < 6)
    raw = np.asarray(mcmc.get_extra_fields(group_by_chain=True)["log_weight"], np.float64)
    return x, raw


@pytest.mark.slow
def test_rhat_tells_healthy_chains_from_stuck_ones():
    x, log_weights = mixture_run()
    healthy = weighted_rhat(x, log_weights)
    assert healthy < 1.01
    stuck, even = trapped_run(-6.0)
    x = np.concatenate([x[:6], stuck])
    assert weighted_rhat(x, np.concatenate([log_weights[:6], even])) > 1.1


@pytest.mark.slow
def test_quantiles_of_the_mixture():
    x, log_weights = mixture_run()
    cumulative = lambda q: 0.4 * stats.norm.cdf(q + 6) + 0.6 * stats.norm.cdf(q - 4)
    for prob in (0.1, 0.3, 0.5, 0.7, 0.9):
        found = weighted_quantile(x, log_weights, prob)
        error = weighted_mcse(x <= found, log_weights)  # of the probability below it
        assert error < 0.02
        # A step of 0.1 leaves 0.002 of a probability.
        assert abs(cumulative(found) - prob) < 4 * error + 0.002
    plain = np.quantile(x, 0.3)
    assert abs(cumulative(plain) - 0.3) > 0.03  # without the weights it fails


# The lowest energy is 1.4 nats. Seen from bins that begin there, Psi of most draws is near 1.
WIDTH_1, WIDTH_4 = EnergyPartition(0.0, 20.0, 20), EnergyPartition(1.4, 21.4, 5)


@pytest.mark.slow
def test_chains_with_their_own_partitions_pool():
    groups = [mixture_run(partition, 24, 200, seed=1) for partition in (WIDTH_1, WIDTH_4)]
    x, raw = (np.concatenate(parts) for parts in zip(*groups))
    mass = weighted_mean(x > mixture.DIVIDE, raw)
    error = weighted_mcse(x > mixture.DIVIDE, raw)
    assert error < 0.015
    assert abs(mass - mixture.MASS) < 4 * error + 0.002
    # As they are, the weights of one half of the draws are far above those of the other.
    weights = np.exp(raw)
    assert weights[24:].sum() > 1.3 * weights[:24].sum()


@pytest.mark.slow
def test_raw_weights_of_different_partitions_do_not_pool():
    """Two chains in five are in the left mode and stay there; the others have other bins."""
    narrow, wide = EnergyPartition(0.0, 6.0, 6), EnergyPartition(1.4, 13.4, 3)
    groups = [trapped_run(-6.0, 2, narrow), trapped_run(4.0, 3, wide)]
    x, raw = (np.concatenate(parts) for parts in zip(*groups))
    right = x > mixture.DIVIDE
    assert weighted_mean(right, raw) == pytest.approx(mixture.MASS, abs=1e-12)
    assert np.average(right, weights=np.exp(raw)) > mixture.MASS + 0.05


def test_a_quantile_stands_at_the_middle_of_each_draws_weight():
    # Middles of the weights 1, 1, 2 are at 0, 1 and 2.5 from the first.
    found = weighted_quantile([[1.0, 2.0, 3.0]], np.log([[1.0, 1.0, 2.0]]), 0.5)
    assert found == pytest.approx(2 + (1.25 - 1) / 1.5)
