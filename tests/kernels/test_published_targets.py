"""The paper's targets at the paper's settings, through NumPyro's MCMC; longer runs: benchmarks/."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from numpyro.infer import MCMC

from numpyro_contour import SGLD, ContourSGLD, EnergyPartition, robbins_monro, weighted_samples
from numpyro_contour.examples import mixture, nine_modes

MIXTURE = EnergyPartition(0.0, 50.0, 50)


def run(kernel, steps, start, num_steps=100):
    mcmc = MCMC(
        kernel,
        num_warmup=0,
        num_samples=steps // num_steps,
        num_chains=len(start),
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(random.key(0), init_params=start)
    x, log_weights = weighted_samples(mcmc)
    return mcmc, np.asarray(x, np.float64), np.exp(log_weights)


def mixture_kernel(kernel_class=ContourSGLD, **arguments):
    if kernel_class is ContourSGLD:
        arguments["partition"] = MIXTURE
        arguments["gain"] = robbins_monro(10, 0.8, 100, maximum=1.0)
        arguments["collect_theta"] = False
    return kernel_class(
        potential_fn=mixture.potential,
        energy=mixture.noisy_energy(0.01),
        step_size=0.1,
        num_steps=100,
        **arguments,
    )


@pytest.fixture(scope="module")
def mixture_run():
    return run(mixture_kernel(), 1_000_000, jnp.zeros(10))


@pytest.mark.long
@pytest.mark.optimized
def test_mixture_theta(mixture_run):
    mcmc, _, _ = mixture_run
    theta = np.exp(np.asarray(mcmc.last_state.log_theta, np.float64))
    distance = 0.5 * np.abs(theta - mixture.exact_theta(MIXTURE)).sum(1)
    assert distance.mean() <= 0.05


@pytest.mark.long
@pytest.mark.optimized
def test_mixture_mean_and_evenness(mixture_run):
    _, x, w = mixture_run
    means = (w * x).mean(1)
    assert abs(means.mean()) <= 0.15
    # The bound is no accident of a small error: a mass off by 0.03 would move the mean by 0.3.
    assert means.std(ddof=1) / 10**0.5 < 0.1
    assert w.sum() ** 2 / (w**2).sum() / w.size >= 0.6


@pytest.mark.slow
@pytest.mark.optimized
def test_mixture_defeats_plain_sgld():
    _, x, _ = run(mixture_kernel(SGLD), 1_000_000, jnp.zeros(10))
    assert np.abs(x.mean(1)).mean() > 1


@pytest.mark.long
@pytest.mark.optimized
def test_reservoir_and_last_draws_agree(mixture_run):
    _, x, w = mixture_run
    _, x_last, w_last = run(mixture_kernel(draw="last"), 1_000_000, jnp.zeros(10))
    masses = [(w * (x > mixture.DIVIDE)).mean(1), (w_last * (x_last > mixture.DIVIDE)).mean(1)]
    error = np.sqrt(sum(mass.var(ddof=1) / 10 for mass in masses))
    assert abs(masses[0].mean() - masses[1].mean()) < 4 * error


@pytest.mark.long
@pytest.mark.optimized
@pytest.mark.parametrize(("step_size", "limit"), [(0.001, 0.19), (0.02, 0.10)])
def test_nine_modes(step_size, limit):
    kernel = ContourSGLD(
        potential_fn=nine_modes.potential,
        energy=nine_modes.noisy_energy(0.1),
        step_size=step_size,
        partition=EnergyPartition(-7.0, 18.0, 100),
        gain=robbins_monro(10, 0.8, 100, maximum=0.003),
        num_steps=100,
        collect_theta=False,
    )
    _, x, w = run(kernel, 200_000, jnp.zeros((32, 2)))
    exact = nine_modes.exact_masses()
    distance = [0.5 * np.abs(nine_modes.mode_masses(a, b) - exact).sum() for a, b in zip(x, w)]
    assert np.mean(distance) <= limit


@pytest.mark.parametrize("kernel_class", [SGLD, ContourSGLD])
def test_one_evaluation_of_value_and_gradient_a_step(kernel_class):
    """Counted by a callback that runs at each evaluation."""
    calls = []

    def energy(key, x):
        jax.debug.callback(lambda: calls.append(1))
        return jax.value_and_grad(mixture.potential)(x)

    arguments = {"partition": MIXTURE} if kernel_class is ContourSGLD else {}
    kernel = kernel_class(
        potential_fn=mixture.potential, energy=energy, step_size=0.1, num_steps=10, **arguments
    )
    mcmc = MCMC(kernel, num_warmup=0, num_samples=20, progress_bar=False)
    mcmc.run(random.key(0), init_params=jnp.array(0.0))
    jax.effects_barrier()
    assert len(calls) == 1 + 200  # the start, and one a step
