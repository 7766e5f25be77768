"""The UCI regressions of the paper: the pieces that they are made of, and that they run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import MCMC
from scipy import stats

from numpyro_contour import SGHMC, SGLD

pytestmark = pytest.mark.usefixtures("quick_compilation")

STEPS = 5


@pytest.fixture
def uci(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))
    pytest.importorskip("matplotlib")
    from benchmarks.papers import uci

    return uci


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(12, 3)), rng.normal(size=12)


def numpy_energy(position, x, y, rows):
    features = x.shape[1]
    inputs = position[: features * 50].reshape(features, 50)
    bias, outputs, constant = position[features * 50 : -51], position[-51:-1], position[-1]
    total = 0.0
    for row, target in zip(x, y):
        total += 0.5 * (target - np.maximum(row @ inputs + bias, 0) @ outputs - constant) ** 2
    return rows / len(y) * total + 0.5 * 1e-4 * position @ position


def test_potential_is_scaled_from_the_minibatch_to_all_rows(uci, data):
    x, y = data
    position = np.asarray(uci.initial_position(jax.random.key(0), 3), np.float64)
    assert position.shape == (3 * 50 + 50 + 50 + 1,)
    for chosen, rows in ((slice(None), 12), (slice(4), 12), (slice(4), 400)):
        found = uci.potential(jnp.asarray(position), x[chosen], y[chosen], rows)
        np.testing.assert_allclose(
            found, numpy_energy(position, x[chosen], y[chosen], rows), rtol=1e-5
        )


def test_minibatches_give_the_mean_energy_and_gradient_of_all_rows(uci, data):
    x, y = (jnp.asarray(a, jnp.float32) for a in data)
    position = uci.initial_position(jax.random.key(0), 3)
    energy = jax.vmap(uci.minibatch_energy(x, y), (0, None))
    values, gradients = jax.jit(energy)(jax.random.split(jax.random.key(1), 4000), position)
    full, gradient = jax.value_and_grad(uci.potential)(position, x, y, 12)
    error = values.std() / np.sqrt(len(values))
    assert 0 < error < 0.02 * full
    assert abs(values.mean() - full) < 4 * error
    errors = gradients.std(0) / np.sqrt(len(values))
    assert np.all(np.abs(gradients.mean(0) - gradient) < 5 * errors + 1e-5)


def descent(gradient, start, step_size, momentum):
    path, velocity, x = [], np.zeros_like(start), start
    for _ in range(STEPS):
        velocity = np.float32(momentum) * velocity - np.float32(step_size) * gradient(x)
        x = x + velocity
        path.append(x)
    return np.stack(path)


def potential(x):
    return jnp.sum(jnp.array([1.0, 3.0, 0.5]) * x**2) / 2


def gradient(x):
    return np.float32([1.0, 3.0, 0.5]) * x


START = np.float32([1.0, -2.0, 30.0])


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_temperature_0_is_gradient_descent(uci, momentum):
    sampler = uci.sampler_of(False, momentum > 0, jnp.zeros(()), 1.0)
    energy = lambda key, x: jax.value_and_grad(potential)(x)
    state = sampler.init(jax.random.key(0), jnp.asarray(START), energy)
    path = []
    for keys in jax.random.split(jax.random.key(1), (STEPS, 2)):
        state = sampler.step(keys, state, energy)
        path.append(np.asarray(state.chain.position))
    expected = descent(gradient, START, uci.STEP_SIZE, momentum)
    assert np.ptp(path, 0).min() > 0
    np.testing.assert_array_max_ulp(np.stack(path), expected, 2)


@pytest.mark.parametrize(("kernel", "momentum"), [(SGLD, 0.0), (SGHMC, 0.9)], ids=["SGLD", "SGHMC"])
def test_kernels_at_temperature_0_are_gradient_descent(kernel, momentum):
    arguments = {"momentum": momentum} if momentum else {}
    made = kernel(potential_fn=potential, step_size=0.1, temperature=0.0, **arguments)
    mcmc = MCMC(made, num_warmup=0, num_samples=STEPS, progress_bar=False)
    mcmc.run(jax.random.key(0), init_params=jnp.asarray(START))
    expected = descent(gradient, START, 0.1, momentum)
    np.testing.assert_allclose(mcmc.get_samples(), expected, rtol=2e-6, atol=1e-6)


def test_scores_are_those_of_the_weighted_mixture(uci):
    rng = np.random.default_rng(1)
    predicted, observed = rng.normal(size=(2, 3, 7)), 2 * rng.normal(size=7)
    weights = np.array([[0.2, 0.5, 0.3], [0.0, 0.9, 0.1]])
    sd = rng.uniform(0.3, 1.0, size=(2, 3))
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights) + np.array([[5.0], [-900.0]])
    mean = (weights[..., None] * predicted).sum(1)
    np.testing.assert_allclose(uci.average(predicted, log_weights), mean, rtol=1e-10)
    scores = uci.score(predicted, log_weights, sd, observed)
    np.testing.assert_allclose(scores.rmse, np.sqrt(((mean - observed) ** 2).mean(1)))
    for chain in range(2):
        normals = [stats.norm(m, s) for m, s in zip(predicted[chain], sd[chain])]
        density = sum(w * n.pdf(observed) for w, n in zip(weights[chain], normals))
        below = sum(w * n.cdf(observed) for w, n in zip(weights[chain], normals))
        assert scores.log_likelihood[chain] == pytest.approx(np.log(density).mean())
        assert scores.coverage[chain] == np.mean((below > 0.05) & (below < 0.95))
    assert 0 < scores.coverage.max() < 1


def test_criterion_counts_each_published_cell_once(uci):
    assert uci.holds(1.15, 1.0)
    assert not uci.holds(1.16, 1.0)
    means = {task: {name: task.rmse_of(name) for name in uci.ALGORITHMS} for task in uci.TASKS}
    assert uci.count_cells(means) == uci.count_cells(means, counted=False) == (24, 24)
    for task in uci.TASKS:
        if not task.counts:
            means[task]["SGD"] *= 1.2
        if task.row == "wine":
            means[task]["CSGHMC"] *= 1.2
            means[task]["SGHMC"] *= 1.1
    assert uci.count_cells(means) == (23, 24)
    assert uci.count_cells(means, counted=False) == (22, 24)


def test_quick_form_writes_its_section(uci, tmp_path):
    from benchmarks.papers.__main__ import main

    main(["uci", "--quick", "--output", str(tmp_path)])
    page = (tmp_path / "papers.md").read_text()
    assert "<!-- uci -->" in page
    assert page.count("| yacht in the paper | 0.81 | 0.72 | 0.72 |") == 2
    assert page.count(" of 3 cells are at most 1.15 times") == 2
    assert page.count("| yacht | SGLD | ") == 1
    assert "nan" not in page
