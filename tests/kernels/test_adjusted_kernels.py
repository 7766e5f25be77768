"""Kernels with `adjusted=True`: models that jump are answered right, and reports say so."""

import functools

import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from scipy import stats
from scipy.special import gammaln, logsumexp
from tiers import in_third_tier

import numpyro_contour
from numpyro_contour import (
    SGLD,
    SGNHT,
    ContourSGLD,
    CyclicalSGLD,
    diagnose,
    to_inference_data,
    weighted_samples,
)
from numpyro_contour.statistics.arviz_versions import to_datasets
from numpyro_contour.warmup.stages.moments import no_moments
from numpyro_contour.warmup.stages.tune import with_walls_felt
from numpyro_contour.warmup.stages.tuning import initial_tuning

CHAINS, DRAWS = 8, 150
COUNTS = np.r_[np.random.default_rng(1).poisson(3, 35), np.random.default_rng(2).poisson(7, 25)]
# Not ContourSGHMC: refusals turn its flattened chains round so often that its errors are too large
# here for a test to fail. Momentum and flattening are each tested in tests/core/samplers.
NAMES = (
    "SGLD",
    "SGHMC",
    "ContourSGLD",
    "ReplicaExchangeSGLD",
    "ReplicaExchangeSGHMC",
)


def change_point(minibatch=None):
    """The rate of the counts changes at a time that is not known."""
    before = numpyro.sample("before", dist.Exponential(0.2))
    after = numpyro.sample("after", dist.Exponential(0.2))
    tau = numpyro.sample("tau", dist.Uniform(0, 1))
    with numpyro.plate("rows", len(COUNTS), subsample_size=minibatch) as rows:
        rate = jnp.where(rows < tau * len(COUNTS), before, after)
        numpyro.sample("y", dist.Poisson(rate), obs=jnp.asarray(COUNTS)[rows])


@functools.cache
def exact():
    """Mean and sd of tau, and the mean rate before it, by the sums of all cases."""
    n, total = len(COUNTS), np.r_[0, np.cumsum(COUNTS)]
    k = np.arange(n + 1)  # as many rows before tau; (k - 1) / n < tau <= k / n
    shapes = 1 + total, 1 + total[-1] - total
    rates = 0.2 + k, 0.2 + n - k
    log_share = sum(gammaln(a) - a * np.log(b) for a, b in zip(shapes, rates))
    log_share[0] = -np.inf  # tau = 0
    share = np.exp(log_share - logsumexp(log_share))
    middle = (k - 0.5) / n
    mean = share @ middle
    variance = share @ (middle**2 + 1 / (12 * n**2)) - mean**2
    return mean, variance**0.5, share @ (shapes[0] / rates[0])


@functools.cache
def finished(name):
    kernel = getattr(numpyro_contour, name)(change_point, num_steps=50, adjusted=True)
    return models.run(
        kernel, 0, chains=CHAINS, samples=DRAWS, warmup=300, chain_method="vectorized"
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ["SGLD", *map(in_third_tier, NAMES[1:])])
def test_a_change_point_is_found_where_it_is(name):
    """Without `adjusted` tau keeps its prior, of mean .5 and sd .29."""
    x, log_weights = weighted_samples(finished(name))
    weights = np.exp(np.asarray(log_weights, np.float64))
    mean, sd, before = exact()
    tau, rate = (np.asarray(x[n], np.float64) for n in ("tau", "before"))
    found = np.stack([tau, (tau - mean) ** 2, rate])
    of_chains = (weights * found).mean(2).T
    error = of_chains.std(0, ddof=1) / CHAINS**0.5
    limit = stats.t.ppf(1 - 0.0005 / 3, CHAINS - 1)
    assert (np.abs(of_chains.mean(0) - [mean, sd**2, before]) < limit * error).all()
    # It can fail: a prior's tau is off by four standard deviations and has 180 times the variance.
    assert (limit * error < [sd, 2 * sd**2, 0.2 * before]).all()


@pytest.mark.slow
def test_its_report_and_its_acceptance():
    groups = to_datasets(to_inference_data(finished("SGLD")))
    rate = groups["sample_stats"]["acceptance_rate"]
    assert rate.shape == (CHAINS, DRAWS)
    assert 0.6 < float(rate.mean()) < 0.85  # 0.7 is aimed at
    assert float(rate.min()) >= 0
    assert float(rate.max()) <= 1
    assert groups["warmup"].attrs["target_acceptance"] == 0.7
    report = diagnose(finished("SGLD"))
    assert report["gradient"].outcome == "good"
    assert report["gradient"].figure > report["gradient"].limit
    assert "accepted by the energies" in report["gradient"].finding
    assert report["variances"].outcome == "not checked"
    # So short a run may be told that it is.
    assert not {"gradient", "variances", "warm-up", "refused moves"} & {
        v.check for v in report.faults
    }


@pytest.mark.slow
def test_without_it_the_report_of_another_kernel_names_it():
    kernel = SGNHT(change_point, num_steps=5)
    mcmc = models.run(kernel, 0, chains=4, samples=60, warmup=100, chain_method="vectorized")
    with pytest.warns(UserWarning, match="cannot be trusted"):
        report = diagnose(to_inference_data(mcmc))
    assert report["gradient"].outcome == "bad"
    assert "Give `adjusted=True` to `ContourSGLD`" in report["gradient"].advice


def test_what_it_cannot_go_with():
    with pytest.raises(ValueError, match="`adjusted` takes True or False, but got 'yes'"):
        SGLD(change_point, adjusted="yes")
    with pytest.raises(ValueError, match=r"`preconditioner` takes .* `adjusted` .* got 'rmsprop'"):
        SGLD(change_point, step_size=0.1, preconditioner="rmsprop", adjusted=True)
    with pytest.raises(ValueError, match="`adjusted` takes False where `barrier` is given"):
        ContourSGLD(change_point, barrier=50, adjusted=True)
    with pytest.raises(ValueError, match="`temperature` takes"):
        SGLD(change_point, temperature=0.0, adjusted=True)
    with pytest.raises(TypeError, match="adjusted"):
        CyclicalSGLD(change_point, adjusted=True)
    for energy in (None, "minibatch", lambda key, z: (0.0, z)):
        kernel = ContourSGLD(change_point, energy=energy, adjusted=True)
        with pytest.raises(ValueError, match=r"`adjusted` takes False .* got True .*'full'"):
            kernel.init(random.key(0), 100, model_args=(10,))


@pytest.mark.slow
def test_subsampled_plates_with_all_rows_are_adjusted():
    kernel = SGLD(change_point, num_steps=20, adjusted=True, energy="full")
    mcmc = models.run(kernel, 0, 10, chains=4, samples=200, warmup=400, chain_method="vectorized")
    mean, sd, _ = exact()
    assert abs(float(mcmc.get_samples()["tau"].mean()) - mean) < 0.5 * sd


# ------------------------------------------------------------------ the warm-up


def test_walls_are_felt_where_refusals_keep_a_chain_in():
    """One coordinate is free, one feels its gradient, one is kept in by jumps."""
    tuning = initial_tuning(3, None, 1.0)
    steps = 1000.0
    spread = jnp.array([50.0, 2.0, 0.01])
    gradients = jnp.array([1e-3, 0.5, 1e-4])
    moments = no_moments(3)._replace(
        steps=jnp.array(steps),
        position_squares=steps * spread,
        gradient=jnp.ones(3),
        gradient_squares=steps * gradients,
        acceptance=jnp.array(0.7 * steps),
    )
    felt = with_walls_felt(tuning, moments, jnp.array(1.0))[1]
    np.testing.assert_allclose(felt.gradient_squares / steps, [1e-3, 0.5, 100.0], rtol=1e-4)
    np.testing.assert_allclose(felt.gradient[:2], 1.0, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("form", "size"), [("dense", 2), ("low-rank", 20)])
def test_a_preconditioner_of_another_form_is_adjusted(form, size):
    """A correlation of .99, and a wall through it; further coordinates are free."""
    precision = jnp.linalg.inv(jnp.array([[1.0, 0.99], [0.99, 1.0]]))

    def potential(x):
        correlated, free = x[:2], x[2:]
        smooth = 0.5 * correlated @ precision @ correlated + 0.5 * jnp.sum(free**2)
        return smooth + 3.0 * (x[0] + x[1] > 1)

    kernel = SGLD(potential_fn=potential, num_steps=50, preconditioner=form, adjusted=True)
    start = random.normal(random.key(1), (16, size))
    mcmc = models.run(
        kernel, 0, chains=16, samples=500, warmup=400, init_params=start,
        chain_method="vectorized",
    )  # fmt: skip
    x = np.asarray(mcmc.get_samples(group_by_chain=True), np.float64)
    # The sum is a normal of variance 3.98 whose part above 1 weighs exp(-3) as much.
    above = stats.norm.sf(1 / 3.98**0.5)
    share = above * np.exp(-3) / (above * np.exp(-3) + 1 - above)
    found = (x[..., :2].sum(2) > 1).mean(1)
    error = found.std(ddof=1) / 4
    assert abs(found.mean() - share) < 4 * error
    assert error < 0.01
