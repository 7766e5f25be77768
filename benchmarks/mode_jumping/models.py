"""Posteriors of models that other people had trouble with, written from their descriptions.

Each has quantities with answers that are exact, from symmetry, grids or sums, or from importance
sampling whose error is far below what is compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import lax
from jax.scipy.special import logsumexp

from benchmarks.peers.importance import weighted_draws


@dataclass(frozen=True)
class Case:
    """A posterior and what is known of it."""

    name: str
    model: Callable
    args: tuple
    #: functions of draws (chains, draws, ...) by name, to arrays (chains, draws)
    quantities: Mapping[str, Callable[[dict], np.ndarray]]
    #: their means, and the scales by which errors are judged; a scale of 0 is for probabilities
    truth: Callable[[], Mapping[str, tuple[float, float]]]
    #: draws of the warm-up and after it
    draws: tuple[int, int] = (1000, 1000)
    more: Mapping[str, Any] = field(default_factory=dict)


def _share(inside: Callable[[dict], np.ndarray]) -> Callable[[dict], np.ndarray]:
    return lambda draws: np.asarray(inside(draws), float)


# ------------------------------------------------------------------------------ range finder


def range_finder(phases: jax.Array, y: jax.Array) -> None:
    """A distance that is known up to whole wavelengths, of which the prior allows four."""
    distance = numpyro.sample("distance", dist.Uniform(0, 4))
    amplitude = numpyro.sample("amplitude", dist.LogNormal(0, 0.5))
    noise = numpyro.sample("noise", dist.HalfNormal(0.5))
    signal = amplitude * jnp.cos(2 * jnp.pi * (distance - phases))
    numpyro.sample("y", dist.Normal(signal, noise), obs=y)


def _range_finder() -> Case:
    rng = np.random.default_rng(3)
    phases = rng.uniform(size=30)
    y = 1.2 * np.cos(2 * np.pi * (2.3 - phases)) + 0.3 * rng.standard_normal(30)
    # The likelihood has period 1, and the prior is flat.
    return Case(
        "aliases of a range finder",
        range_finder,
        (jnp.asarray(phases), jnp.asarray(y)),
        {f"alias {k}": _share(lambda d, k=k: np.floor(d["distance"]) == k) for k in range(4)},
        lambda: {f"alias {k}": (0.25, 0.0) for k in range(4)},
    )


# ------------------------------------------------------------------------------ sensors

_ANCHORS = np.array([[-1.0, 0.0], [1.0, 0.0]])
_SENSOR_NOISE = 0.08


def sensors(distances: jax.Array) -> None:
    """Positions in the plane from distances to two places on a line: each may be mirrored."""
    with numpyro.plate("sensor", distances.shape[0]):
        place = numpyro.sample("place", dist.Normal(jnp.array([0.0, 0.1]), 0.6).to_event(1))
    away = jnp.sqrt(jnp.sum((place[:, None] - _ANCHORS) ** 2, -1))
    numpyro.sample("distances", dist.Normal(away, _SENSOR_NOISE).to_event(2), obs=distances)


def _sensors() -> Case:
    rng = np.random.default_rng(8)
    places = np.array([[0.4, 0.6], [-0.5, -0.4], [0.9, 0.5], [0.0, 0.8]])
    away = np.linalg.norm(places[:, None] - _ANCHORS, axis=-1)
    distances = away + _SENSOR_NOISE * rng.standard_normal(away.shape)

    def truth() -> dict[str, tuple[float, float]]:
        line = np.linspace(-2.5, 2.5, 1501)
        x, y = np.meshgrid(line, line, indexing="ij")
        found = {}
        for k, measured in enumerate(distances):
            log_p = -0.5 * ((x / 0.6) ** 2 + ((y - 0.1) / 0.6) ** 2)
            for anchor, seen in zip(_ANCHORS, measured):
                log_p -= (
                    0.5 * ((np.hypot(x - anchor[0], y - anchor[1]) - seen) / _SENSOR_NOISE) ** 2
                )
            p = np.exp(log_p - log_p.max())
            p /= p.sum()
            found[f"above {k}"] = (float(p[y > 0].sum()), 0.0)
        return found

    return Case(
        "positions of four sensors",
        sensors,
        (jnp.asarray(distances),),
        {f"above {k}": _share(lambda d, k=k: d["place"][..., k, 1] > 0) for k in range(4)},
        truth,
    )


# ------------------------------------------------------------------------------ radial velocity

_PLANET_NOISE = 1.0


def planet(times: jax.Array, y: jax.Array) -> None:
    """A circular orbit seen in few nights: its period has narrow aliases."""
    log_period = numpyro.sample("log_period", dist.Uniform(math.log(1.5), math.log(12)))
    linear = numpyro.sample("linear", dist.Normal(0, 5).expand([3]).to_event(1))
    angle = 2 * jnp.pi * times / jnp.exp(log_period)
    mean = linear[0] * jnp.cos(angle) + linear[1] * jnp.sin(angle) + linear[2]
    numpyro.sample("y", dist.Normal(mean, _PLANET_NOISE), obs=y)


@cache
def _planet_data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(15)
    times = np.sort(np.concatenate([rng.uniform(0, 3, 4), 27 + rng.uniform(0, 4, 4), [55.0, 56.2]]))
    y = (
        3 * np.cos(2 * np.pi * times / 4.1 + 0.4)
        + 1
        + _PLANET_NOISE * rng.standard_normal(len(times))
    )
    return times - times.mean(), y


@cache
def _planet_grid() -> tuple[np.ndarray, np.ndarray]:
    """A grid of log periods and their probabilities, the linear part integrated out."""
    times, y = _planet_data()
    line = np.linspace(math.log(1.5), math.log(12), 200_001)
    angle = 2 * np.pi * times / np.exp(line)[:, None]
    design = np.stack([np.cos(angle), np.sin(angle), np.ones_like(angle)], -1)
    covariance = 25 * design @ design.swapaxes(1, 2) + _PLANET_NOISE**2 * np.eye(len(y))
    z = np.linalg.solve(covariance, np.broadcast_to(y, (len(line), len(y)))[..., None])[..., 0]
    log_p = -0.5 * (z @ y) - 0.5 * np.linalg.slogdet(covariance)[1]
    p = np.exp(log_p - log_p.max())
    return line, p / p.sum()


def _planet() -> Case:
    line, p = _planet_grid()
    inside = np.flatnonzero((p[1:-1] < p[:-2]) & (p[1:-1] <= p[2:])) + 1
    edges = line[inside]
    masses = np.bincount(np.searchsorted(edges, line), p)
    heavy = np.argsort(-masses)[:3]

    def in_mode(k: int, draws: dict) -> np.ndarray:
        return np.searchsorted(edges, np.asarray(draws["log_period"])) == k

    return Case(
        "periods of a planet",
        planet,
        tuple(map(jnp.asarray, _planet_data())),
        {f"period {i}": _share(partial(in_mode, k)) for i, k in enumerate(heavy)},
        lambda: {f"period {i}": (float(masses[k]), 0.0) for i, k in enumerate(heavy)},
    )


# ------------------------------------------------------------------------------ hidden Markov


def hidden_markov(y: jax.Array) -> None:
    """Two states without names, their persistence, means and standard deviations."""
    stay = numpyro.sample("stay", dist.Beta(8, 2).expand([2]).to_event(1))
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2]).to_event(1))
    sd = numpyro.sample("sd", dist.LogNormal(0, 0.5).expand([2]).to_event(1))
    log_emission = dist.Normal(mean, sd).log_prob(y[:, None])
    log_move = jnp.log(jnp.array([[stay[0], 1 - stay[0]], [1 - stay[1], stay[1]]]))

    def forward(log_alpha: jax.Array, emission: jax.Array) -> tuple[jax.Array, None]:
        return logsumexp(log_alpha[:, None] + log_move, axis=0) + emission, None

    last, _ = lax.scan(forward, log_emission[0] - math.log(2), log_emission[1:])
    numpyro.factor("y", logsumexp(last))


def _hidden_markov() -> Case:
    rng = np.random.default_rng(5)
    state, states = 0, []
    for _ in range(200):
        state = state if rng.random() < 0.9 else 1 - state
        states.append(state)
    y = np.where(np.array(states) == 1, 1.5, -1.0) + np.array([0.7, 1.2])[
        states
    ] * rng.standard_normal(200)
    first_lower = lambda d: d["mean"][..., 0] < d["mean"][..., 1]
    return Case(
        "a Markov chain with two hidden states",
        hidden_markov,
        (jnp.asarray(y),),
        {"first lower": _share(first_lower)},
        lambda: {"first lower": (0.5, 0.0)},
    )


# ------------------------------------------------------------------------------ latent classes


def latent_classes(patterns: jax.Array, counts: jax.Array) -> None:
    """Three diagnostic tests and no gold standard: who is ill may be mirrored."""
    ill = numpyro.sample("ill", dist.Beta(1.2, 1.8))
    right = numpyro.sample("right", dist.Beta(1.6, 1.5).expand([2, 3]).to_event(2))
    numpyro.factor("counts", _log_likelihood_of_classes(ill, right, patterns, counts))


def _log_likelihood_of_classes(
    ill: jax.Array, right: jax.Array, patterns: jax.Array, counts: jax.Array
) -> jax.Array:
    # The probability of a positive result in the ill, and in the well.
    positive = jnp.stack([right[0], 1 - right[1]])
    log_p = jnp.sum(jnp.where(patterns[:, None] == 1, jnp.log(positive), jnp.log1p(-positive)), -1)
    each = logsumexp(log_p + jnp.log(jnp.stack([ill, 1 - ill])), axis=1)
    return jnp.sum(counts * each)


def _mirrored_share(patterns: jax.Array, counts: jax.Array) -> float:
    """The probability that classes are mirrored, by importance sampling in logits."""

    def parts(z: jax.Array) -> tuple[jax.Array, jax.Array]:
        p = jax.nn.sigmoid(z)
        log_p, log_q = jax.nn.log_sigmoid(z), jax.nn.log_sigmoid(-z)
        # The priors, times the derivative of the logistic function.
        a = jnp.array([1.2, *[1.6] * 6])
        b = jnp.array([1.8, *[1.5] * 6])
        likelihood = _log_likelihood_of_classes(p[0], p[1:].reshape(2, 3), patterns, counts)
        return likelihood, jnp.sum(a * log_p + b * log_q)

    rng = np.random.default_rng(0)
    p = np.concatenate([rng.beta(1.2, 1.8, (500_000, 1)), rng.beta(1.6, 1.5, (500_000, 6))], 1)
    z = np.log(p) - np.log1p(-p)
    likelihood = np.asarray(jax.jit(jax.vmap(lambda z: parts(z)[0]))(jnp.asarray(z)), float)
    weights = np.exp(0.5 * (likelihood - likelihood.max()))
    # Each round proposes near the draws of the one before it, the first near those of the prior.
    for power in (1.0, 0.7, 0.7, 1.0):
        shares = weights**power / (weights**power).sum()
        near = z[rng.choice(len(z), 3_000, p=shares)]
        z, weights = weighted_draws(lambda z: -sum(parts(z)), near)
    right = 1 / (1 + np.exp(-z[:, 1:]))
    return float(weights @ (right.mean(1) < 0.5))


def _latent_classes() -> Case:
    rng = np.random.default_rng(2)
    patterns = np.array([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
    ill = rng.random(150) < 0.35
    p = np.where(ill[:, None], [0.85, 0.75, 0.9], [0.15, 0.1, 0.2])
    results = (rng.random((150, 3)) < p).astype(int)
    counts = np.array([(results == pattern).all(1).sum() for pattern in patterns])
    mirrored = lambda d: d["right"].mean((-1, -2)) < 0.5
    return Case(
        "three tests without a gold standard",
        latent_classes,
        (jnp.asarray(patterns), jnp.asarray(counts)),
        {"mirrored": _share(mirrored)},
        lambda: {"mirrored": (_mirrored_share(jnp.asarray(patterns), jnp.asarray(counts)), 0.0)},
    )


# ------------------------------------------------------------------------------ network


def network(x: jax.Array, y: jax.Array) -> None:
    """Two hidden units, whose order and signs are free: eight copies."""
    slope = numpyro.sample("slope", dist.Normal(0, 2).expand([2]).to_event(1))
    shift = numpyro.sample("shift", dist.Normal(0, 2).expand([2]).to_event(1))
    out = numpyro.sample("out", dist.Normal(0, 2).expand([2]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(0.5))
    hidden = jnp.tanh(slope * x[:, None] + shift)
    numpyro.sample("y", dist.Normal(hidden @ out, noise), obs=y)


def _network() -> Case:
    rng = np.random.default_rng(7)
    x = np.linspace(-3, 3, 60)
    y = 1.5 * np.tanh(2 * x + 2) - 1.0 * np.tanh(1.5 * x - 2.5) + 0.15 * rng.standard_normal(60)
    quantities = {
        "first slope above 0": _share(lambda d: d["slope"][..., 0] > 0),
        "second slope above 0": _share(lambda d: d["slope"][..., 1] > 0),
        "both above 0": _share(lambda d: (d["slope"] > 0).all(-1)),
    }
    truth = {"first slope above 0": 0.5, "second slope above 0": 0.5, "both above 0": 0.25}
    return Case(
        "a network of two hidden units",
        network,
        (jnp.asarray(x), jnp.asarray(y)),
        quantities,
        lambda: {name: (p, 0.0) for name, p in truth.items()},
    )


# ------------------------------------------------------------------------------ clusters


def clusters(y: jax.Array) -> None:
    """Four normals in the plane, with shares, middles, scales and correlations of their own."""
    share = numpyro.sample("share", dist.Dirichlet(2 * jnp.ones(4)))
    with numpyro.plate("cluster", 4):
        middle = numpyro.sample("middle", dist.Normal(0, 4).expand([2]).to_event(1))
        scale = numpyro.sample("scale", dist.LogNormal(0, 0.5).expand([2]).to_event(1))
        root = numpyro.sample("root", dist.LKJCholesky(2, 2.0))
    normals = dist.MultivariateNormal(middle, scale_tril=scale[..., None] * root)
    with numpyro.plate("rows", y.shape[0]):
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(share), normals), obs=y)


def _clusters() -> Case:
    rng = np.random.default_rng(11)
    middles = np.array([[-3.0, -2.0], [3.0, -2.5], [-2.5, 3.0], [3.0, 3.0]])
    which = rng.choice(4, 240, p=[0.15, 0.2, 0.3, 0.35])
    sds = np.array([[0.8, 1.1], [1.0, 0.7], [1.2, 0.9], [0.7, 0.8]])
    y = middles[which] + sds[which] * rng.standard_normal((240, 2))

    def first_is(k: int, draws: dict) -> np.ndarray:
        away = ((draws["middle"][..., 0, :][..., None, :] - middles) ** 2).sum(-1)
        return away.argmin(-1) == k

    return Case(
        "four clusters in the plane",
        clusters,
        (jnp.asarray(y),),
        {f"cluster {k} first": _share(partial(first_is, k)) for k in range(4)},
        lambda: {f"cluster {k} first": (0.25, 0.0) for k in range(4)},
    )


# ------------------------------------------------------------------------------ field

_SITES, _WELL, _COUPLING, _TILT = 64, 3.0, 3.0, 0.01


def field_energy(x: jax.Array) -> jax.Array:
    """A chain of sites in two wells each, tied to their neighbours, on a ring."""
    wells = _WELL * jnp.sum((x**2 - 1) ** 2) / 2
    ties = 0.5 * _COUPLING * jnp.sum((x - jnp.roll(x, 1)) ** 2)
    return wells + ties - _TILT * jnp.sum(x)


def a_field() -> None:
    """The field, as a model."""
    x = numpyro.sample("x", dist.ImproperUniform(dist.constraints.real_vector, (), (_SITES,)))
    numpyro.factor("energy", -field_energy(x))


def _field() -> Case:
    def truth() -> dict[str, tuple[float, float]]:
        # Transfer matrices on a grid.
        line = np.linspace(-2.2, 2.2, 401)
        local = _WELL * (line**2 - 1) ** 2 / 2 - _TILT * line
        between = 0.5 * _COUPLING * (line[:, None] - line) ** 2
        matrix = np.exp(-0.5 * (local[:, None] + local) - between)
        values, vectors = np.linalg.eigh(matrix)
        powers = (values / values[-1]) ** _SITES
        above = (vectors**2 * (line > 0)[:, None]).sum(0) + 0.5 * (vectors[200] ** 2)
        return {"a site above 0": (float((powers * above).sum() / powers.sum()), 0.0)}

    return Case(
        "a field of 64 sites",
        a_field,
        (),
        {"a site above 0": _share(lambda d: (d["x"] > 0).mean(-1))},
        truth,
    )


def cases() -> tuple[Case, ...]:
    """All of them."""
    made = (
        _range_finder,
        _sensors,
        _planet,
        _hidden_markov,
        _latent_classes,
        _network,
        _clusters,
        _field,
    )
    return tuple(make() for make in made)
