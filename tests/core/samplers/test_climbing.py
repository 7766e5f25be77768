"""Barriers on request: the climbing sampler and `ContourSGLD(barrier=...)`."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from numpyro.infer import MCMC
from scipy import stats

from numpyro_contour import ContourSGLD, EnergyPartition, diagnose, to_inference_data
from numpyro_contour import weighted_samples as weigh
from numpyro_contour.core.flattening.wang_landau import (
    initial_wang_landau,
    normalised_log_theta,
    update_wang_landau,
)
from numpyro_contour.core.flattening.widening_partition import WideningPartition
from numpyro_contour.core.samplers.climbing import LevelSteps, climbing
from numpyro_contour.core.samplers.window import run_window
from numpyro_contour.schedules import Constant

pytestmark = pytest.mark.optimized

SCALES = jnp.array([0.5, 1.0, 3.0])


def gaussian(key, x):
    return 0.5 * jnp.sum((x / SCALES) ** 2), x / SCALES**2


@pytest.mark.slow
def test_neither_theta_nor_steps_bias_the_draws():
    """Steps four times as long and other shapes higher up, and a theta that is far from right."""
    bins = WideningPartition(0.5, 1.5, 1.5, 12.0, 20.0, 12)
    rough = 1.5 * random.normal(random.key(3), (12,)) - 0.5 * jnp.arange(12)
    square = jnp.stack([1 / SCALES**2, 4 / SCALES**2, jnp.array([9.0, 9.0, 0.5]), jnp.ones(3)])
    steps = LevelSteps(jnp.log(jnp.array([0.4, 1.6, 6.0, 4.0])), square, jnp.zeros(4))
    sampler = climbing(Constant(1.0), Constant(0.0), steps, bins, False, False, False)
    chains, windows, num_steps = 8, 2000, 10

    @jax.jit
    @jax.vmap
    def chain(key, start):
        key_init, key_run = random.split(key)
        state = sampler.init(key_init, start, gaussian)
        state = state._replace(theta=state.theta._replace(log_theta=rough))

        def body(state, key):
            state, window = run_window(key, state, gaussian, sampler, num_steps, "reservoir")
            return state, (window.draw.position, window.log_weight)

        return jax.lax.scan(body, state, random.split(key_run, windows))[1]

    x, log_weight = chain(random.split(random.key(0), chains), jnp.ones((chains, 3)))
    weight = np.exp(np.asarray(log_weight, np.float64))[..., None]
    squares = (np.asarray(x, np.float64) / np.asarray(SCALES)) ** 2
    energies = 0.5 * squares.sum(-1, keepdims=True)
    # The energy is cut off at 20, which 1e-8 of the density is above.
    for values, exact in ((squares, 1.0), (energies, 1.5), (energies**2, 3.75)):
        of_chain = (weight * values).sum(1) / weight.sum(1)
        error = of_chain.std(0, ddof=1) / chains**0.5
        assert np.all(error < 0.06 * exact)
        assert np.all(np.abs(of_chain.mean(0) - exact) < 4 * error), (of_chain.mean(0), error)


def two_modes(depth=40.0, size=5, mass=0.6):
    """Two normals of unit variance, so far apart that their barrier is `depth` nats high."""
    away = jnp.zeros(size).at[0].set((2 * depth) ** 0.5)

    def potential(x):
        return -jnp.logaddexp(
            jnp.log(mass) - 0.5 * jnp.sum((x - away) ** 2),
            jnp.log(1 - mass) - 0.5 * jnp.sum((x + away) ** 2),
        )

    return potential, away


def run(potential, start, barrier, draws, num_steps=100, chains=16, seed=0, **arguments):
    kernel = ContourSGLD(potential_fn=potential, barrier=barrier, num_steps=num_steps, **arguments)
    mcmc = MCMC(
        kernel,
        num_warmup=draws,
        num_samples=draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(random.key(seed), init_params=jnp.tile(start, (chains, 1)))
    return mcmc


@pytest.fixture(scope="module")
def over_40_nats():
    potential, start = two_modes()
    return run(potential, start, 40.0, 1000)


@pytest.mark.slow
def test_a_barrier_of_40_nats_is_crossed_all_the_time(over_40_nats):
    x, log_weights = weigh(over_40_nats)
    x, weights = np.asarray(x, np.float64), np.exp(np.asarray(log_weights, np.float64))
    right = x[..., 0] > 0
    crossings = (right[:, 1:] != right[:, :-1]).sum(1)
    assert crossings.min() >= 20
    masses = (weights * right).mean(1)
    error = masses.std(ddof=1) / len(masses) ** 0.5
    assert error < 0.03
    assert abs(masses.mean() - 0.6) < 4 * error
    inside = (weights[..., None] * (x[..., 1:] ** 2)).mean(1)
    spread = inside.std(0, ddof=1) / len(masses) ** 0.5
    assert np.all(spread < 0.03)
    assert np.all(np.abs(inside.mean(0) - 1) < 4 * spread)


@pytest.mark.slow
def test_theta_is_that_of_the_exact_energies_over_20_nats(over_40_nats):
    state = over_40_nats.last_state
    for chain in range(16):
        edges = np.asarray(state.partition.edges[chain], np.float64)
        # Below the barrier there are two wells of chi-squared radii.
        upper = edges[1:]
        tail = sum(m * stats.chi2.sf(2 * np.maximum(edges + np.log(m), 0), 5) for m in (0.6, 0.4))
        inside = (upper > 4) & (upper < 36)
        exact = np.log(tail[:-1] - tail[1:])[inside]
        difference = np.asarray(state.log_theta[chain], np.float64)[inside] - exact
        assert np.ptp(exact) > 20
        assert np.ptp(difference) < 1.5


@pytest.mark.slow
def test_the_report_says_how_often_and_how_far_chains_climbed(over_40_nats):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = to_inference_data(over_40_nats)
    report = diagnose(idata)
    found = {verdict.check: verdict for verdict in report.verdicts}
    assert found["round trips"].figure >= 20
    assert "up to 42." in found["round trips"].finding
    assert found["climb"].figure == 1
    assert "climbed 100% of the barrier of 40 nats" in found["climb"].finding
    assert found["climb"].outcome == "good"


@pytest.mark.slow
def test_a_climb_that_ended_half_way_is_called_bad(over_40_nats):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = to_inference_data(over_40_nats)
    stats_of_run = idata["weighted_sample_stats"]
    stats_of_run.attrs["barrier"] = 200.0
    found = {verdict.check: verdict for verdict in diagnose(idata).verdicts}
    assert found["climb"].outcome == "bad"
    assert 0.2 < found["climb"].figure < 0.4
    assert found["round trips"].outcome == "bad"


@pytest.mark.slow
def test_a_deeper_mode_is_found_and_weighed():
    """A mode of four times the mass, 3 nats deeper, on the other side of some 15 nats."""
    away, narrow = jnp.zeros(5).at[0].set(6.0), 0.75

    def potential(x):
        wide = jnp.log(0.2) - 0.5 * jnp.sum((x + away) ** 2)
        deep = jnp.log(0.8) - 5 * jnp.log(narrow) - 0.5 * jnp.sum(((x - away) / narrow) ** 2)
        return -jnp.logaddexp(wide, deep)

    mcmc = run(potential, -away, 20.0, 1000)
    x, log_weights = weigh(mcmc)
    right, weights = np.asarray(x)[..., 0] > 0, np.exp(np.asarray(log_weights, np.float64))
    masses = (weights * right).mean(1)
    error = masses.std(ddof=1) / len(masses) ** 0.5
    assert error < 0.03
    assert abs(masses.mean() - 0.8) < 4 * error
    # All chains began in the other mode, whose mean energy is 4.1, and moved their bins down.
    assert np.all(np.asarray(mcmc.last_state.partition.typical) < 3.3)


@pytest.mark.slow
def test_energies_that_were_never_seen_keep_nothing_waiting():
    """Up and down between the fourth bin and the last: the lower bins are another mode's."""
    bins = WideningPartition(0.5, 1.5, 1.5, 12.0, 20.0, 12)
    centres = 0.5 * (bins.edges[1:] + bins.edges[:-1])

    def visit(learning, bin_number):
        return update_wang_landau(
            learning,
            bins,
            centres[bin_number],
            bin_number,
            1.0,
            jnp.asarray(True),
            Constant(0.0),
            jnp.asarray(True),
        )

    @jax.jit
    def visits(learning, numbers):
        return jax.lax.scan(lambda state, j: (visit(state, j), state.gain), learning, numbers)

    below_the_top, trip = np.tile(np.r_[3:10, 10:3:-1], 100), np.r_[3:12, 10:3:-1]
    learning, gains = visits(initial_wang_landau(12), jnp.asarray(below_the_top))
    np.testing.assert_array_equal(gains, 0.5)
    # Up and down at the top is no climb.
    _, gains = visits(learning, jnp.asarray(np.r_[3:12, 10, 11, 10, 11]))
    np.testing.assert_allclose(gains[-4:], 0.25)
    learning, gains = visits(learning, jnp.asarray(np.tile(trip, 400)))
    # Halved at each top, until it is the number of bins over that of the steps.
    np.testing.assert_allclose(gains[: 4 * len(trip) : len(trip)], [0.5, 0.25, 0.125, 0.0625])
    steps = len(below_the_top) + 400 * len(trip)
    assert float(learning.gain) == pytest.approx(12 / steps, rel=1e-3)
    log_theta = normalised_log_theta(learning, bins, 1.0)
    np.testing.assert_allclose(log_theta[:3], log_theta[3], rtol=1e-5)
    # A deeper mode is found: theta there begins from that of the lowest bin before it.
    begun = visit(learning, jnp.asarray(1))
    assert float(begun.gain) == 0.5
    assert int(begun.steps) == 1
    from_there = normalised_log_theta(begun, bins, 1.0)
    np.testing.assert_allclose(from_there[1] - from_there[2:4], [0.5, 0.5], atol=1e-4)
    np.testing.assert_allclose(from_there[0], from_there[1], rtol=1e-5)


def subsampled(y):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    with numpyro.plate("rows", len(y), subsample_size=10) as rows:
        numpyro.sample("y", dist.Normal(mu, 1), obs=y[rows])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"barrier": 0}, "`barrier` takes a number above 0, but got 0"),
        ({"barrier": 40.0, "zeta": 0.5}, "`zeta` takes None where `barrier` is given, but got 0.5"),
        ({"barrier": 40.0, "num_bins": 2}, "`num_bins` takes an integer of at least 3"),
        ({"barrier": 40.0, "step_size": 0.1}, "`step_size` takes None where `barrier` is given"),
        (
            {"barrier": 40.0, "partition": EnergyPartition(0.0, 1.0, 3)},
            "`partition` takes None where `barrier` is given",
        ),
        (
            {"barrier": 40.0, "noise": "independent"},
            "`noise` takes 'averaged' where `barrier` is given, but got 'independent'",
        ),
        (
            {"barrier": 40.0, "temperature": lambda count: 1.0},
            "`temperature` takes a number where `barrier` is given",
        ),
    ],
)
def test_what_the_barrier_decides_is_not_given_beside_it(arguments, message):
    with pytest.raises(ValueError, match=message):
        ContourSGLD(subsampled, **arguments)


@pytest.mark.parametrize("energy", [None, "minibatch", "control_variate", lambda key, z: None])
def test_a_climb_needs_exact_energies(energy):
    kernel = ContourSGLD(subsampled, barrier=40.0, energy=energy)
    mcmc = MCMC(kernel, num_warmup=50, num_samples=10, progress_bar=False)
    with pytest.raises(ValueError, match="`energy` takes 'full' where `barrier` is given"):
        mcmc.run(random.key(0), jnp.zeros(100))


@pytest.mark.slow
def test_a_climb_over_all_rows_at_another_temperature():
    kernel = ContourSGLD(subsampled, barrier=20.0, energy="full", temperature=2.0, num_steps=20)
    mcmc = MCMC(kernel, num_warmup=300, num_samples=1000, progress_bar=False)
    y = 1.0 + random.normal(random.key(1), (100,))
    mcmc.run(random.key(0), y)
    samples, log_weights = weigh(mcmc)
    weights = np.exp(np.asarray(log_weights, np.float64))
    mu = np.asarray(samples["mu"], np.float64)
    precision = 100 + 1 / 25
    mean = (weights * mu).mean()
    # Some 200 independent draws' worth; the variance is twice the posterior's.
    sd = (2 / precision) ** 0.5
    assert abs(mean - float(y.sum()) / precision) < 4 * sd / 200**0.5
    variance = (weights * (mu - mean) ** 2).mean()
    assert abs(variance / sd**2 - 1) < 4 * (2 / 200) ** 0.5
    partition = mcmc.last_state.partition
    # 20 nats above the mean energy, a passage in one dimension, and ten temperatures.
    height = float(partition.upper - partition.typical)
    assert height == pytest.approx(20 / (1 - 0.02**2) + 20, rel=1e-3)


@pytest.mark.slow
def test_too_short_a_warmup_is_made_longer():
    kernel = ContourSGLD(potential_fn=lambda x: jnp.sum(x**2), barrier=20.0, num_steps=1)
    mcmc = MCMC(kernel, num_warmup=20, num_samples=1, progress_bar=False)
    with pytest.warns(UserWarning, match="of at least 50 .50 steps.: 30 more are made"):
        mcmc.run(random.key(0), init_params=jnp.zeros(2))
    assert int(mcmc.last_state.sampler.chain.steps) == 51
