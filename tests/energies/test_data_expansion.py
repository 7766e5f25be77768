"""Rows that are expanded in their data: no bias at any position, noise that is told, reasons."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from tiers import in_third_tier

from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.energies.clusters import Clusters, clusters_of
from numpyro_contour.energies.data_expansion import (
    data_expansion,
    home_of,
    of_centroids,
    remainders,
    variance_of_expansion,
)
from numpyro_contour.models.all_rows import FullData, Reference
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.row_terms import terms_outside
from numpyro_contour.models.typical_positions import typical_positions

MINIBATCHES = 10_000


# --------------------------------------------------------------------------- targets of two modes


def mixture_of_two(size, minibatch):
    """Two modes, at -D and D."""
    g, p = np.random.default_rng(2), 0.3
    D = np.sqrt(2 * np.sqrt(12 / size) / (p * (1 - p)))
    y = np.where(g.random(size) < p, (1 - p) * D, -p * D) + g.standard_normal(size)

    def model(y):
        D = numpyro.sample("D", dist.Normal(0, 1))
        m = numpyro.sample("m", dist.Normal(0, 1))
        with numpyro.plate("rows", len(y), subsample_size=minibatch) as idx:
            locations = jnp.stack([m + (1 - p) * D, m - p * D])
            parts = dist.Categorical(probs=jnp.array([p, 1 - p]))
            mixture = dist.MixtureSameFamily(parts, dist.Normal(locations, 1.0))
            numpyro.sample("y", mixture, obs=y[idx])

    like = {"D": jnp.zeros(()), "m": jnp.zeros(())}
    places = [[D, 0.0], [-D, 0.0], [0.0, 0.0]]
    return model, (jnp.asarray(y, jnp.float32),), like, jnp.array(places)


def drive_by(size, minibatch):
    """Distances to an emitter from a road: it may be on either side."""
    g = np.random.default_rng(4)
    u = g.uniform(-3, 3, size)
    v = 0.12 * np.sin(1.3 * u) + 0.05 * g.standard_normal(size)
    d, d0 = (np.sqrt((u - 0.4) ** 2 + (v - y) ** 2 + 0.16) for y in (1, 0))
    s = np.sqrt(size * np.mean((d - d0) ** 2) / 30)
    r = d + s * g.standard_normal(size)

    def model(u, v, r):
        x = numpyro.sample("x", dist.Normal(0, 3))
        y = numpyro.sample("y", dist.Normal(0, 3))
        with numpyro.plate("rows", len(r), subsample_size=minibatch) as i:
            mean = jnp.sqrt((u[i] - x) ** 2 + (v[i] - y) ** 2 + 0.16)
            numpyro.sample("r", dist.Normal(mean, s), obs=r[i])

    like = {"x": jnp.zeros(()), "y": jnp.zeros(())}
    data = tuple(jnp.asarray(column, jnp.float32) for column in (u, v, r))
    return model, data, like, jnp.array([[0.4, 1.1], [0.4, -1.1], [0.4, 0.1]])


def period(size, minibatch):
    """A frequency and its alias: rows of thirty nights."""
    g = np.random.default_rng(3)
    t = g.integers(0, 30, size) + 0.35 * g.random(size)
    A = 2 * np.sqrt(16 / size)
    y = A * np.cos(2 * np.pi * 1.31 * t) + g.standard_normal(size)

    def model(t, y):
        a, b = (numpyro.sample(name, dist.Normal(0, A)) for name in "ab")
        f = numpyro.sample("f", dist.Uniform(0.2, 3.2))
        with numpyro.plate("rows", len(y), subsample_size=minibatch) as i:
            w = 2 * jnp.pi * f * t[i]
            numpyro.sample("y", dist.Normal(a * jnp.cos(w) + b * jnp.sin(w), 1), obs=y[i])

    like = {name: jnp.zeros(()) for name in "abf"}
    unconstrained = lambda f: np.log((f - 0.2) / (3.2 - f))
    places = [[0.022, -0.005, 1.31], [0.008, -0.019, 0.312], [0.0, 0.0, 1.31]]
    places = np.array([[a, b, unconstrained(f)] for a, b, f in places], np.float32)
    return model, (jnp.asarray(t, jnp.float32), jnp.asarray(y, jnp.float32)), like, places


def phase_retrieval(size, minibatch):
    """A vector known but for its sign: rows of four columns, two arrays."""
    g = np.random.default_rng(6)
    X = g.standard_normal((size, 3))
    w = np.array([1, 0.5, -0.5]) / np.sqrt(1.5) * (84 / size) ** 0.25
    y = (X @ w) ** 2 + 3 * g.standard_normal(size)

    def model(X, y):
        b = numpyro.sample("w", dist.Normal(jnp.array([0.3, 0, 0]), 1).to_event(1))
        with numpyro.plate("rows", len(y), subsample_size=minibatch) as i:
            numpyro.sample("y", dist.Normal((X[i] @ b) ** 2, 3), obs=y[i])

    data = (jnp.asarray(X, jnp.float32), jnp.asarray(y, jnp.float32))
    places = np.array([w, -w, [0, 0.06, 0.06]], np.float32)
    return model, data, {"w": jnp.zeros(3)}, places


def sign(size, minibatch):
    """The square of a mean is known: quadratic in the data."""
    y = np.sqrt(24 / size) + np.random.default_rng(1).standard_normal(size)

    def model(y):
        a = numpyro.sample("a", dist.Normal(0.3, 1))
        with numpyro.plate("rows", len(y), subsample_size=minibatch) as i:
            numpyro.sample("y", dist.Normal(a**2, 1), obs=y[i])

    a = (24 / size) ** 0.25
    return model, (jnp.asarray(y, jnp.float32),), {"a": jnp.zeros(())}, np.array([[a], [-a], [0.0]])


def known_errors(size, minibatch):
    """Rows that are measured with known errors, whose logarithms are the same everywhere."""
    g = np.random.default_rng(5)
    error = np.exp(0.1 * g.standard_normal(size))
    y = np.sqrt(24 / size) + error * g.standard_normal(size)

    def model(y, error):
        a = numpyro.sample("a", dist.Normal(0.3, 1))
        with numpyro.plate("rows", len(y), subsample_size=minibatch) as i:
            numpyro.sample("y", dist.Normal(a**2, error[i]), obs=y[i])

    a = (24 / size) ** 0.25
    data = tuple(jnp.asarray(column, jnp.float32) for column in (y, error))
    return model, data, {"a": jnp.zeros(())}, jnp.array([[a], [-a], [0.0]])


def found(potential):
    clusters = clusters_of(potential)
    assert isinstance(clusters, Clusters), clusters
    return clusters


@pytest.mark.slow
@pytest.mark.parametrize("target", [in_third_tier(mixture_of_two), drive_by, known_errors])
def test_no_bias_and_the_noise_that_is_told(target):
    model, data, like, places = target(4000, 20)
    potential = ModelPotential.of(model, data)
    clusters = found(potential)
    full_data = FullData(potential, like)
    home = jax.jit(lambda x: home_of(full_data, clusters, x))(places[0] + 0.05)
    estimate = data_expansion(potential, like, clusters)
    told = variance_of_expansion(potential, like, clusters)

    def of_minibatch(key, x):
        indices = potential.plates.draw(key)
        return *estimate(indices, x, home), told(indices, x)

    @jax.jit
    def all_of(x):
        keys = random.split(random.key(5), MINIBATCHES)
        found = jax.lax.map(lambda key: of_minibatch(key, x), keys, batch_size=100)
        energy = full_data.at(x, Reference(home.position, jnp.ones(()))).energy
        left = remainders(potential, like, clusters, x, jnp.arange(4000))
        return found, energy.high + energy.low, full_data.energy_and_gradient(x)[1], left

    for x in places:
        (energies, gradients, variances), exact, gradient, left = jax.device_get(all_of(x))
        variance = 4000**2 / 20 * left.astype(float).var()
        error = np.sqrt(variance / MINIBATCHES)
        # Energies are rounded: 2e-4 nats in 200.
        assert abs(energies.astype(float).mean() - exact) < 4 * error + 2e-4
        z = (gradients.astype(float).mean(0) - gradient) / (gradients.std(0) / 100 + 1e-4)
        assert np.abs(z).max() < 4.5
        assert 0.85 < energies.astype(float).var() / variance < 1.15
        assert abs(variances.mean() - variance) < 4 * variances.std() / 100
        # Where a minibatch alone has hundreds.
        assert variance < 1.0


@pytest.mark.slow
def test_terms_without_parameters_are_no_noise():
    model, data, like, places = known_errors(4000, 5)
    potential = ModelPotential.of(model, data)
    clusters = found(potential)
    without = replace(clusters, at_reference=np.zeros(0))
    scatter = [
        np.asarray(jax.jit(partial(remainders, potential, like, c))(x, jnp.arange(4000)), float)
        for c in (clusters, without)
        for x in places[1:]
    ]
    of_noise = np.reshape([left.std() for left in scatter], (2, 2))
    # In energies of rows, logarithms of errors and squares are the most.
    assert (of_noise[0] < 0.1 * of_noise[1]).all()


# --------------------------------------------------------------------------- the sum of all rows


def logistic(X, y):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=20) as idx:
        numpyro.sample("y", dist.Bernoulli(logits=(X[idx] @ w) ** 2 - 0.3), obs=y[idx])


def counts(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=20) as idx:
        numpyro.sample("y", dist.Poisson(jnp.exp(w * x[idx])), obs=y[idx])


def counts_alone(y):
    rate = numpyro.sample("rate", dist.Exponential(0.1))
    with numpyro.plate("rows", len(y), subsample_size=20) as idx:
        numpyro.sample("y", dist.Poisson(rate), obs=y[idx])


def by_subsample(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=20):
        x, y = (numpyro.subsample(value, event_dim=0) for value in (x, y))
        numpyro.sample("y", dist.StudentT(4, w * x, 1), obs=y)


def whole(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)) as idx:
        numpyro.sample("y", dist.StudentT(4, w * x[idx], 1), obs=y[idx])


def of_fixed_size(x, y, group):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("rows", 2000, subsample_size=20) as idx:
        numpyro.sample("y", dist.StudentT(4, w[group[idx]] * x[idx], 1), obs=y[idx])


def summed_out(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=20) as idx:
        k = numpyro.sample("k", dist.Bernoulli(0.3), infer={"enumerate": "parallel"})
        numpyro.sample("y", dist.Normal(w * x[idx] * k, 1), obs=y[idx])


G = np.random.default_rng(0)
X = G.standard_normal((2000, 2)).astype(np.float32)
Y = (X[:, 0] + G.standard_normal(2000)).astype(np.float32)
BINARY = (G.random(2000) < 0.4).astype(np.float32)
COUNTS = G.poisson(2.0, 2000)
GROUP = G.integers(0, 3, 2000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "data", "minibatch_size", "most"),
    [
        (logistic, (X, BINARY), None, 100),
        in_third_tier(counts, (X[:, 0], COUNTS), None, 100),
        in_third_tier(counts_alone, (COUNTS,), None, COUNTS.max() + 1),
        in_third_tier(by_subsample, (X[:, 0], Y), None, 100),
        in_third_tier(whole, (X[:, 0], Y), 20, 100),
        in_third_tier(of_fixed_size, (X[:, 0], Y, GROUP), None, 100),
        in_third_tier(summed_out, (X[:, 0], Y), None, 100),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_expansions_and_remainders_add_up_to_the_energy_of_all_rows(
    model, data, minibatch_size, most
):
    potential = ModelPotential.of(model, data, {}, minibatch_size)
    clusters = found(potential)
    assert len(clusters.counts) <= most
    assert clusters.counts.sum() == 2000
    like, _ = typical_positions(potential)

    @jax.jit
    def both(x):
        outside = sum(jnp.sum(v) for v in terms_outside(potential, unravel_like(x, like)).values())
        known = jnp.sum(of_centroids(potential, like, clusters, x))
        left = remainders(potential, like, clusters, x, jnp.arange(2000))
        there = jnp.sum(jnp.asarray(clusters.at_reference))
        return outside + known + jnp.sum(left) + there, potential.full(unravel_like(x, like)), left

    size = sum(leaf.size for leaf in jax.tree.leaves(like))
    for x in (np.linspace(0.2, 0.5, size), np.linspace(-1.0, 0.3, size)):
        estimate, exact, left = both(jnp.asarray(x, jnp.float32))
        assert abs(estimate - exact) < 3e-6 * exact + 2e-3
        if not len(clusters.columns):
            assert not left.any()


# --------------------------------------------------------------------------- why not


def in_closure(x):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("rows", len(x), subsample_size=20) as idx:
        numpyro.sample("y", dist.Normal(w * x[idx], 1), obs=jnp.asarray(Y)[idx])


def nothing_given():
    in_closure(jnp.asarray(X[:, 0]))


def by_the_index(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=20) as idx:
        numpyro.sample("y", dist.Normal(w * x[idx] + (idx % 2), 1), obs=y[idx])


def centred(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=20) as idx:
        numpyro.sample("y", dist.Normal(w * (x[idx] - x.mean()), 1), obs=y[idx])


def along_columns(x):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("rows", x.shape[1], subsample_size=20) as idx:
        numpyro.sample("y", dist.Normal(w, 1), obs=x[0, idx])


def regression(X, y):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([X.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=20) as idx:
        numpyro.sample("y", dist.Normal(X[idx] @ w, 1), obs=y[idx])


def two_plates(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    for name, values in (("one", x), ("other", y)):
        with numpyro.plate(name, len(values), subsample_size=20) as idx:
            numpyro.sample(name + "_y", dist.Normal(w, 1), obs=values[idx])


def whole_plate(y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)) as idx:
        numpyro.sample("y", dist.Normal(w, 1), obs=y[idx])


@jax.custom_vjp
def only_in_reverse(x):
    return x**4


only_in_reverse.defvjp(lambda x: (x**4, x), lambda x, g: (4 * x**3 * g,))


def without_jvp(y):
    w = numpyro.sample("w", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=20) as idx:
        numpyro.factor("loss", -only_in_reverse(y[idx] - w))


def with_a_root(y):
    w = numpyro.sample("w", dist.Normal(3, 0.1))
    with numpyro.plate("rows", len(y), subsample_size=20) as idx:
        numpyro.factor("loss", -jnp.sqrt(jnp.maximum(y[idx], 0.0)) * jnp.exp(w))


@pytest.mark.parametrize(
    ("model", "data", "words"),
    [
        (in_closure, (X[:, 0],), "data in a closure"),
        (nothing_given, (), "no array among the model's arguments has the 2000 rows"),
        (by_the_index, (X[:, 0], Y), "the row's index"),
        (centred, (X[:, 0] + 3, Y), "a computation on all rows"),
        (along_columns, (X.T,), "along its leading axis"),
        (regression, (np.tile(X, 3), Y), "7 continuous columns"),
        (regression, (G.integers(0, 12, (2000, 2)), Y), "144 combinations"),
        (two_plates, (X[:, 0], Y), "2 ('one', 'other')"),
        (whole_plate, (Y,), "0 (none)"),
        (without_jvp, (Y,), "no second derivatives"),
        (with_a_root, (Y,), "no finite derivatives"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_the_reason_why_there_are_none(model, data, words):
    assert words in clusters_of(ModelPotential.of(model, data))


def test_data_that_are_traced_have_no_clusters():
    reasons = []
    jax.eval_shape(lambda y: reasons.append(clusters_of(ModelPotential.of(counts_alone, (y,)))), Y)
    assert "jit_model_args=True" in reasons[0]


# --------------------------------------------------------------------------- kept, and precise


@pytest.mark.slow
def test_clusters_are_found_once_for_the_same_data_also_while_tracing():
    y = np.array(Y)
    first = found(ModelPotential.of(by_subsample, (X[:, 0], y)))
    assert clusters_of(ModelPotential.of(by_subsample, (X[:, 0], y))) is first
    data, seen = (X[:, 1], y), []
    for _ in range(2):
        jax.eval_shape(lambda: seen.append(clusters_of(ModelPotential.of(by_subsample, data))))
    assert seen[0] is seen[1] is not first
    assert all(isinstance(leaf, np.ndarray) for leaf in seen[0].centroids)
    y += 1.0  # arrays of NumPy can change in place
    assert clusters_of(ModelPotential.of(by_subsample, (X[:, 0], y))) is not first


@pytest.mark.slow
def test_energies_of_a_million_rows_in_float32():
    size = 1_000_000
    model, data, like, places = mixture_of_two(size, 1000)
    potential = ModelPotential.of(model, data)
    clusters = found(potential)
    full_data = FullData(potential, like)
    home = jax.jit(lambda x: home_of(full_data, clusters, x))(places[0])
    estimate = data_expansion(potential, like, clusters)
    y = np.asarray(data[0], float)

    def exact(D, m):
        a, b = (-0.5 * (y - m - shift * D) ** 2 for shift in (0.7, -0.3))
        return -np.log(0.3 * np.exp(a) + 0.7 * np.exp(b)).sum() + (D**2 + m**2) / 2

    @jax.jit
    def estimates(x):
        keys = random.split(random.key(0), 1000)
        of_key = lambda key: estimate(potential.plates.draw(key), x, home)[0]
        return jax.lax.map(of_key, keys)

    start = exact(*np.asarray(home.position, float))
    for x in places:
        energies = np.asarray(estimates(x), float)
        assert energies.std() < 0.1
        assert abs(energies.mean() - (exact(*np.asarray(x, float)) - start)) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "in_modes", "at_saddle"),
    [
        (sign, 0.002, 0.002),
        (mixture_of_two, 0.03, 0.03),
        (period, 1.0, 1.0),
        (drive_by, 0.2, 0.5),
        (phase_retrieval, 2.0, 2.0),
    ],
)
def test_little_noise_in_both_modes_and_between_them(target, in_modes, at_saddle):
    """At half a percent of 100,000 rows, where a minibatch alone has 3,000 nats."""
    size, minibatch = 100_000, 500
    model, data, like, places = target(size, minibatch)
    potential = ModelPotential.of(model, data)
    clusters = found(potential)
    left = jax.jit(lambda x, rows: remainders(potential, like, clusters, x, rows))
    noise = [
        size / np.sqrt(minibatch) * np.asarray(left(x, np.arange(size)), float).std()
        for x in jnp.asarray(places, jnp.float32)
    ]
    assert max(noise[:2]) < in_modes
    assert noise[2] < at_saddle
