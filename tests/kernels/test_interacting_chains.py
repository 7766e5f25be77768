"""`InteractingContourSGLD`: vectorised chains share theta and its bins, others are alone."""

import functools

import jax
import jax.numpy as jnp
import models
import numpy as np
import pytest
from tiers import in_second_tier

from numpyro_contour import (
    ContourSGLD,
    EnergyPartition,
    InteractingContourSGLD,
    diagnose,
    to_inference_data,
    weighted_samples,
)
from numpyro_contour.examples import mixture
from numpyro_contour.kernels import Kernel, underdamped_moves
from numpyro_contour.kernels.methods import Contour

CHAINS = 16
PARTITION = EnergyPartition(-0.5, 7.5, 32)


def double_well(x):
    """Wells at -2 and 2, five nats deep."""
    return 0.3 * (x**2 - 4) ** 2 + 0.2 * x


def exact():
    """The mass of the right well and theta, by integration on a grid."""
    grid = np.linspace(-5, 5, 200_001)
    energy = np.asarray(double_well(grid))
    shares = np.exp(energy.min() - energy)
    shares /= shares.sum()
    bins = np.clip((energy + 0.5) / 0.25, 0, 31).astype(int)
    return shares[grid > 0].sum(), np.bincount(bins, shares, 32)


@functools.cache
def vectorized():
    kernel = InteractingContourSGLD(
        potential_fn=double_well, step_size=0.02, num_steps=100, partition=PARTITION
    )
    start = jnp.where(jnp.arange(CHAINS) % 2 == 0, -2.0, 2.0)
    return models.run(
        *(kernel, 0),
        warmup=100,
        samples=600,
        chains=CHAINS,
        chain_method="vectorized",
        init_params=start,
    )


def test_the_masses_of_two_wells_and_theta_are_right():
    mass, theta = exact()
    x, log_weights = weighted_samples(vectorized())
    by_chain = (np.exp(log_weights) * (x > 0)).mean(1)
    error = by_chain.std(ddof=1) / CHAINS**0.5
    assert abs(by_chain.mean() - mass) < 4 * error
    # It can fail: without weights, or with one well alone, it would.
    assert error < 0.025
    learnt = np.exp(np.asarray(vectorized().get_extra_fields()["log_theta"][-1], float))
    assert 0.5 * np.abs(learnt - theta).sum() < 0.05


def test_theta_and_bins_are_the_same_in_all_chains_and_visits_are_not():
    mcmc = vectorized()
    log_theta = mcmc.get_extra_fields(group_by_chain=True)["log_theta"]
    np.testing.assert_array_equal(log_theta, np.broadcast_to(log_theta[:1], log_theta.shape))
    visits = mcmc.last_state.sampler.theta.bin_counts
    np.testing.assert_array_equal(visits.sum(1), np.full(CHAINS, 70_000))
    assert len(np.unique(visits, axis=0)) == CHAINS


def test_diagnose_does_not_take_a_shared_theta_for_agreement():
    idata = to_inference_data(vectorized())
    assert idata["sample_stats"].attrs["shares_theta"]
    report = diagnose(idata)
    assert "share theta" in report["theta between chains"].finding
    assert report["chains"].outcome == "good"


GIVEN = {"partition": PARTITION, "step_size": 0.02}


@pytest.mark.parametrize(
    ("chains", "given", "warmup"),
    [(1, GIVEN, 10), in_second_tier(2, GIVEN, 10), in_second_tier(1, {}, 30)],
)
def test_chains_that_do_not_run_together_are_those_of_contour(chains, given, warmup):
    runs = []
    for kernel in (ContourSGLD, InteractingContourSGLD):
        kernel = kernel(potential_fn=double_well, num_steps=20, **given)
        start = jnp.array(-2.0) if chains == 1 else jnp.array([-2.0, 2.0])
        mcmc = models.run(kernel, 0, warmup=warmup, chains=chains, init_params=start)
        state = mcmc.last_state
        key = jax.random.key_data(state.rng_key)
        runs.append((mcmc.get_samples(), mcmc.get_extra_fields(), state._replace(rng_key=key)))
    jax.tree.map(np.testing.assert_array_equal, *runs)


def test_a_barrier_is_refused_and_a_known_theta_is_kept():
    with pytest.raises(ValueError, match="`barrier` takes nothing: chains that climb learn"):
        InteractingContourSGLD(potential_fn=double_well, barrier=40.0)
    with pytest.raises(ValueError, match="`shares_theta` takes"):
        Contour(shares_theta="yes")
    known = Contour(partition=PARTITION, theta=np.ones(32), shares_theta=True)
    assert known.among("chains") is known
    assert Contour(shares_theta=True).among("chains").chains == "chains"
    assert Contour().among("chains").chains is None


@pytest.mark.slow
@pytest.mark.parametrize("random_field", ["csgld", "penalized"])
def test_found_bins_are_shared_by_other_random_fields_and_with_momentum(random_field):
    method = Contour(random_field=random_field, shares_theta=True)
    kernel = Kernel(
        potential_fn=mixture.potential, num_steps=50, moves=underdamped_moves(), method=method
    )
    mcmc = models.run(
        *(kernel, 0),
        **{"warmup": 200, "samples": 200, "chains": 8, "chain_method": "vectorized"},
        init_params=jnp.linspace(-6.0, 4.0, 8),
    )
    state = mcmc.last_state
    for values in (state.log_theta, state.partition.lower, state.partition.upper):
        np.testing.assert_array_equal(values, np.broadcast_to(values[0], values.shape))
    x, log_weights = weighted_samples(mcmc)
    by_chain = (np.exp(log_weights) * (x > mixture.DIVIDE)).mean(1)
    error = by_chain.std(ddof=1) / 8**0.5
    assert abs(by_chain.mean() - mixture.MASS) < 4 * error + 0.01, error
    assert error < 0.05


@pytest.mark.slow
def test_bins_are_of_the_same_energies_where_each_chain_has_an_anchor_of_its_own():
    """The energies of a control variate are relative to the first anchor of the chain."""
    y = models.normal_data(1000)
    kernel = InteractingContourSGLD(models.normal, num_steps=20, energy="control_variate")
    mcmc = models.run(kernel, 0, y, warmup=200, chains=4, chain_method="vectorized")
    state = mcmc.last_state
    own = state.warmup.anchors.reference
    reference = np.asarray(own.high, float) + np.asarray(own.low, float)
    assert np.ptp(reference) > 1e-3
    lower = reference + np.asarray(state.partition.lower, float)
    np.testing.assert_allclose(lower, lower[0], atol=1e-3)
    width = state.partition.upper - state.partition.lower
    np.testing.assert_allclose(width, width[0], rtol=1e-5)
    np.testing.assert_array_equal(
        state.log_theta, np.broadcast_to(state.log_theta[0], state.log_theta.shape)
    )
