"""Weights at the energies over all data, where the run itself saw noisy ones."""

import copy
import re
import warnings

import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random

from numpyro_contour import (
    ContourSGLD,
    EnergyPartition,
    print_summary,
    to_inference_data,
    weighted_samples,
)
from numpyro_contour.core.diffusions import Step, langevin
from numpyro_contour.core.samplers.chain import start
from numpyro_contour.core.samplers.energy_noise import energy_noise_of_move
from numpyro_contour.examples import mixture
from numpyro_contour.plots import plot_energy_histogram
from numpyro_contour.runs.draw_weights import smoothed
from numpyro_contour.runs.energies_over_all_rows import full_energies
from numpyro_contour.runs.finished_run import FinishedRun

CHAINS = 16


def noisy(sigma, potential=mixture.potential):
    """A potential with noise of standard deviation `sigma(x)`, one number for value and slope."""

    def energy(key, x):
        xi = random.normal(key)
        return jax.value_and_grad(lambda x: potential(x) + xi * sigma(x))(x)

    return energy


def masses_and_variances(mcmc, **arguments):
    """The mass of the right mode, its error, and the variances within both modes."""
    x, log_weights = weighted_samples(mcmc, **arguments)
    x, w = np.asarray(x, np.float64), np.exp(log_weights)
    right = x > mixture.DIVIDE
    mass = (w * right).mean(1)
    variances = [
        (w * side * (x - centre) ** 2).sum() / (w * side).sum()
        for side, centre in ((~right, -6), (right, 4))
    ]
    return mass.mean(), mass.std(ddof=1) / np.sqrt(CHAINS), np.array(variances)


def noisy_run(sigma, **arguments):
    kernel = ContourSGLD(
        potential_fn=mixture.potential, energy=noisy(sigma), num_steps=20, **arguments
    )
    return models.run(
        kernel,
        0,
        init_params=jnp.linspace(-8, 6, CHAINS),
        chains=CHAINS,
        chain_method="vectorized",
        warmup=400,
        samples=2500,
    )


@pytest.mark.long
def test_noise_that_differs_between_modes():
    """1 nat in the left mode and 3 in the right: the run's own weights favour the noisy mode."""
    mcmc = noisy_run(lambda x: 1 + 2 * jax.nn.sigmoid(2 * (x + 1)))
    mass, error, variances = masses_and_variances(mcmc)
    assert error < 0.016
    assert abs(mass - mixture.MASS) < 0.01 + 3 * error
    np.testing.assert_allclose(variances, 1.0, atol=0.06)
    mass, error, variances = masses_and_variances(mcmc, energy="estimate")
    assert mass > mixture.MASS + 0.03
    assert variances[1] > 1.2
    # The noise of each draw is that of its own place.
    x = np.asarray(mcmc.get_samples(group_by_chain=True))
    noise = full_energies(FinishedRun.of(mcmc)).noise
    assert np.median(noise[x < -4]) == pytest.approx(1.0, abs=0.1)
    assert np.median(noise[x > 2]) == pytest.approx(3.0, abs=0.3)


@pytest.mark.slow
def test_noise_of_three_bins_widens_nothing():
    """Bins narrower than the noise make the multiplier jump, which heats an uncorrected step."""
    mcmc = noisy_run(lambda x: 1.5, partition=EnergyPartition(1.0, 21.0, 40))
    mass, error, variances = masses_and_variances(mcmc)
    assert abs(mass - mixture.MASS) < 0.015 + 3 * error
    np.testing.assert_allclose(variances, 1.0, atol=0.04)
    assert masses_and_variances(mcmc, energy="estimate")[2].mean() > 1.07


# --------------------------------------------------------------------------- pieces


def test_smoothing_is_a_mean_over_the_noise():
    rng = np.random.default_rng(0)
    nodes = rng.normal(size=(5, 12)).cumsum(1)
    place, noise = np.array([-2.0, 0.3, 5.0, 10.9, 14.0]), np.array([0.0, 0.5, 3.0, 1.0, 8.0])
    xi, shares = np.polynomial.hermite_e.hermegauss(150)
    points = place[:, None] + noise[:, None] * xi
    values = [np.interp(p, np.arange(12), f) for p, f in zip(points, nodes)]
    exact = np.array(values) @ shares / shares.sum()
    np.testing.assert_allclose(smoothed(nodes, place, noise), exact, atol=0.03)
    np.testing.assert_allclose(smoothed(nodes, place, np.zeros(5)), exact_at(nodes, place))


def exact_at(nodes, place):
    return [np.interp(p, np.arange(12), f) for p, f in zip(place, nodes)]


def test_the_injected_noise_makes_room_for_the_noise_of_the_drift():
    """Of gradient and multiplier together; their variances add up to that without noise."""
    step, multiplier, noise, spread = 0.1, 0.5, 2.0, 0.3
    diffusion = langevin("independent", jnp.array([1.5]), jnp.array([noise]))
    key_steps, key_gradients, key_multipliers = random.split(random.key(0), 3)

    def move(key, gradient, factor):
        zero = jnp.zeros(1)
        numbers = Step(step, 1.0, multiplier, spread**2)
        proposed = diffusion.propose(key, zero, (), gradient, numbers).position
        injected = proposed + step * 1.5 * multiplier * gradient
        return injected - step * 1.5 * factor * gradient

    n = 200_000
    gradients = 1.0 + jnp.sqrt(noise) * random.normal(key_gradients, (n, 1))
    factors = multiplier + spread * random.normal(key_multipliers, (n, 1))
    moves = jax.jit(jax.vmap(move))(random.split(key_steps, n), gradients, factors)
    # sqrt(2 / n) is .003.
    assert float(moves.var()) / (2 * step * 1.5) == pytest.approx(1.0, abs=0.015)


def test_the_noise_of_energies_is_told_from_both_ends_of_a_move():
    def quadratic(x):
        return 0.5 * x @ jnp.array([[2.0, 0.3], [0.3, 1.0]]) @ x + x[0]

    x, y = jnp.array([0.3, -1.0]), jnp.array([0.7, -0.8])
    before, after = (
        start(random.key(0), z, lambda key, z: jax.value_and_grad(quadratic)(z), langevin())
        for z in (x, y)
    )
    # The rise of a quadratic is that of the mean gradient along the move.
    assert float(energy_noise_of_move(before, after)) < 1e-10
    n, sd = 100_000, 1.7

    def noisily(key):
        noise = sd * random.normal(key, (2,))
        return energy_noise_of_move(
            before._replace(potential_energy=before.potential_energy + noise[0]),
            after._replace(potential_energy=after.potential_energy + noise[1]),
        )

    found = np.asarray(jax.jit(jax.vmap(noisily))(random.split(random.key(1), n)), np.float64)
    assert abs(found.mean() - sd**2) < 4 * sd**2 * (2 / n) ** 0.5


# --------------------------------------------------------------------------- what a user sees


@pytest.fixture(scope="module")
def regression_run():
    """Few draws of a regression with a control variate, two chains."""
    y = models.normal_data(mean=1.0, rows=300)

    def regression(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
        with numpyro.plate("rows", len(y), subsample_size=30) as idx:
            numpyro.sample("y", dist.StudentT(5, mu, 1.0), obs=y[idx])

    kernel = ContourSGLD(regression, num_steps=10)
    return models.run(kernel, 0, y, chains=2, warmup=60, samples=50), y


def exact_energy(mu, y):
    mu = np.asarray(mu, np.float64)[..., None]
    rows = -dist.StudentT(5, 0.0, 1.0).log_prob(np.asarray(y, np.float64) - mu)
    return np.asarray(rows).sum(-1) + mu[..., 0] ** 2 / 200 + np.log(10 * np.sqrt(2 * np.pi))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The energy partition of chain")
def test_energies_are_exported_as_the_models_own(regression_run, capsys):
    """The run's are differences to each chain's anchor."""
    mcmc, y = regression_run
    idata = to_inference_data(mcmc)
    stats, partition, warmup = (
        idata[group] for group in ("weighted_sample_stats", "energy_partition", "warmup")
    )
    exact = exact_energy(mcmc.get_samples(group_by_chain=True)["mu"], y)
    np.testing.assert_allclose(stats["lp"], -exact, atol=2e-3)
    excess = stats["potential_energy_estimate"].values - exact
    noise = stats["energy_noise"].values
    # A tenth of the minibatch's own noise, 55 nats, and normal enough.
    assert 0 < noise.mean() < 5
    assert np.abs(excess / noise).mean() == pytest.approx(0.8, abs=0.3)
    lower, lowest = warmup["lower_edge"].values[:, -1], partition["lower_edge"].values[:, 0]
    np.testing.assert_allclose(lower, exact.min(1), atol=2.0)
    np.testing.assert_allclose(warmup["energy"][:, -1], exact.mean(1), atol=2.0)
    widths = np.diff(partition["lower_edge"].values)[:, 0]
    # So short a warm-up leaves bins over, which lie below.
    below = (lower - lowest) / widths
    assert (below >= 0).all()
    np.testing.assert_allclose(below, below.round(), atol=1e-3)
    np.testing.assert_allclose(
        warmup["energy_noise_in_bins"],
        warmup["energy_noise"].values / widths,
        rtol=1e-4,
    )
    assert warmup["control_variate"].values.tolist() == [1, 1]
    assert (warmup["gradient_noise_share"] < 0.1).all()
    assert (warmup["gradient_noise_share"] > 0).all()
    print_summary(mcmc)
    said = re.search(
        r"Noise at the end of the warm-up: energy (.*) nats \((.*) bins\), gradient at most "
        r"(.*)% of a step's noise; control variate in use in 2 of 2 chains",
        capsys.readouterr().out,
    )
    assert float(said[1]) == pytest.approx(float(np.median(warmup["energy_noise"])), rel=0.01)
    assert 0 < float(said[3]) < 10
    matplotlib = pytest.importorskip("matplotlib.figure")
    axes = plot_energy_histogram(mcmc, ax=matplotlib.Figure().subplots())
    assert axes.get_xlim()[0] > exact.min() - 10


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The energy partition of chain")
def test_weights_are_psi_at_the_energy_over_all_rows_averaged_over_the_noise(regression_run):
    mcmc, _ = regression_run
    run = FinishedRun.of(mcmc)
    full, partition = full_energies(run), run.state.partition
    xi = np.linspace(-6, 6, 4001)
    density = np.exp(-0.5 * xi**2) / np.exp(-0.5 * xi**2).sum()
    _, expected = weighted_samples(mcmc, energy="estimate")
    for chain, log_weights in enumerate(expected):
        nodes = run.log_psi_nodes(chain, run.fields["log_theta"][chain])
        lower, width = float(partition.lower[chain]), float(partition.width[chain])
        places = lower + width * (np.arange(nodes.shape[1]) + run.node_offset)
        for draw, log_psi in enumerate(nodes):
            around = full.energy[chain, draw] + full.noise[chain, draw] * xi
            felt = density @ np.interp(around, places, log_psi)
            seen = float(run.fields["potential_energy_estimate"][chain, draw])
            log_weights[draw] += run.settings["zeta"] * (felt - np.interp(seen, places, log_psi))
        log_weights -= np.log(np.exp(log_weights).mean())
    np.testing.assert_allclose(weighted_samples(mcmc)[1], expected, atol=2e-3)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The energy partition of chain")
def test_passes_over_all_data_are_made_once_a_run(regression_run):
    mcmc, _ = regression_run
    first = full_energies(FinishedRun.of(mcmc))
    weighted_samples(mcmc)
    assert full_energies(FinishedRun.of(mcmc)) is first


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The energy partition of chain")
def test_the_anchor_of_other_data_is_refused(regression_run):
    mcmc, y = regression_run
    other = copy.copy(mcmc)
    other._args = (y + 3,)  # as after a run that went on from a state of another
    with pytest.raises(ValueError, match=r"anchor has a potential energy of .* Warm up again"):
        weighted_samples(other)


def test_a_potential_that_is_not_unbiased_is_refused():
    biased = noisy(lambda x: 0.5, lambda x: mixture.potential(x) + 0.5)
    kernel = ContourSGLD(
        potential_fn=mixture.potential,
        energy=biased,
        step_size=0.1,
        partition=EnergyPartition(1.0, 21.0, 40),
    )
    mcmc = models.run(kernel, 0, init_params=jnp.array(4.0), samples=100)
    with pytest.raises(ValueError, match=r"`energy` takes an unbiased .* \+0\.\d* \+- 0\.\d*"):
        weighted_samples(mcmc)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weighted_samples(mcmc, energy="estimate")
