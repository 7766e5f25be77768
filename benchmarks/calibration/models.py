"""Models whose priors make both the parameters and the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random

#: values by site, with draws along the first axis
Sites = dict[str, Any]


#: steps of a draw, draws of warm-up and draws where chains need longer
LONG = (100, 100, 200)


class Model(NamedTuple):
    """A model, and the quantities whose ranks are looked at."""

    #: the model of its inputs and of the data, which are None where they are to be made
    of: Callable
    #: what stays the same in all data sets
    inputs: tuple
    #: from draws to the quantities, each (draws,)
    quantities: Callable[[Sites], dict[str, np.ndarray]]
    num_steps: int = 50
    warmup: int = 80
    draws: int = 120
    minibatch: int | None = None


def _key(number: int) -> jax.Array:
    return random.fold_in(random.key(2018), number)


def _given(y: jax.Array | None) -> jax.Array | None:
    """The rows of the data that follow a plate."""
    return None if y is None else numpyro.subsample(y, event_dim=0)


def columns(sites: Sites, *names: str) -> dict[str, np.ndarray]:
    """Each coordinate of these sites by its name, as `beta[1]`."""
    found = {}
    for name in names:
        x = np.asarray(sites[name], np.float64)
        flat = x.reshape(len(x), -1)
        for n in range(flat.shape[1]):
            found[name if x.ndim == 1 else f"{name}[{n}]"] = flat[:, n]
    return found


def _of(*names: str) -> Callable[[Sites], dict[str, np.ndarray]]:
    return lambda sites: columns(sites, *names)


def regression() -> Model:
    """50 rows and three columns, with an unknown standard deviation."""

    def model(x: jax.Array, y: jax.Array | None = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]).to_event(1))
        noise = numpyro.sample("noise", dist.HalfNormal(1))
        with numpyro.plate("rows", len(x)):
            mean = level + numpyro.subsample(x, event_dim=1) @ beta
            numpyro.sample("y", dist.Normal(mean, noise), obs=_given(y))

    return Model(model, (random.normal(_key(0), (50, 3)),), _of("level", "beta", "noise"))


def logistic() -> Model:
    """1,000 rows in minibatches of 50."""

    def model(x: jax.Array, y: jax.Array | None = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        beta = numpyro.sample("beta", dist.Normal(0, 1).expand([3]).to_event(1))
        with numpyro.plate("rows", len(x)):
            logits = level + numpyro.subsample(x, event_dim=1) @ beta
            numpyro.sample("y", dist.Bernoulli(logits=logits), obs=_given(y))

    x = random.normal(_key(1), (1000, 3))
    return Model(model, (x,), _of("level", "beta"), minibatch=50)


def poisson() -> Model:
    """60 counts and three columns."""

    def model(x: jax.Array, y: jax.Array | None = None) -> None:
        level = numpyro.sample("level", dist.Normal(0.5, 0.7))
        beta = numpyro.sample("beta", dist.Normal(0, 0.4).expand([3]).to_event(1))
        with numpyro.plate("rows", len(x)):
            rate = jnp.exp(level + numpyro.subsample(x, event_dim=1) @ beta)
            numpyro.sample("y", dist.Poisson(rate), obs=_given(y))

    return Model(model, (random.normal(_key(2), (60, 3)),), _of("level", "beta"))


def hierarchy(centred: bool) -> Model:
    """Eight groups of six rows."""

    def model(group: jax.Array, y: jax.Array | None = None) -> None:
        level = numpyro.sample("level", dist.Normal(0, 1))
        spread = numpyro.sample("spread", dist.HalfNormal(1))
        with numpyro.plate("groups", 8):
            if centred:
                effect = numpyro.sample("effect", dist.Normal(level, spread))
            else:
                effect = level + spread * numpyro.sample("normal", dist.Normal(0, 1))
        with numpyro.plate("rows", len(group)):
            numpyro.sample("y", dist.Normal(effect[group], 1.0), obs=_given(y))

    def quantities(sites: Sites) -> dict[str, np.ndarray]:
        if centred:
            effect = np.asarray(sites["effect"])
        else:
            level, spread = (np.asarray(sites[name])[:, None] for name in ("level", "spread"))
            effect = level + spread * np.asarray(sites["normal"])
        return columns(sites | {"effect": effect[:, :3]}, "level", "spread", "effect")

    return Model(model, (jnp.arange(48) % 8,), quantities, *LONG)


def mixture() -> Model:
    """30 rows of two components of equal probability, whose labels may be exchanged."""

    def model(rows: jax.Array, y: jax.Array | None = None) -> None:
        mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2]).to_event(1))
        halves = dist.Categorical(probs=jnp.ones(2) / 2)
        with numpyro.plate("rows", len(rows)):
            components = dist.MixtureSameFamily(halves, dist.Normal(mean, 1.0))
            numpyro.sample("y", components, obs=_given(y))

    def quantities(sites: Sites) -> dict[str, np.ndarray]:
        mean = np.asarray(sites["mean"])
        ordered = {"smaller mean": mean.min(-1), "larger mean": mean.max(-1)}
        return columns(sites, "mean") | ordered

    return Model(model, (jnp.arange(30),), quantities)


def sign() -> Model:
    """40 rows that determine only the square of the parameter."""

    def model(rows: jax.Array, y: jax.Array | None = None) -> None:
        a = numpyro.sample("a", dist.Normal(0.3, 1))
        with numpyro.plate("rows", len(rows)):
            numpyro.sample("y", dist.Normal(a**2, 3.5), obs=_given(y))

    def quantities(sites: Sites) -> dict[str, np.ndarray]:
        return columns(sites, "a") | {"size of a": np.abs(sites["a"])}

    return Model(model, (jnp.arange(40),), quantities)


def autoregression() -> Model:
    """60 points of a series, each of which depends on the one before."""

    def model(first: jax.Array, y: jax.Array | None = None) -> None:
        slope = numpyro.sample("slope", dist.Uniform(-1, 1))
        level = numpyro.sample("level", dist.Normal(0, 1))
        noise = numpyro.sample("noise", dist.HalfNormal(1))
        if y is None:
            steps = numpyro.sample("steps", dist.Normal(0, 1).expand([60]).to_event(1))
            before, points = first, []
            for step in steps:
                before = level + slope * before + noise * step
                points.append(before)
            numpyro.deterministic("y", jnp.stack(points))
        else:
            before = jnp.concatenate([first[None], y[:-1]])
            numpyro.sample("y", dist.Normal(level + slope * before, noise).to_event(1), obs=y)

    return Model(model, (jnp.array(0.5),), _of("slope", "level", "noise"), 100)


def network() -> Model:
    """Four hidden units, two inputs and 40 rows: predictions, whose weights are not identified."""
    at = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, -1.0], [2.0, 2.0]])

    def model(x: jax.Array, y: jax.Array | None = None) -> None:
        first = numpyro.sample("first", dist.Normal(0, 1).expand([3, 4]).to_event(2))
        second = numpyro.sample("second", dist.Normal(0, 1).expand([5]).to_event(1))
        noise = numpyro.sample("noise", dist.LogNormal(-1, 0.5))
        with numpyro.plate("rows", len(x)):
            rows = numpyro.subsample(x, event_dim=1)
            hidden = jnp.tanh(rows @ first[:2] + first[2])
            numpyro.sample("y", dist.Normal(hidden @ second[:4] + second[4], noise), obs=_given(y))

    def quantities(sites: Sites) -> dict[str, np.ndarray]:
        first, second = np.asarray(sites["first"]), np.asarray(sites["second"])
        hidden = np.tanh(at @ first[:, :2] + first[:, 2:])
        predicted = (hidden @ second[:, :4, None])[..., 0] + second[:, 4:]
        return columns({"prediction": predicted, "noise": sites["noise"]}, "prediction", "noise")

    return Model(model, (random.normal(_key(3), (40, 2)),), quantities, *LONG)


def horseshoe() -> Model:
    """40 rows and six slopes, whose scales have tails of Cauchy distributions."""

    def model(x: jax.Array, y: jax.Array | None = None) -> None:
        common = numpyro.sample("common", dist.HalfCauchy(0.5))
        local = numpyro.sample("local", dist.HalfCauchy(1).expand([6]).to_event(1))
        normal = numpyro.sample("normal", dist.Normal(0, 1).expand([6]).to_event(1))
        noise = numpyro.sample("noise", dist.HalfNormal(1))
        with numpyro.plate("rows", len(x)):
            mean = numpyro.subsample(x, event_dim=1) @ (common * local * normal)
            numpyro.sample("y", dist.Normal(mean, noise), obs=_given(y))

    def quantities(sites: Sites) -> dict[str, np.ndarray]:
        common, local, normal = (np.asarray(sites[n]) for n in ("common", "local", "normal"))
        beta = (common[:, None] * local * normal)[:, :2]
        made = {"beta": beta, "common": common, "local": local[:, :1], "noise": sites["noise"]}
        return columns(made, "common", "local", "beta", "noise")

    return Model(model, (random.normal(_key(4), (40, 6)),), quantities, *LONG)


def funnel() -> Model:
    """Neal's funnel as the prior of nine values, each seen once with a noise of 1."""

    def model(rows: jax.Array, y: jax.Array | None = None) -> None:
        v = numpyro.sample("v", dist.Normal(0, 3))
        with numpyro.plate("rows", len(rows)):
            x = numpyro.sample("x", dist.Normal(0, jnp.exp(v / 2)))
            numpyro.sample("y", dist.Normal(x, 1.0), obs=y)

    def quantities(sites: Sites) -> dict[str, np.ndarray]:
        return columns({"v": sites["v"], "x": np.asarray(sites["x"])[:, :2]}, "v", "x")

    return Model(model, (jnp.arange(9),), quantities, *LONG)


#: the models by name, in the order of the table
MODELS: dict[str, Callable[[], Model]] = {
    "regression": regression,
    "logistic, minibatches": logistic,
    "Poisson": poisson,
    "hierarchy, centred": lambda: hierarchy(True),
    "hierarchy, not centred": lambda: hierarchy(False),
    "mixture": mixture,
    "sign": sign,
    "AR(1)": autoregression,
    "network": network,
    "horseshoe": horseshoe,
    "funnel": funnel,
}
