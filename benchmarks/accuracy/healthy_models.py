"""Runs on NumPyro models that are long enough."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random

from benchmarks.accuracy.healthy import Healthy, against, against_nuts, by_grid
from benchmarks.shared import models as shared
from benchmarks.shared.posteriors import halves, two_draws
from numpyro_contour import SGHMC, SGLD, ContourSGHMC, ContourSGLD, ContourSGNHT
from numpyro_contour.examples.datasets import load, split_and_standardise


def normal_mean(y: jax.Array) -> None:
    """A mean, from minibatches of 100 rows."""
    mean = numpyro.sample("x", dist.Normal(0, 10))
    with numpyro.plate("rows", len(y), subsample_size=100) as rows:
        numpyro.sample("y", dist.Normal(mean, 2.0), obs=y[rows])


def categories(counts: jax.Array) -> None:
    """The probabilities of categories."""
    shares = numpyro.sample("x", dist.Dirichlet(jnp.ones(len(counts))))
    numpyro.sample("counts", dist.Multinomial(int(counts.sum()), shares), obs=counts)


def enumerated(y: jax.Array) -> None:
    """Two ordered components; the component of each row is summed out."""
    share = numpyro.sample("share", dist.Beta(2, 2))
    low = numpyro.sample("low", dist.Normal(0, 5))
    gap = numpyro.sample("gap", dist.LogNormal(0, 1))
    means = jnp.stack([low, low + gap])
    with numpyro.plate("rows", len(y)):
        component = numpyro.sample(
            "component", dist.Bernoulli(share), infer={"enumerate": "parallel"}
        )
        numpyro.sample("y", dist.Normal(means[component], 1.0), obs=y)


def groups(y: jax.Array) -> None:
    """A hierarchy of group means, non-centred."""
    level = numpyro.sample("level", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfNormal(2))
    noise = numpyro.sample("noise", dist.HalfNormal(2))
    with numpyro.plate("groups", y.shape[1], dim=-1):
        effect = numpyro.sample("effect", dist.Normal(0, 1))
        with numpyro.plate("members", y.shape[0], dim=-2):
            numpyro.sample("y", dist.Normal(level + spread * effect, noise), obs=y)


def models() -> list[Healthy]:
    """Runs on NumPyro models."""
    key = random.key(11)
    y = 0.7 + 2.0 * random.normal(key, (5000,))
    precision = 1 / 100 + len(y) / 4
    mean = float(np.asarray(y, np.float64).sum() / 4 / precision)
    counts = np.array([3, 12, 40, 7, 22, 1])
    shares = (counts + 1) / (counts + 1).sum()
    shares_sd = np.sqrt(shares * (1 - shares) / ((counts + 1).sum() + 1))
    few = shared.mixture_data(20, 1.45)
    yacht = split_and_standardise(load("yacht"), seed=0)
    as_data = lambda split: (jnp.asarray(split.X_train), jnp.asarray(split.y_train))
    rows = jnp.concatenate([random.normal(key, (60,)), 3.5 + random.normal(key, (140,))])
    effects = random.normal(random.key(12), (1, 10))
    members = 1 + 0.8 * effects + random.normal(key, (20, 10))
    logistic = shared.logistic_data(10_000)
    poisson = shared.poisson_data(20_000)

    def two_labels(mu: jax.Array) -> jax.Array:
        components = dist.Normal(mu, 1.0).log_prob(few[:, None])
        likelihood = jnp.sum(jax.nn.logsumexp(components, -1))
        return -likelihood - jnp.sum(dist.Normal(0, 5).log_prob(mu))

    return [
        Healthy(
            "two labels, 20 rows",
            ContourSGLD(shared.mixture_model, num_steps=200),
            lambda x, w: against(
                by_grid(two_labels, -6, 6, 2), halves(lambda mu: mu[..., 0] < mu[..., 1], 0.5)
            )(np.asarray(x["mu"]), w),
            (few,),
        ),
        Healthy(
            "eight schools",
            ContourSGLD(shared.eight_schools, num_steps=50),
            against_nuts(shared.eight_schools),
        ),
        Healthy(
            "yacht, linear",
            ContourSGNHT(shared.regression, num_steps=50),
            against_nuts(shared.regression, as_data(yacht)),
            as_data(yacht),
        ),
        Healthy(
            "logistic, 10,000 rows",
            ContourSGLD(shared.logistic, num_steps=50),
            against_nuts(shared.logistic, logistic),
            logistic,
            samples=600,
            chains=4,
        ),
        Healthy(
            "Poisson, 20,000 rows",
            SGHMC(shared.poisson, num_steps=50),
            against_nuts(shared.poisson, poisson),
            poisson,
            samples=500,
            chains=4,
        ),
        Healthy(
            "normal mean, 5,000 rows",
            SGLD(normal_mean, num_steps=20),
            against(two_draws(mean, precision**-0.5)),
            (y,),
            chains=4,
        ),
        Healthy(
            "Dirichlet",
            ContourSGLD(categories, num_steps=50),
            against(two_draws(shares, shares_sd)),
            (counts,),
        ),
        Healthy(
            "enumerated components",
            ContourSGHMC(enumerated, num_steps=50),
            against_nuts(enumerated, (rows,)),
            (rows,),
            chains=4,
        ),
        Healthy(
            "ten groups",
            ContourSGLD(groups, num_steps=50),
            against_nuts(groups, (members,)),
            (members,),
        ),
    ]
