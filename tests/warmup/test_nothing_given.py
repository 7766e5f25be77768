"""Every kernel with nothing given: what is tuned for Langevin steps serves all diffusions."""

import jax.numpy as jnp
import models
import numpy as np
import pytest
from jax import random
from scipy import stats

from numpyro_contour import SGHMC, SGLD, SGNHT, CyclicalSGLD, to_inference_data, weighted_samples
from numpyro_contour.examples import mixture
from numpyro_contour.kernels import langevin_moves, nose_hoover_moves, underdamped_moves
from numpyro_contour.warmup.stages.tuning import NOISE_SHARE, initial_tuning

SCALES = np.array([0.1, 1.0, 10.0])


def gaussian(x):
    return 0.5 * jnp.sum((x / SCALES) ** 2)


ARGUMENTS = {
    # Long cycles, as each starts from the mode.
    "CyclicalSGLD": {"cycle_length": 5000, "exploration": 0.1},
    "CyclicalSGHMC": {"cycle_length": 5000, "exploration": 0.1},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", models.of_second_tier("SGNHT", among=models.PARTS))
def test_scales_over_two_orders(name):
    chains = 16
    arguments = models.ROWS[name] | ARGUMENTS.get(name, {})
    kernel = getattr(models.numpyro_contour, name)(potential_fn=gaussian, num_steps=10, **arguments)
    start = jnp.asarray(np.random.default_rng(0).normal(size=(chains, 3)) * 20.0)
    mcmc = models.run(
        kernel,
        0,
        warmup=300,
        samples=2000,
        chains=chains,
        chain_method="vectorized",
        init_params=start,
    )
    x, log_weights = weighted_samples(mcmc)
    x, w = np.asarray(x, np.float64) / SCALES, np.exp(log_weights)[..., None]
    mean = (w * x).mean(1)
    error = mean.std(0, ddof=1) / chains**0.5
    # The Bonferroni quantile for 60 comparisons with 15 degrees of freedom.
    limit = stats.t.ppf(1 - 0.001 / 60, chains - 1)
    assert (np.abs(mean.mean(0)) < limit * error).all()
    assert (error < 0.05).all()
    square = (w * x**2).mean(1)
    error = square.std(0, ddof=1) / chains**0.5
    assert (np.abs(square.mean(0) - 1) < limit * error + 0.02).all()
    assert (error < 0.03).all()
    idata = to_inference_data(mcmc)
    assert idata["warmup"]["relaxation_times"].min() > 100


def test_the_step_of_each_kind_of_moves():
    """With momentum c it takes the time of a Langevin step, where noise and mixing allow it."""
    tuning = initial_tuning(1, None, 0.04)

    def step(moves, tuning):
        return float(moves.found_step(tuning, jnp.ones(()), True).step_size)

    assert step(langevin_moves(), tuning) == pytest.approx(0.04)
    for moves in (underdamped_moves(0.7), nose_hoover_moves(0.7)):
        assert step(moves, tuning) == pytest.approx(1.7 * 0.04)
        noisy = tuning._replace(gradient_noise=jnp.array([50.0]))
        assert step(moves, noisy) == pytest.approx(2 * NOISE_SHARE * 0.3 / 50)
    assert step(underdamped_moves(0.7), initial_tuning(1, None, 0.4)) == pytest.approx(0.2)

    def first_step(kernel_class):
        kernel = kernel_class(potential_fn=lambda x: 0.5 * jnp.sum(x**2))
        return float(kernel.first_state(random.key(0), 100, jnp.ones(1)).step_size)

    assert first_step(CyclicalSGLD) == pytest.approx(2 * first_step(SGLD))


@pytest.mark.long
@pytest.mark.optimized
def test_a_step_with_momentum_takes_the_time_of_a_langevin_step():
    steps = {}
    for kernel_class in (SGLD, SGHMC, SGNHT, CyclicalSGLD):
        kernel = kernel_class(potential_fn=lambda x: 0.5 * jnp.sum(x**2), jumps=False)
        mcmc = models.run(kernel, 0, warmup=1000, samples=1, init_params=jnp.ones(200))
        steps[kernel_class] = float(mcmc.get_extra_fields()["step_size"][0])
    # In 200 dimensions the acceptance asks for steps below the largest that are allowed.
    assert steps[SGLD] < 0.1
    assert steps[SGHMC] == pytest.approx(1.9 * steps[SGLD], rel=0.1)
    assert steps[SGNHT] == pytest.approx(0.1)  # its largest
    # The first of a cycle.
    assert steps[CyclicalSGLD] == pytest.approx(2 * steps[SGLD], rel=0.1)


@pytest.mark.slow
def test_momentum_takes_smaller_steps_where_gradients_are_noisy():
    y = models.normal_data(rows=1000)
    found = {}
    for kernel_class, momentum in ((SGLD, None), (SGHMC, 0.7), (SGHMC, 0.9)):
        arguments = {} if momentum is None else {"momentum": momentum}
        kernel = kernel_class(models.normal, energy="minibatch", num_steps=1, **arguments)
        mcmc = models.run(kernel, 0, y, warmup=1000, samples=1, model_kwargs={"minibatch": 2})
        tuning = mcmc.last_state.warmup.tuning
        noise = float(jnp.max(tuning.preconditioner * tuning.gradient_noise))
        found[momentum] = float(mcmc.get_extra_fields()["step_size"][0]) * noise
    # The share of the gradient's noise in a step is eps M V / (2 (1 - c)).
    assert found[None] == pytest.approx(2 * NOISE_SHARE, rel=0.01)
    for momentum in (0.7, 0.9):
        assert found[momentum] == pytest.approx(2 * NOISE_SHARE * (1 - momentum), rel=0.01)


@pytest.mark.long
@pytest.mark.optimized
@pytest.mark.parametrize("name", ["ContourSGHMC", "ContourSGNHT"])
def test_steps_with_momentum_are_short_enough_for_the_mass_of_two_modes(name):
    """At the step that Langevin's limit would allow the mass is 0.56, or no partition is found."""
    chains = 32
    kernel = getattr(models.numpyro_contour, name)(
        potential_fn=mixture.potential, num_steps=50, collect_theta=False
    )
    mcmc = models.run(
        kernel,
        0,
        warmup=300,
        samples=1000,
        chains=chains,
        chain_method="vectorized",
        init_params=jnp.where(jnp.arange(chains) % 5 < 2, -6.0, 4.0),
    )
    x, log_weights = weighted_samples(mcmc)
    mass = (np.exp(log_weights) * (np.asarray(x) > mixture.DIVIDE)).mean(1)
    error = mass.std(ddof=1) / chains**0.5
    assert abs(mass.mean() - mixture.MASS) < 4 * error + 0.015
    assert error < 0.015
