"""The UCI regressions of the paper: the pieces that they are made of, and that they run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer import MCMC
from scipy import stats

from numpyro_contour import SGHMC, SGLD

STEPS = 5


@pytest.fixture(autouse=True)
def _from_the_root(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))


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


def test_potential_is_scaled_from_the_minibatch_to_all_rows(data):
    from benchmarks.papers.uci import network

    x, y = data
    position = np.asarray(network.initial_position(jax.random.key(0), 3), np.float64)
    assert position.shape == (3 * 50 + 50 + 50 + 1,)
    for chosen, rows in ((slice(None), 12), (slice(4), 12), (slice(4), 400)):
        found = network.potential(jnp.asarray(position), x[chosen], y[chosen], rows)
        np.testing.assert_allclose(
            found, numpy_energy(position, x[chosen], y[chosen], rows), rtol=1e-5
        )


def test_minibatches_give_the_mean_energy_and_gradient_of_all_rows(data):
    from benchmarks.papers.uci import network

    x, y = (jnp.asarray(a, jnp.float32) for a in data)
    position = network.initial_position(jax.random.key(0), 3)
    energy = jax.vmap(network.minibatch_energy(x, y), (0, None))
    values, gradients = jax.jit(energy)(jax.random.split(jax.random.key(1), 4000), position)
    full, gradient = jax.value_and_grad(network.potential)(position, x, y, 12)
    error = values.std() / np.sqrt(len(values))
    assert 0 < error < 0.02 * full
    assert abs(values.mean() - full) < 4 * error
    errors = gradients.std(0) / np.sqrt(len(values))
    assert np.all(np.abs(gradients.mean(0) - gradient) < 5 * errors + 1e-5)


def test_what_is_kept_of_the_runs(data):
    from benchmarks.papers.uci import network, runs

    x, y = (jnp.asarray(np.tile(a.T, 20).T, jnp.float32) for a in data)
    position = network.initial_position(jax.random.key(0), 3)
    squares = (y - network.network(position, x)) ** 2
    # Two models of the first half and two of the second, whose weights are 1 to 3.
    predicted = np.array([[[9.0, 9.0], [4.0, 4.0], [0.0, 2.0], [4.0, 2.0]]])
    log_weights = np.log([[7.0, 1.0, 1.0, 3.0]])
    found = runs.runs_of((predicted, log_weights, squares[None]), np.array([[3.0, 4.0]]), 1.0)
    assert found.scores.rmse[0] == pytest.approx(np.sqrt((0.0 + 4.0) / 2))
    assert found.earlier[0] == pytest.approx(np.sqrt((1.0 + 0.0) / 2))
    assert found.kish[0] == pytest.approx(16 / 10 / 2)
    assert found.training[0] == pytest.approx(np.sqrt(squares.mean()))
    energy = jax.jit(jax.vmap(lambda key: network.minibatch_energy(x, y)(key, position)[0]))
    noise = np.std(energy(jax.random.split(jax.random.key(1), 4000)))
    assert found.energy_noise[0] == pytest.approx(noise, rel=0.06)


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
def test_temperature_0_is_gradient_descent(momentum):
    from benchmarks.papers.uci import runs

    sampler = runs.sampler_of(False, momentum > 0, jnp.zeros(()), 1.0)
    energy = lambda key, x: jax.value_and_grad(potential)(x)
    state = sampler.init(jax.random.key(0), jnp.asarray(START), energy)
    path = []
    for keys in jax.random.split(jax.random.key(1), (STEPS, 2)):
        state = sampler.step(keys, state, energy)
        path.append(np.asarray(state.chain.position))
    expected = descent(gradient, START, runs.STEP_SIZE, momentum)
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


def test_scores_are_those_of_the_weighted_mixture():
    from benchmarks.papers.uci import scores

    rng = np.random.default_rng(1)
    predicted, observed = rng.normal(size=(2, 3, 7)), 2 * rng.normal(size=7)
    weights = np.array([[0.2, 0.5, 0.3], [0.0, 0.9, 0.1]])
    sd = rng.uniform(0.3, 1.0, size=(2, 3))
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights) + np.array([[5.0], [-900.0]])
    mean = (weights[..., None] * predicted).sum(1)
    np.testing.assert_allclose(scores.average(predicted, log_weights), mean, rtol=1e-10)
    found = scores.score(predicted, log_weights, sd, observed)
    np.testing.assert_allclose(found.rmse, np.sqrt(((mean - observed) ** 2).mean(1)))
    for chain in range(2):
        normals = [stats.norm(m, s) for m, s in zip(predicted[chain], sd[chain])]
        density = sum(w * n.pdf(observed) for w, n in zip(weights[chain], normals))
        below = sum(w * n.cdf(observed) for w, n in zip(weights[chain], normals))
        assert found.log_likelihood[chain] == pytest.approx(np.log(density).mean())
        assert found.coverage[chain] == np.mean((below > 0.05) & (below < 0.95))
    assert 0 < found.coverage.max() < 1


def test_criterion_counts_each_published_cell_once():
    from benchmarks.papers.uci import published

    assert published.holds(1.15, 1.0)
    assert not published.holds(1.16, 1.0)
    means = {
        task: {name: task.rmse_of(name) for name in published.ALGORITHMS}
        for task in published.TASKS
    }
    assert published.count_cells(means) == published.count_cells(means, counted=False) == (24, 24)
    for task in published.TASKS:
        if not task.counts:
            means[task]["SGD"] *= 1.2
        if task.row == "wine":
            means[task]["CSGHMC"] *= 1.2
            means[task]["SGHMC"] *= 1.1
    assert published.count_cells(means) == (23, 24)
    assert published.count_cells(means, counted=False) == (22, 24)


def test_readings_are_compared_on_the_cells_that_count():
    from benchmarks.papers.uci import published, runs, text

    def cell(rmse):
        scores = text.Scores(np.full(3, rmse), np.zeros(3), np.zeros(3))
        made = runs.Runs(scores, *(np.ones(3) for _ in range(4)))
        return runs.Cell(made, made)

    found = {
        task: {name: cell(task.rmse_of(name)) for name in published.ALGORITHMS}
        for task in published.TASKS
    }
    counting = {task: dict(cells) for task, cells in found.items() if task.counts}
    yacht = next(task for task in counting if task.row == "yacht")
    counting[yacht] |= {"CSGLD": cell(2.0)}
    lines = text.reading_table({"first": found, "other": counting}).splitlines()
    assert "heating" not in lines[0]
    assert len({line.count("|") for line in lines}) == 1
    assert "| first | 24 of 24 | 24 of 24 | 1.02 / 0.76 | 3.98 / 4.15 | 0.69 / 0.72 |" in lines[2]
    assert "| other | 23 of 24 | 23 of 24 | 1.02 / 0.76 | 3.98 / 4.15 | 2.00 / 0.72 |" in lines[3]
    line = text.misses({yacht: counting[yacht]}, "fixed")
    assert "yacht, CSGLD: 2.00 ± 0.00 (standard error), limit 0.79" in line
    assert "0.72 without flattening" in line
    assert "CSGHMC" not in line


@pytest.mark.long
def test_quick_form_writes_its_section(tmp_path):
    from benchmarks.__main__ import main

    main(["uci", "--quick", "--output", str(tmp_path)])
    page = (tmp_path / "papers.md").read_text()
    assert "<!-- uci -->" in page
    assert page.count("| yacht in the paper | 0.81 | 0.72 | 0.72 |") == 2
    assert page.count(" of 3 cells are at most 1.15 times") == 2
    assert page.count("| yacht | SGLD | ") == 1
    assert page.count("| as above | ") == page.count("| theta by equation (15) | ") == 1
    assert "nan" not in page
