"""The identity of the gradient: 1 where draws are right, and what it says where they are not."""

import functools

import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import lax, random
from numpyro.infer.util import potential_energy, unconstrain_fn
from tiers import in_second_tier, in_third_tier

from numpyro_contour import SGLD, ContourSGLD, CyclicalSGLD, EnergyPartition, weighted_samples
from numpyro_contour.models.all_rows import FullData
from numpyro_contour.models.coordinates import constrained
from numpyro_contour.models.jaxprs import operations
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.runs import at_draws
from numpyro_contour.runs import equipartition as module
from numpyro_contour.runs.at_draws import unconstrained
from numpyro_contour.runs.equipartition import equipartition
from numpyro_contour.runs.finished_run import FinishedRun

CHAINS = 8


def run(kernel, *args, chains=CHAINS, samples=250, warmup=50, **arguments):
    return models.run(
        kernel, 0, *args, chains=chains, samples=samples, warmup=warmup,
        chain_method="vectorized", **arguments,
    )  # fmt: skip


def of_weights(mcmc, log_weights):
    return equipartition(FinishedRun.of(mcmc), log_weights)


def of_run(mcmc):
    return of_weights(mcmc, weighted_samples(mcmc)[1])


def even(mcmc):
    return np.zeros((mcmc.num_chains, mcmc.num_samples))


def z_scores(found, expected=1.0):
    """How many standard errors each coordinate is off, errors checked to be small ones."""
    assert (found["mcse"] > 0).all()
    assert (found["mcse"] < 0.2).all(), "a test that allows everything"
    return ((found["ratio"] - expected) / found["mcse"]).values


def is_right(found):
    return (np.abs(z_scores(found)) < 5).all() and (
        abs(found["mean_ratio"] - 1) < 5 * found["mean_mcse"]
    )


# --------------------------------------------------------------------------- a Gaussian

SD = np.geomspace(0.5, 2.0, 6).astype(np.float32)


def gaussian(x):
    return 0.5 * jnp.sum((x / SD) ** 2)


@functools.cache
def gaussian_run(temperature=1.0, **arguments):
    kernel = SGLD(
        potential_fn=gaussian, temperature=temperature, num_steps=100,
        **{"step_size": 0.1} | arguments,
    )  # fmt: skip
    return run(kernel, init_params=jnp.zeros((CHAINS, len(SD))))


def test_draws_of_a_gaussian():
    mcmc = gaussian_run()
    found = of_run(mcmc)
    assert list(found["coordinate"].values) == [f"z[{i}]" for i in range(6)]
    assert is_right(found)
    assert 0.4 < np.sqrt(np.mean(z_scores(found) ** 2)) < 2
    # It is the draws' variance over the true one.
    x = np.asarray(mcmc.get_samples(), np.float64)
    np.testing.assert_allclose(found["ratio"], x.var(0) / SD**2, rtol=1e-5)
    assert float(found["mean_ratio"]) == pytest.approx(float(found["ratio"].mean()), rel=1e-5)
    # Independent variances: draws a few steps of relaxation apart.
    assert float(found["mean_mcse"]) < float(found["mcse"].mean()) / 1.5


def test_steps_too_large_are_seen():
    r"""Euler's scheme x' = (1 - h) x + sqrt(2 h) s xi, h = eps / s^2, has variance v with

    v = (1 - h)^2 v + 2 h s^2, that is v = s^2 / (1 - h / 2).
    """
    step_size = 0.2
    found = of_run(gaussian_run(step_size=step_size, noise="independent"))
    h = step_size / SD**2
    assert (np.abs(z_scores(found, 1 / (1 - h / 2))) < 5).all()
    assert z_scores(found)[0] > 5  # 1.67 where the steps are largest
    assert found["ratio"][0] > 1.4


@pytest.mark.slow
def test_a_temperature_is_no_fault():
    assert is_right(of_run(gaussian_run(temperature=2.5)))
    assert of_run(gaussian_run(temperature=0.0)) is None


def test_draws_at_the_final_temperature_of_a_schedule():
    def cooling(count):
        return jnp.where(count < 12_000, 5.0, 0.5)

    mcmc = gaussian_run(temperature=cooling)
    log_weights = weighted_samples(mcmc)[1]
    assert np.isneginf(log_weights[:, :60]).all()
    found = of_weights(mcmc, log_weights)
    assert is_right(found)
    # The draws that have no weight do not enter, nor take any of the gradients.
    x = np.asarray(mcmc.get_samples(group_by_chain=True), np.float64)[
        :, np.isfinite(log_weights[0])
    ]
    np.testing.assert_allclose(found["ratio"], x.var((0, 1)) / SD**2 / 0.5, rtol=1e-5)
    assert of_weights(mcmc, np.where(np.arange(250) > 247, log_weights, -np.inf)) is None


# --------------------------------------------------------------------------- models


def by_hand(model, mcmc, args, kwargs):
    """The ratios by NumPyro's own transforms and density, over all rows."""
    latent = mcmc.last_state.z

    def products(values):
        z = unconstrain_fn(model, args, kwargs, {name: values[name] for name in latent})
        slope = jax.grad(lambda z: potential_energy(model, args, kwargs, z))(z)
        return [
            jnp.concatenate([jnp.ravel(tree[name]) for name in sorted(z)]) for tree in (z, slope)
        ]

    x, slope = jax.jit(lambda draws: lax.map(products, draws))(mcmc.get_samples())
    x, slope = np.asarray(x, np.float64), np.asarray(slope, np.float64)
    return ((x - x.mean(0)) * slope).mean(0)


@functools.cache
def constrained_run(minibatch, step_size):
    kernel = models.constrained_kernel("SGLD", step_size=step_size, num_steps=50)
    return run(kernel, *models.constrained_data(), model_kwargs={"minibatch": minibatch})


@pytest.mark.slow
def test_constrained_sites():
    mcmc = constrained_run(200, 5e-4)
    found = of_run(mcmc)
    names = ["inside", "scale", "shares[0]", "shares[1]", "upper"]
    assert list(found["coordinate"].values) == names
    assert is_right(found)


@pytest.mark.slow
def test_the_gradient_is_over_all_rows():
    """The chain saw 20 rows of 200 at a time: too much noise, and it is all rows that tell."""
    mcmc = constrained_run(20, 1e-3)
    found = of_weights(mcmc, even(mcmc))
    everything = models.constrained_data(), {"minibatch": 200}
    expected = by_hand(models.constrained, mcmc, *everything)
    np.testing.assert_allclose(found["ratio"], expected, rtol=1e-3)
    assert float(found["mean_ratio"]) > 1.3
    assert float(found["mean_ratio"] - 1) > 5 * float(found["mean_mcse"])


def test_unconstrained_is_the_inverse_of_constrained():
    data = models.constrained_data()
    potential = ModelPotential.of(models.constrained, data)
    shapes = {"scale": (), "shares": (2,), "upper": (), "inside": ()}
    keys = random.split(random.key(3), len(shapes))
    z = {name: 1.5 * random.normal(key, (50, *s)) for key, (name, s) in zip(keys, shapes.items())}
    like = jax.tree.map(lambda leaf: leaf[0], z)

    @jax.jit
    @jax.vmap
    def there_and_back(z):
        values = constrained(potential, z)
        return values, unconstrained(potential, values, like)

    values, back = there_and_back(z)
    assert set(back) == set(z)
    assert (values["inside"] < values["upper"]).all()
    for name, leaf in z.items():
        np.testing.assert_allclose(back[name], leaf, atol=2e-4)


def mixture_rows(y, minibatch, written_out=False):
    """Which of two components each row comes from is summed out."""
    share = numpyro.sample("share", dist.Beta(2.0, 2.0))
    mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
    locations = mu + jnp.array([0.0, 3.0])
    with numpyro.plate("rows", len(y), subsample_size=minibatch) as idx:
        component = dist.Categorical(jnp.stack([1 - share, share]))
        if written_out:
            both = dist.MixtureSameFamily(component, dist.Normal(locations, 1.0))
            numpyro.sample("y", both, obs=y[idx])
        else:
            k = numpyro.sample("k", component, infer={"enumerate": "parallel"})
            numpyro.sample("y", dist.Normal(locations[k], 1.0), obs=y[idx])


@pytest.mark.slow
@pytest.mark.parametrize("minibatch", [60, in_third_tier(5)])
def test_an_enumerated_model(minibatch):
    y = models.normal_data(rows=60) + 3.0 * (np.arange(60) < 20)
    mcmc = run(SGLD(mixture_rows, step_size=1e-3, num_steps=50), y, minibatch)
    found = of_run(mcmc)
    assert list(found["coordinate"].values) == ["mu", "share"]
    assert is_right(found) == (minibatch == 60)
    expected = by_hand(mixture_rows, mcmc, (y, 60, True), {})
    np.testing.assert_allclose(found["ratio"], expected, rtol=1e-3)


def regression(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
    log_scale = numpyro.sample("log_scale", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(y), subsample_size=30) as idx:
        numpyro.sample("y", dist.StudentT(8, mu, jnp.exp(log_scale)), obs=y[idx])


@pytest.mark.long
def test_a_contour_run_with_a_control_variate():
    y = models.normal_data(mean=1.0, rows=300)
    mcmc = run(ContourSGLD(regression, num_steps=10), y, warmup=150)
    assert mcmc.last_state.warmup.anchors.in_use.all()
    assert mcmc.get_extra_fields()["unconstrained"].shape == (2000, 2)
    found = of_run(mcmc)
    assert list(found["coordinate"].values) == ["log_scale", "mu"]
    # The preconditioned steps are as large as 10 % of the variance allow.
    assert (np.abs(found["ratio"] - 1) < 0.1 + 5 * found["mcse"]).all()
    assert not (np.abs(of_weights(mcmc, even(mcmc))["ratio"] - 1) < 0.25).any()


# --------------------------------------------------------------------------- weights, kernels


def plane(x):
    return 0.5 * jnp.sum(x**2)


@functools.cache
def contour_run():
    kernel = ContourSGLD(
        potential_fn=plane, step_size=0.05, num_steps=40, partition=EnergyPartition(0.0, 10.0, 20)
    )
    return run(kernel, init_params=jnp.ones((CHAINS, 2)))


def test_weights():
    mcmc = contour_run()
    x, log_weights = weighted_samples(mcmc)
    found = of_weights(mcmc, log_weights)
    assert is_right(found)
    x, weights = np.asarray(x, np.float64), np.exp(log_weights)[..., None]
    expected = (weights * (x - (weights * x).mean((0, 1))) * x).mean((0, 1))
    np.testing.assert_allclose(found["ratio"], expected, rtol=1e-5)
    unweighted = of_weights(mcmc, even(mcmc))
    assert (unweighted["ratio"] - 1 > 10 * unweighted["mcse"]).all()
    assert (unweighted["ratio"] > 1.7).all()
    # Whatever the scale of a chain's weights.
    shifted = of_weights(mcmc, log_weights + np.linspace(-5, 5, CHAINS)[:, None])
    np.testing.assert_allclose(shifted["ratio"], found["ratio"], rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", [in_second_tier("SGNHT"), "ReplicaExchangeSGHMC"])
def test_other_kernels_on_any_pytree(name):
    start = jax.tree.map(
        lambda x: jnp.broadcast_to(x, (CHAINS, *jnp.shape(x))), models.NESTED_START
    )
    mcmc = run(models.nested_kernel(name, num_steps=20), init_params=start)
    found = of_run(mcmc)
    names = ["a.b[0]", "a.b[1]", "c.0[0, 0]", "c.0[0, 1]", "c.0[1, 0]", "c.0[1, 1]", "c.1"]
    assert list(found["coordinate"].values) == names
    assert (np.abs(found["ratio"] - 1) < 0.03 + 5 * found["mcse"]).all()
    assert (found["mcse"] < 0.2).all()


def test_a_cycle_too_short_to_leave_the_mode_is_seen():
    """It explores at temperature 0, and then has 14 steps of which each forgets a twentieth."""
    kernel = CyclicalSGLD(
        potential_fn=plane, step_size=0.05, num_steps=20, cycle_length=20, exploration=0.3
    )
    found = of_run(run(kernel, init_params=jnp.ones((CHAINS, 2))))
    assert (found["ratio"] + 10 * found["mcse"] < 1).all()


def test_one_chain_is_as_several():
    kernel = SGLD(potential_fn=gaussian, step_size=0.1, num_steps=50)
    mcmc = models.run(kernel, 0, samples=1000, warmup=10, init_params=jnp.zeros(len(SD)))
    assert is_right(of_run(mcmc))


# --------------------------------------------------------------------------- how much is looked at


@pytest.mark.slow
def test_of_many_coordinates_evenly_spaced_ones():
    sd = np.geomspace(0.3, 1.0, 1001).astype(np.float32)
    kernel = SGLD(
        potential_fn=lambda z: 0.5 * jnp.sum((z["x"] / sd) ** 2), step_size=0.05, num_steps=12
    )
    start = {"x": jnp.zeros((4, 1001))}
    mcmc = run(kernel, chains=4, samples=150, warmup=20, init_params=start)
    found = of_run(mcmc)
    places = [int(name[2:-1]) for name in found["coordinate"].values]
    assert places == [round(i) for i in np.linspace(0, 1000, 200)]
    x = np.asarray(mcmc.get_samples()["x"], np.float64)[:, places]
    np.testing.assert_allclose(found["ratio"], x.var(0) / sd[places] ** 2, rtol=1e-5)
    # 200 independent coordinates: their mean is some 14 times as precise as one of them.
    assert float(found["mean_mcse"]) < float(found["mcse"].mean()) / 8
    assert abs(float(found["mean_ratio"]) - 1) < 5 * float(found["mean_mcse"])
    assert np.abs(z_scores(found)).max() < 5.5


def test_too_few_draws_say_nothing():
    mcmc = run(SGLD(potential_fn=plane, step_size=0.1), samples=13, init_params=jnp.ones((8, 2)))
    assert of_weights(mcmc, even(mcmc)) is not None
    assert of_weights(mcmc, np.where(np.arange(13) < 12, even(mcmc), -np.inf)) is None


def test_a_chain_without_weight_says_nothing():
    mcmc = contour_run()
    log_weights = weighted_samples(mcmc)[1].copy()
    log_weights[3] = -np.inf
    assert of_weights(mcmc, log_weights) is None


@pytest.mark.slow
def test_many_short_chains():
    kernel = SGLD(potential_fn=plane, step_size=0.1, num_steps=20)
    mcmc = run(kernel, chains=600, samples=5, init_params=jnp.zeros((600, 2)))
    found = of_run(mcmc)
    # 500 chains of 4 draws.
    assert is_right(found)
    x = np.asarray(mcmc.get_samples(group_by_chain=True), np.float64)
    x = x[np.linspace(0, 599, 500).round().astype(int)][:, [0, 1, 3, 4]]
    np.testing.assert_allclose(found["ratio"], x.var((0, 1)), rtol=1e-5)
    # Three draws a chain have no standard error.
    short = run(kernel, chains=100, samples=3, init_params=jnp.zeros((100, 2)))
    assert np.isnan(of_run(short)["mcse"]).all()


def test_fewer_draws_where_gradients_are_costly(monkeypatch):
    mcmc = gaussian_run()
    operations = module._gradients(FinishedRun.of(mcmc), np.arange(6)).operations
    assert 12 < operations < 100
    monkeypatch.setattr(module, "_OPERATIONS", 401 * operations)
    x = np.asarray(mcmc.get_samples(group_by_chain=True), np.float64)
    x = x[:, np.linspace(0, 249, 50).round().astype(int)]
    np.testing.assert_allclose(of_run(mcmc)["ratio"], x.var((0, 1)) / SD**2, rtol=1e-5)
    monkeypatch.setattr(module, "_OPERATIONS", 99 * operations)
    assert of_run(mcmc) is None


def test_operations_are_counted():
    def count(function, *shapes):
        arguments = [jnp.ones(shape) for shape in shapes]
        return operations(jax.make_jaxpr(function)(*arguments).jaxpr)

    assert count(lambda x: x + 1, (7, 3)) == 21
    assert count(lambda a, b: a @ b, (5, 6), (6, 7)) == 5 * 6 * 7
    assert count(jax.jit(lambda a, b: a @ b), (5, 6), (6, 7)) == 5 * 6 * 7
    steps = count(lambda x: lax.scan(lambda c, _: (c * 2, None), x, None, length=50)[0], (7,))
    assert steps == 7 * 50
    # All rows of a model, in how many pieces ever.
    counts = []
    for rows in (1000, 2000):
        potential = ModelPotential.of(models.normal, (models.normal_data(rows=rows),))
        for chunk_bytes in (2**28, 2**10):
            full_data = FullData(potential, {"mu": jnp.zeros(())}, chunk_bytes)
            counts.append(count(full_data.energy_and_gradient, (1,)))
    assert counts[0] > 5 * 1000
    assert counts[2] / counts[0] == pytest.approx(2.0, rel=0.1)
    assert 0.5 < counts[1] / counts[0] < 2
    assert 0.5 < counts[3] / counts[2] < 2


# --------------------------------------------------------------------------- faults


@pytest.mark.slow
def test_a_fault_costs_a_warning_not_the_results(monkeypatch):
    def fails(*_):
        raise RuntimeError("no such site")

    mcmc = constrained_run(200, 5e-4)
    monkeypatch.setattr(at_draws, "unconstrained", fails)
    with pytest.warns(UserWarning, match="not checked: .* RuntimeError: no such site"):
        assert of_run(mcmc) is None


def walled_run(wall):
    """The exact gradient is not a number beyond a wall, which the run does not see."""

    def energy(key, x):
        return jax.value_and_grad(lambda x: 0.5 * x**2)(x)

    def exact(x):
        return jnp.where(jnp.abs(x) > wall, jnp.nan, 0.5) * x**2

    kernel = SGLD(potential_fn=exact, energy=energy, step_size=0.1, num_steps=50)
    return run(kernel, init_params=jnp.zeros(CHAINS))


def test_gradients_that_are_not_finite():
    mcmc = walled_run(3.0)
    x = np.asarray(mcmc.get_samples(), np.float64)
    kept = x[np.abs(x) <= 3.0]
    assert 0 < kept.size < x.size < 1.01 * kept.size
    found = of_run(mcmc)
    # Every chain has the same weight, whatever its draws beyond the wall.
    np.testing.assert_allclose(found["ratio"], kept.var(), rtol=1e-3)
    assert is_right(found)
    mcmc = walled_run(1.0)
    share = (np.abs(mcmc.get_samples()) > 1.0).mean()
    with pytest.warns(UserWarning, match=f"not finite at {share:.0%} of them"):
        assert of_run(mcmc) is None


@pytest.mark.slow
def test_an_improper_density_is_not_right():
    """Of a coordinate that the potential does not know."""
    kernel = SGLD(potential_fn=lambda x: 0.5 * x[0] ** 2, step_size=0.1, num_steps=20)
    found = of_run(run(kernel, init_params=jnp.zeros((CHAINS, 2))))
    assert abs(float(found["ratio"][0]) - 1) < 5 * float(found["mcse"][0])
    assert found["ratio"].values[1] == found["mcse"].values[1] == 0.0
