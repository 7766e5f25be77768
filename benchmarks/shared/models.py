"""Models that several benchmarks sample, with their data."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random


def amplitude(y: jax.Array, noise: float) -> None:
    """The model of README: the data determine only the square of its parameter."""
    a = numpyro.sample("a", dist.Normal(0.3, 1))
    with numpyro.plate("rows", len(y)):
        rows = numpyro.subsample(y, event_dim=0)
        numpyro.sample("y", dist.Normal(a**2, noise), obs=rows)


def amplitude_data(noise: float) -> jax.Array:
    """The data of README."""
    return 1.5**2 + noise * random.normal(random.key(1), (40,))


def amplitude_by_grid(y: jax.Array, noise: float) -> tuple[float, float]:
    """P(a > 0) by integration on a grid, and the barrier above the deeper mode in nats."""
    grid = np.linspace(-4, 4, 8001)
    energy = amplitude_energy(grid, y, noise)
    density = np.exp(energy.min() - energy)
    height = energy[np.abs(grid) < 1].max() - energy.min()
    return float(density[grid > 0].sum() / density.sum()), float(height)


def amplitude_energy(a: np.ndarray, y: jax.Array, noise: float) -> np.ndarray:
    """The potential energy of the model of README, in nats."""
    constant = len(y) * np.log(noise) + (len(y) + 1) * 0.5 * np.log(2 * np.pi)
    misfit = np.sum((np.asarray(y, float)[:, None] - a**2) ** 2, 0)
    return 0.5 * (a - 0.3) ** 2 + 0.5 * misfit / noise**2 + constant


def mixture_model(y: jax.Array) -> None:
    """Two exchangeable components of known scale."""
    mu = numpyro.sample("mu", dist.Normal(0, 5).expand([2]).to_event(1))
    with numpyro.plate("rows", len(y)):
        components = dist.Normal(mu, 1.0)
        numpyro.sample(
            "y", dist.MixtureSameFamily(dist.Categorical(probs=jnp.ones(2) / 2), components), obs=y
        )


def mixture_data(rows: int, centre: float) -> jax.Array:
    """Half of the rows from each of two components at plus and minus the centre."""
    signs = jnp.where(jnp.arange(rows) % 2 == 0, 1.0, -1.0)
    return centre * signs + random.normal(random.key(rows), (rows,))


def eight_schools() -> None:
    """Eight schools, non-centred."""
    y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        z = numpyro.sample("z", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + tau * z, sigma), obs=y)


def regression(x: jax.Array, y: jax.Array) -> None:
    """A linear regression with unknown scale."""
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x @ beta, sigma), obs=y)


def regression_data() -> tuple:
    """5,000 rows, 26 correlated columns, the first constant."""
    keys = random.split(random.key(1), 4)
    x = random.normal(keys[0], (5000, 26)) @ (
        jnp.eye(26) + 0.2 * random.normal(keys[1], (26, 26)) / jnp.sqrt(26)
    )
    x = x.at[:, 0].set(1.0)
    y = x @ (0.5 * random.normal(keys[2], (26,))) + 0.7 * random.normal(keys[3], (5000,))
    return x, y


def counts_in_groups(counts: jax.Array, group: jax.Array) -> None:
    """A hierarchy of Poisson rates."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    with numpyro.plate("groups", 10):
        effect = numpyro.sample("effect", dist.Normal(0, 1))
    with numpyro.plate("rows", len(counts)):
        numpyro.sample("y", dist.Poisson(jnp.exp(mu + scale * effect[group])), obs=counts)


def counts_in_groups_data() -> tuple:
    """500 counts in ten groups."""
    group = jnp.arange(500) % 10
    rate = jnp.exp(1.0 + 0.6 * random.normal(random.key(3), (10,)))
    return random.poisson(random.key(4), rate[group]), group


def logistic(x: jax.Array, y: jax.Array, minibatch: int | None = 200) -> None:
    """A logistic regression."""
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=minibatch) as rows:
        numpyro.sample("y", dist.Bernoulli(logits=x[rows] @ beta), obs=y[rows])


def logistic_data(rows: int, columns: int = 20) -> tuple:
    """Columns with scales from 0.1 to 10."""
    keys = random.split(random.key(5), 3)
    x = random.normal(keys[0], (rows, columns))
    slopes = 0.5 * random.normal(keys[2], (columns,))
    y = random.bernoulli(keys[1], jax.nn.sigmoid(x @ slopes))
    return x * jnp.logspace(-1, 1, columns), y.astype(jnp.int32)


def poisson(x: jax.Array, counts: jax.Array) -> None:
    """A Poisson regression."""
    level = numpyro.sample("level", dist.Normal(0, 2))
    beta = numpyro.sample("beta", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(counts), subsample_size=500) as rows:
        rate = jnp.exp(level + x[rows] @ beta)
        numpyro.sample("y", dist.Poisson(rate), obs=counts[rows])


def poisson_data(rows: int = 50_000, columns: int = 5) -> tuple:
    """Counts with a mean of about 3."""
    keys = random.split(random.key(6), 3)
    x = random.normal(keys[0], (rows, columns))
    return x, random.poisson(keys[1], jnp.exp(1 + x @ (0.3 * random.normal(keys[2], (columns,)))))
