"""Kernels to which nothing is given: what their warm-up finds, and how it can be run."""

import warnings

import jax
import jax.numpy as jnp
import models
import numpy as np
import pytest
from numpyro.infer import MCMC
from tiers import in_second_tier, in_third_tier

from numpyro_contour import SGLD, ContourSGLD, EnergyPartition, to_inference_data, weighted_samples
from numpyro_contour.examples import mixture
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.warmup.stages.flatten import gain_since

CHAINS = 8
# A search for modes, of which these targets have one, takes most of the time to compile.
FASTER = {"jumps": False}
SCALES = jnp.array([1e-4, 1.0, 30.0, 1e5])


def badly_scaled(x):
    return 0.5 * jnp.sum((x / SCALES) ** 2)


def run(kernel, *args, warmup=200, samples=600, chains=CHAINS, start=None, seed=0, **arguments):
    arguments = {"chain_method": "vectorized", "progress_bar": False} | arguments
    mcmc = MCMC(kernel, num_warmup=warmup, num_samples=samples, num_chains=chains, **arguments)
    mcmc.run(jax.random.key(seed), *args, init_params=start)
    return mcmc


def weighted(mcmc):
    """Draws as (chains, draws, d) and weights, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x, log_weights = weighted_samples(mcmc)
    x = np.asarray(jax.tree.leaves(x)[0], np.float64)
    return x.reshape(*log_weights.shape, -1), np.exp(log_weights)


def check_moments(x, weights, mean, sd, mean_within, sd_within):
    """Pooled weighted means, in sds, and ratios of sds."""
    w = weights[..., None]
    found = (w * x).mean((0, 1))
    spread = np.sqrt((w * (x - found) ** 2).mean((0, 1)))
    np.testing.assert_allclose((found - mean) / sd, 0.0, atol=mean_within)
    np.testing.assert_allclose(spread / sd, 1.0, atol=sd_within)


# --------------------------------------------------------------------------- what is found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "where"),
    [
        in_second_tier(SGLD, "far"),
        (ContourSGLD, "far"),
        in_second_tier(ContourSGLD, "offset"),
    ],
)
def test_a_gaussian_of_nine_orders_of_scale(kernel, where):
    def potential(x):
        return badly_scaled(x) + (1e6 if where == "offset" else 0.0)

    start = (30.0 if where == "far" else 1.0) * jnp.ones((CHAINS, 4)) * SCALES
    x, weights = weighted(run(kernel(potential_fn=potential, num_steps=20, **FASTER), start=start))
    # 8 chains of 12,000 steps at a step of 0.25 have 3,000 effective draws or more: errors of .02
    # and .015 (contour a third more). Float32 rounds energies of 1e6 to 0.06 nats.
    check_moments(x, weights, 0.0, np.asarray(SCALES), 0.1, 0.07)


@pytest.mark.slow
def test_both_modes_of_the_mixture():
    kernel = ContourSGLD(potential_fn=mixture.potential, num_steps=20, collect_theta=False)
    start = jnp.where(jnp.arange(CHAINS) < 4, -6.0, 4.0)
    x, weights = weighted(run(kernel, warmup=1000, samples=5000, start=start))
    masses = (weights * (x[..., 0] > mixture.DIVIDE)).mean(1)
    # A chain of 1e5 steps has an error of .03, see docs/benchmarks.md.
    assert masses.mean() == pytest.approx(mixture.MASS, abs=0.04)
    assert np.abs(masses - mixture.MASS).mean() < 0.06


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [in_third_tier(SGLD), ContourSGLD])
def test_minibatches_do_not_widen_the_posterior(kernel):
    rows, n = 1000, 50
    y = models.normal_data(mean=2.0, rows=rows)
    mcmc = run(kernel(models.normal, num_steps=20, minibatch_size=n, energy="minibatch"), y)
    x, weights = weighted(mcmc)
    sd = 1 / np.sqrt(rows)
    check_moments(x, weights, float(y.mean()), sd, 0.15, 0.12)
    # Nothing is flattened under so much noise: draws chosen by noisy weights would be uneven.
    assert 1 / (weights**2).mean() > 0.8
    # Rows with replacement: V = N**2 / n times the variance of a row's gradient.
    noise = np.asarray(mcmc.last_state.warmup.tuning.gradient_noise)
    np.testing.assert_allclose(noise, rows**2 / n * float(y.var()), rtol=0.2)


@pytest.mark.slow
def test_every_start_finds_the_same_settings():
    start = jnp.linspace(-3, 3, CHAINS)[:, None] * SCALES
    mcmc = run(ContourSGLD(potential_fn=badly_scaled, num_steps=20), start=start)
    warmup = mcmc.last_state.warmup
    curvature = np.asarray(warmup.tuning.preconditioner) / np.asarray(SCALES) ** 2
    np.testing.assert_allclose(curvature, 1.0, rtol=0.1)
    partition = mcmc.last_state.partition
    # Energies are those of a chi-square: 1 % quantile .15, sd sqrt(2).
    width = np.asarray(partition.width)
    np.testing.assert_allclose(width, 0.5 * np.sqrt(2), rtol=0.35)
    # Bins that are out of reach in so short a warm-up lie below these.
    lower = np.asarray(warmup.history.lower)[:, -1]
    assert (lower < 0.3).all()
    assert (lower > -1.0).all()


# --------------------------------------------------------------------------- what is given


GIVEN = {
    "step_size": ({"step_size": 0.05}, lambda s: s.step_size, 0.05),
    "partition": (
        {"partition": EnergyPartition(0.0, 30.0, 40), "preconditioner": jnp.full(4, 0.7)},
        lambda s: s.partition.upper,
        30.0,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [in_third_tier("step_size"), "partition"])
def test_what_is_given_is_kept_and_the_rest_found(name):
    arguments, look, expected = GIVEN[name]
    kernel = ContourSGLD(
        potential_fn=lambda x: 0.5 * jnp.sum(x**2), num_steps=20, **arguments, **FASTER
    )
    mcmc = run(kernel, start=jnp.ones((CHAINS, 4)))
    np.testing.assert_allclose(look(mcmc.last_state), expected, rtol=1e-6)
    if "preconditioner" in arguments:
        np.testing.assert_allclose(mcmc.last_state.warmup.tuning.preconditioner, 0.7)
    x, weights = weighted(mcmc)
    check_moments(x, weights, 0.0, 1.0, 0.12, 0.1)


@pytest.mark.slow
def test_number_of_bins_and_no_preconditioner():
    kernel = ContourSGLD(
        potential_fn=lambda x: x**2, num_bins=33, preconditioner="identity", **FASTER
    )
    state = run(kernel, warmup=100, samples=5, chains=1, start=jnp.array(1.0)).last_state
    assert state.log_theta.shape == (33,)
    np.testing.assert_array_equal(state.warmup.tuning.preconditioner, 1.0)


def test_a_given_preconditioner_scales_the_steps():
    kernel = SGLD(potential_fn=badly_scaled, step_size=0.2, preconditioner=SCALES**2, num_steps=20)
    x, weights = weighted(run(kernel, start=jnp.zeros((CHAINS, 4))))
    check_moments(x, weights, 0.0, np.asarray(SCALES), 0.1, 0.07)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given", [{}, in_third_tier({"partition": EnergyPartition(0.0, 30.0, 40)})]
)
def test_the_gain_counts_from_the_first_update_of_theta(given):
    kernel = ContourSGLD(potential_fn=lambda x: 0.5 * jnp.sum(x**2), num_steps=5, **given, **FASTER)
    state = run(kernel, warmup=100, samples=3, chains=1, start=jnp.ones(2)).last_state
    bounds = np.asarray(kernel.parts.plan.bounds(100))
    before = bounds[
        min(i for i, s in enumerate(kernel.stage_names()) if s in ("window", "learn")) - 1
    ]
    assert int(state.warmup.gain_origin) == 5 * before
    gain = gain_since(kernel.settings["gain"], state.warmup.gain_origin, jnp.array(True))
    assert float(gain(5 * before + 7)) == float(kernel.settings["gain"](7))


# --------------------------------------------------------------------------- ways of running


def settings_of(mcmc):
    warmup = mcmc.last_state.warmup
    tuning = warmup.tuning._replace(moments=())  # those of the draws go on
    return [np.asarray(x) for x in jax.tree.leaves((tuning, warmup.history))]


@pytest.mark.long
def test_chains_mapped_by_vmap_find_the_same():
    def found(method):
        kernel = ContourSGLD(models.normal, num_steps=1)
        mcmc = run(
            kernel, models.normal_data(), warmup=100, samples=20, chains=2, chain_method=method
        )
        return np.asarray(mcmc.last_state.warmup.history.step_size)

    # Rounding differs, and the search follows it.
    together, one_by_one = found(jax.vmap), found("sequential")
    np.testing.assert_allclose(together[:, :3], one_by_one[:, :3], rtol=0.05)


@pytest.mark.slow
def test_warmup_then_run_is_run():
    y = models.normal_data()
    arguments = {"num_warmup": 100, "num_samples": 20, "jit_model_args": True}
    at_once = MCMC(ContourSGLD(models.normal, num_steps=1), progress_bar=False, **arguments)
    at_once.run(jax.random.key(0), y)
    mcmc = MCMC(ContourSGLD(models.normal, num_steps=1), progress_bar=False, **arguments)
    mcmc.warmup(jax.random.key(0), y)
    mcmc.run(mcmc.post_warmup_state.rng_key, y)
    for a, b in zip(settings_of(at_once), settings_of(mcmc)):
        np.testing.assert_array_equal(a, b)
    # Going on finds nothing anew.
    mcmc.post_warmup_state = mcmc.last_state
    mcmc.run(jax.random.key(5), y)
    for a, b in zip(settings_of(at_once), settings_of(mcmc)):
        np.testing.assert_array_equal(a, b)


# --------------------------------------------------------------------------- what is said


@pytest.mark.slow
def test_the_warmup_is_exported():
    start = {"a": jnp.ones((2, 2)), "b": jnp.zeros(2)}
    kernel = ContourSGLD(
        potential_fn=lambda z: 0.5 * (jnp.sum(z["a"] ** 2) + z["b"] ** 2),
        num_steps=20,
        **FASTER,
    )
    mcmc = run(kernel, chains=2, start=start)
    group = to_inference_data(mcmc)["warmup"]
    assert group["step_size"].dims == ("chain", "stage")
    assert (group.attrs["num_warmup"], group.attrs["target_acceptance"]) == (200, 0.9)
    assert list(group["coordinate"].values) == ["a[0]", "a[1]", "b"]
    assert group["stage"].values[0] == "1 descent"
    assert group["stage"].values[-1] == "10 learn"
    warmup = mcmc.last_state.warmup
    np.testing.assert_allclose(group["preconditioner"], warmup.tuning.preconditioner)
    # Where the bins that are in reach begin; the others lie below them.
    np.testing.assert_allclose(group["lower_edge"], warmup.history.lower)
    assert (group["lower_edge"][:, -1].values >= mcmc.last_state.partition.lower).all()
    np.testing.assert_allclose(group["upper_edge"][:, -1], mcmc.last_state.partition.upper)
    np.testing.assert_allclose(group["step_size"][:, -1], mcmc.last_state.step_size, rtol=1e-6)
    assert (group["energy_noise"] == 0).all()
    # 600 draws of 20 steps at M = 1; flattened coordinates have a larger variance than 1.
    expected = 600 * 20 * group["step_size"][:, -1].values / 1.5
    np.testing.assert_allclose(group["relaxation_times"].mean("coordinate"), expected, rtol=0.6)
    np.testing.assert_allclose(group["energy"][:, -1], 1.5, atol=0.5)


def test_the_progress_bar_names_the_stage():
    kernel = ContourSGLD(potential_fn=lambda x: 0.5 * jnp.sum(x**2))
    state = kernel.first_state(jax.random.key(0), 100, jnp.ones(2), (), {})
    assert kernel.get_diagnostics_str(state).startswith("descent, energy 1.0")
    state = state._replace(warmup=state.warmup._replace(iteration=jnp.array(100)))
    assert kernel.get_diagnostics_str(state).startswith("energy 1.0")


@pytest.mark.slow
def test_noise_that_forces_small_steps_is_named():
    def said(minibatch, num_steps, samples=100):
        energy = "minibatch" if minibatch < 1000 else None
        kernel = SGLD(models.normal, num_steps=num_steps, minibatch_size=minibatch, energy=energy)
        mcmc = run(kernel, models.normal_data(rows=1000), warmup=100, samples=samples, chains=4)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            weighted_samples(mcmc)
        found = FinishedRun.of(mcmc).relaxation_times()
        return [str(w.message) for w in caught], found.times[:, 0], found.noise[:, 0]

    # V / c = N**2 / n / N is 500, and the largest step 0.4 / V: 100 draws of 20 steps are
    # 1.6 relaxation times, and the chain only diffuses; with 1,000 steps they are 80.
    messages, times, share = said(2, num_steps=20)
    # V of a window over that of the window before: 200 steps each give it to 10 %.
    assert share.mean() == pytest.approx(500 / 501, rel=0.25)
    assert (times < 10).all()
    assert any("forces steps too small" in m and "`mu` of chain" in m for m in messages), messages
    messages, times, _ = said(2, num_steps=1000)
    # A relative error of sqrt(2 / 80) in the variance of each of four chains.
    assert times.mean() == pytest.approx(80, rel=0.3)
    assert not messages
    # Exact gradients are never the cause of a run that is too short.
    messages, times, _ = said(1000, num_steps=1, samples=10)
    assert times.min() < 10
    assert not any("forces" in m for m in messages)


FAULTS = {
    "falling": (lambda x: -jnp.sum(x), "still falling"),  # improper: the energy has no bottom
    "not finite": (
        lambda x: jnp.where(jnp.abs(x - 1.0).max() < 1e-6, 0.0, jnp.nan) + 0 * x.sum(),
        "did not move",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", [in_third_tier("falling"), "not finite"])
def test_a_failed_warmup_is_named(fault):
    potential, says = FAULTS[fault]
    mcmc = run(
        ContourSGLD(potential_fn=potential, num_steps=1, **FASTER),
        warmup=200,
        samples=50,
        start=jnp.ones((CHAINS, 2)),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        weighted_samples(mcmc)
    assert any(says in str(w.message) for w in caught), [str(w.message) for w in caught]
