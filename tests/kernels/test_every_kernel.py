"""Every kernel against known distributions, with tolerances from the error across chains."""

import warnings

import jax
import jax.numpy as jnp
import models
import numpy as np
import pytest
from scipy import stats
from tiers import in_second_tier
from weighted_runs import weighted_only

from numpyro_contour import (
    EnergyPartition,
    resample,
    robbins_monro,
    to_inference_data,
    weighted_samples,
)
from numpyro_contour.examples import mixture

CHAINS = 32
MEAN = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
SCALES = np.array([1.0, 0.5, 1.5, 0.8, 1.2])
CORRELATION = 0.6 ** np.abs(np.subtract.outer(np.arange(5), np.arange(5)))
COVARIANCE = CORRELATION * np.outer(SCALES, SCALES)
PRECISION = np.linalg.inv(COVARIANCE)

# Theta settles as 1 / k, so that what it still moves leaves no bias that can be seen.
GAIN = robbins_monro(10, 1.0, 100)

ROWS = {
    # Cycles far longer than the relaxation of the Gaussian, as each starts from its mode.
    "CyclicalSGLD": {"cycle_length": 10_000, "exploration": 0.05, "step_size": 0.12},
    "CyclicalSGHMC": {"cycle_length": 10_000, "exploration": 0.05, "step_size": 0.06},
    "ReplicaExchangeSGLD": {"temperatures": (1.0, 2.0)},
    "ReplicaExchangeSGHMC": {"temperatures": (1.0, 2.0)},
}


def gaussian(x):
    return 0.5 * (x - MEAN) @ PRECISION @ (x - MEAN)


def chains_of(name, potential, start, partition, samples, num_steps, **arguments):
    """Draws (chains, draws, ...) and weights of mean 1 in each chain."""
    arguments = models.ROWS[name] | ROWS.get(name, {}) | arguments
    if "Contour" in name:
        arguments |= {"partition": partition, "gain": GAIN, "collect_theta": False}
    kernel = getattr(models.numpyro_contour, name)(
        potential_fn=potential, num_steps=num_steps, **arguments
    )
    mcmc = models.run(
        kernel,
        0,
        warmup=200,
        samples=samples,
        chains=len(start),
        chain_method="vectorized",
        init_params=start,
    )
    x, log_weights = weighted_samples(mcmc)
    return np.asarray(x, np.float64), np.exp(log_weights)


def across_chains(values):
    """Mean over chains and its standard error."""
    return values.mean(0), values.std(0, ddof=1) / len(values) ** 0.5


FIRST = ("ContourSGLD",)


@pytest.mark.parametrize("name", models.of_first_tier(*FIRST))
def test_a_correlated_gaussian(name):
    start = (
        MEAN + jax.random.normal(jax.random.key(9), (CHAINS, 5)) @ np.linalg.cholesky(COVARIANCE).T
    )
    x, w = chains_of(
        name,
        gaussian,
        start,
        EnergyPartition(0.0, 10.0, 20),
        samples=1500,
        num_steps=20,
        **({} if "step_size" in ROWS.get(name, {}) else {"step_size": 0.03}),
    )
    # The Bonferroni quantile for 20 comparisons with 31 degrees of freedom; about 4 errors.
    limit = stats.t.ppf(1 - 0.001 / 20, CHAINS - 1)
    mean, error = across_chains((w[..., None] * x).mean(1))
    assert (np.abs(mean - MEAN) < limit * error).all(), (mean - MEAN) / error
    centred = x - MEAN
    second = np.einsum("cd,cdi,cdj->cij", w, centred, centred) / x.shape[1]
    covariance, error = across_chains(second)
    assert (np.abs(covariance - COVARIANCE) < limit * error).all(), (
        covariance - COVARIANCE
    ) / error
    # The check can fail: a wrong temperature of 20 % would be seen.
    assert (0.2 * np.diag(COVARIANCE) > limit * error.diagonal()).all(), error.diagonal()


@pytest.mark.optimized
@pytest.mark.parametrize(
    "name",
    [
        *map(in_second_tier, ("ContourSGHMC", "ReplicaExchangeSGLD", "ContourSGNHT")),
    ],
)
def test_the_mass_of_two_modes(name):
    arguments = {"temperatures": (1.0, 5.0)} if name.startswith("Replica") else {}
    x, w = chains_of(
        name,
        mixture.potential,
        jnp.full(CHAINS, -6.0),
        EnergyPartition(0.0, 50.0, 50),
        samples=2000,
        num_steps=50,
        step_size=0.1,
        **arguments,
    )
    mass, error = across_chains((w * (x > mixture.DIVIDE)).mean(1))
    assert abs(mass - mixture.MASS) < 0.05
    assert abs(mass - mixture.MASS) < 4 * error + 0.01
    # It can fail: chains that stay in the mode where they start have a mass of 0.
    assert error < 0.02


@pytest.mark.parametrize("name", models.of_first_tier("ContourSGLD"))
def test_outputs_take_every_kernel(name):
    kernel = models.normal_kernel(name, num_steps=2)
    mcmc = models.run(kernel, 0, models.normal_data(), chains=2, chain_method="vectorized")
    with warnings.catch_warnings():
        # Minibatches of ten rows leave few swaps, and 60 draws no settled theta.
        expected = ".*(drifts were clipped|multiplier_bound|of the swaps)"
        warnings.filterwarnings("ignore", expected, UserWarning)
        x, log_weights = weighted_samples(mcmc)
        idata = to_inference_data(mcmc)
        plain = resample(mcmc, 50, seed=0)["posterior"]["mu"].values
    assert log_weights.shape == x["mu"].shape == (2, 60)
    np.testing.assert_allclose(np.exp(log_weights).mean(1), 1.0, rtol=1e-4)
    stats = weighted_only(idata)["sample_stats"]
    np.testing.assert_array_equal(stats["log_weight"], log_weights)
    assert stats.attrs["kernel"] == name
    assert plain.size == 50
    explored = np.isneginf(log_weights)
    if name.startswith("Cyclical"):
        # Two steps a draw and 6 of 20 steps that explore: three draws in ten have no weight.
        assert abs(explored.mean() - 0.3) < 0.05
        left_out = np.unique(x["mu"][explored])
        assert not np.isin(plain, left_out).any()
    else:
        assert not explored.any()
    if not name.startswith("Cyclical") and "Contour" not in name:
        np.testing.assert_array_equal(log_weights, 0.0)
    if name.startswith("Replica"):
        assert stats["swap_rates"].dims == ("chain", "draw", "pair")
        assert stats["energy_variance"].shape == (2, 60, 2)
        assert (stats["energy_variance"].values > 0).all()
        barrier = (1 - stats["swap_rates"].values.astype(float)).sum(-1)
        np.testing.assert_allclose(stats["communication_barrier"], barrier)
        trips = stats["round_trips"].values
        assert trips.shape == (2, 60)
        assert (np.diff(trips) >= 0).all()
        np.testing.assert_array_equal(trips[:, -1], mcmc.last_state.round_trips)
        np.testing.assert_allclose(barrier[:, -1], mcmc.last_state.communication_barrier, rtol=1e-5)


@pytest.mark.slow
def test_a_ladder_that_hardly_swaps_is_told():
    """The noise of ten of a hundred rows leaves the correction no swap; all rows leave many."""
    for energy, warns in (("minibatch", True), ("full", False)):
        kernel = models.normal_kernel("ReplicaExchangeSGLD", energy=energy)
        mcmc = models.run(kernel, 0, models.normal_data(), samples=200)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            weighted_samples(mcmc)
        said = [w for w in caught if "Replicas 0 and 1 made" in str(w.message)]
        assert bool(said) == warns
        assert all(w.filename == __file__ for w in said)
