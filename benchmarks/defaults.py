"""No argument given: what the warm-up finds on targets of known answers, against NUTS and exact."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random
from numpyro.infer import MCMC

from benchmarks.posteriors import by_nuts, errors
from benchmarks.tables import markdown_table, total_variation
from numpyro_contour import SGLD, ContourSGLD, weighted_samples
from numpyro_contour.examples import concrete, mixture, nine_modes
from numpyro_contour.examples.datasets import Split, load, split_and_standardise

CHAINS = 16
MANY_CHAINS = 96
#: A barrier beyond those that the defaults are meant for.
BEYOND = "mixture30, 37 nats"


@dataclass(frozen=True)
class Target:
    """A model or potential, its budget, and how a run's error is told."""

    name: str
    steps: int
    warmup: int
    #: `(x, weights) -> {figure: value}`; the first figure is the error of a single chain
    errors: Callable
    potential: Callable | None = None
    #: starts of a number of chains, None for those of the kernel
    start: Callable[[int], np.ndarray] | None = None
    model: Callable | None = None
    data: tuple = ()
    num_steps: int = 10
    #: more where a limit is nearer than the error of few
    chains: int = CHAINS
    #: a figure to divide by that of `SGLD`
    beside_sgld: str | None = None


def run(
    target: Target, kernel_class: type = ContourSGLD, chains: int | None = None, **arguments: Any
) -> MCMC:
    """A run with nothing given but the target."""
    chains = target.chains if chains is None else chains
    if target.model is None:
        kernel = kernel_class(
            potential_fn=target.potential, num_steps=target.num_steps, **arguments
        )
    else:
        kernel = kernel_class(target.model, num_steps=target.num_steps, **arguments)
    mcmc = MCMC(
        kernel,
        num_warmup=target.warmup // target.num_steps,
        num_samples=target.steps // target.num_steps,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    start = None if target.start is None else target.start(chains)
    mcmc.run(random.key(0), *target.data, init_params=start)
    return mcmc


def figures_of(target: Target, mcmc: MCMC) -> dict[str, float]:
    """The errors of a run."""
    x, log_weights = weighted_samples(mcmc)
    return target.errors(jax.tree.map(np.asarray, x), np.exp(log_weights))


# ------------------------------------------------------------------------------ mode masses


def tv_of(masses: Callable, exact: np.ndarray) -> Callable:
    """Total variation of mode masses, of single chains and pooled."""

    def errors(x: Any, weights: np.ndarray) -> dict[str, float]:
        found = masses(x, weights / weights.mean(1, keepdims=True))
        return {
            "TV a chain": total_variation(found, exact).mean(),
            "TV pooled": total_variation(found.mean(0), exact),
            "its error": found.std(0).max() / np.sqrt(len(found)),
        }

    return errors


def share(indicator: Callable) -> Callable:
    """The masses of a mode and of its complement."""

    def masses(x: Any, weights: np.ndarray) -> np.ndarray:
        mass = (weights * indicator(x)).mean(1)
        return np.stack([mass, 1 - mass], -1)

    return masses


def two_modes(x: jax.Array) -> jax.Array:
    """0.6 and 0.4 of two unit normals in ten dimensions, a barrier of 11 nats."""
    shift = 4.7 / np.sqrt(10)
    left = np.log(0.4) - 0.5 * jnp.sum((x + shift) ** 2)
    right = np.log(0.6) - 0.5 * jnp.sum((x - shift) ** 2)
    return -jnp.logaddexp(left, right)


def gauss(x: jax.Array) -> jax.Array:
    """Twenty standard normals."""
    return 0.5 * jnp.sum(x**2)


def gauss_errors(x: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    """Error of the mean energy, and effective draws by the spread of the chains' means."""
    energy = 0.5 * (x**2).sum(-1)
    means = (weights * energy).mean(1) / weights.mean(1)
    variance = ((weights[..., None] * x).mean(1) / weights.mean(1)[:, None]).var()
    return {
        "E[U] a chain": np.sqrt(((means - 10.0) ** 2).mean()),
        "pooled": means.mean() - 10.0,
        "its error": means.std() / np.sqrt(len(means)),
        "ESS a chain": 1 / variance,
    }


# ------------------------------------------------------------------------------ models


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


def poisson(counts: jax.Array, group: jax.Array) -> None:
    """A hierarchy of Poisson rates."""
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    with numpyro.plate("groups", 10):
        effect = numpyro.sample("effect", dist.Normal(0, 1))
    with numpyro.plate("rows", len(counts)):
        numpyro.sample("y", dist.Poisson(jnp.exp(mu + scale * effect[group])), obs=counts)


def poisson_data() -> tuple:
    """500 counts in ten groups."""
    group = jnp.arange(500) % 10
    rate = jnp.exp(1.0 + 0.6 * random.normal(random.key(3), (10,)))
    return random.poisson(random.key(4), rate[group]), group


def logistic(x: jax.Array, y: jax.Array) -> None:
    """A logistic regression."""
    beta = numpyro.sample("beta", dist.Normal(0, 10).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=x @ beta), obs=y)


def logistic_data() -> tuple:
    """2,000 rows, 20 columns of scales from 0.1 to 10."""
    keys = random.split(random.key(5), 3)
    scales = jnp.logspace(-1, 1, 20)
    x = random.normal(keys[0], (2000, 20))
    y = random.bernoulli(keys[1], jax.nn.sigmoid(x @ random.normal(keys[2], (20,)) * 0.5))
    return x * scales, y.astype(jnp.int32)


def against_nuts(model: Callable, data: tuple) -> Callable:
    """Errors of means in posterior sds, and the range of the ratios of sds."""

    truth = cache(lambda: by_nuts(model, data))
    return lambda x, weights: errors(x, weights, truth())


def concrete_errors(split: Split) -> Callable:
    """Held-out RMSE, in MPa, of the network's predictive mean."""
    network = jax.jit(jax.vmap(jax.vmap(concrete.network, (0, None)), (0, None)))

    def errors(x: dict, weights: np.ndarray) -> dict[str, float]:
        f = np.asarray(network(x, jnp.asarray(split.X_test)), np.float64)
        observed = split.y_mean + split.y_sd * split.y_test

        def rmse(mean: np.ndarray) -> float:
            return concrete.rmse(split.y_mean + split.y_sd * mean, observed)

        means = (weights[..., None] * f).mean(1) / weights.mean(1)[:, None]
        return {"RMSE a chain": np.mean([rmse(m) for m in means]), "pooled": rmse(means.mean(0))}

    return errors


def spread_starts(low: float, high: float, *shape: int) -> Callable[[int], np.ndarray]:
    """Starts of chains at positions of this shape along the diagonal, (chains, ...)."""

    def start(chains: int) -> np.ndarray:
        line = np.linspace(low, high, chains)
        return line.reshape(-1, *[1] * len(shape)) * np.ones((chains, *shape))

    return start


def targets() -> dict[str, Target]:
    """The table's rows."""
    nine = nine_modes
    rows = [
        Target(
            "mix1",
            200_000,
            20_000,
            tv_of(share(lambda x: x > mixture.DIVIDE), np.array([0.6, 0.4])),
            potential=mixture.potential,
            start=spread_starts(-8, 6),
        ),
        Target(
            "nine",
            200_000,
            20_000,
            tv_of(
                lambda x, w: np.stack([nine.mode_masses(a, b).ravel() for a, b in zip(x, w)]),
                nine.exact_masses().ravel(),
            ),
            potential=nine.potential,
            start=spread_starts(0, 0, 2),
        ),
        Target(
            "two10d",
            100_000,
            10_000,
            tv_of(share(lambda x: x.sum(-1) > 0), np.array([0.6, 0.4])),
            potential=two_modes,
            start=spread_starts(-1.5, 1.5, 10),
            chains=MANY_CHAINS,
        ),
        Target(
            "gauss20d",
            200_000,
            20_000,
            gauss_errors,
            potential=gauss,
            start=spread_starts(1, 1, 20),
            chains=MANY_CHAINS,
            beside_sgld="ESS a chain",
        ),
    ]
    # The lowest ways between the two labellings, by search on a grid: 13, 20 and 37 nats.
    for name, rows_of, centre in (
        ("mixture20", 20, 1.45),
        ("mixture30", 30, 1.65),
        (BEYOND, 30, 2.0),
    ):
        rows.append(
            Target(
                name,
                200_000,
                20_000,
                tv_of(share(lambda x: x["mu"][..., 0] < x["mu"][..., 1]), np.array([0.5, 0.5])),
                model=mixture_model,
                data=(mixture_data(rows_of, centre),),
            )
        )
    for name, model, data in (
        ("eight schools", eight_schools, ()),
        ("regression", regression, regression_data()),
        ("poisson", poisson, poisson_data()),
        ("logistic", logistic, logistic_data()),
    ):
        # The level and the effects of the hierarchy lie on a ridge, which takes many small steps.
        steps = 400_000 if name == "poisson" else 50_000
        rows.append(Target(name, steps, 10_000, against_nuts(model, data), model=model, data=data))
    split = split_and_standardise(load("concrete"), seed=0)
    rows.append(
        Target(
            "concrete",
            32_000,
            18_000,
            concrete_errors(split),
            model=concrete.model,
            data=(jnp.asarray(split.X_train), jnp.asarray(split.y_train)),
            num_steps=200,
        )
    )
    return {target.name: target for target in rows}


def main(names: tuple = (), kernel_class: type = ContourSGLD, **arguments: Any) -> str:
    """The table, as text."""
    rows = []
    for name, target in targets().items():
        if names and name not in names:
            continue
        begin = time.perf_counter()
        mcmc = run(target, kernel_class, **arguments)
        found = figures_of(target, mcmc)
        seconds = time.perf_counter() - begin
        if target.beside_sgld is not None:
            figure = target.beside_sgld
            sgld = figures_of(target, run(target, SGLD))[figure]
            found[f"{figure} over SGLD's"] = found[figure] / sgld
        step_size = np.asarray(mcmc.last_state.step_size).mean()
        rows.append(
            [
                name,
                f"{target.steps:,} + {target.warmup:,}",
                str(target.chains),
                ", ".join(f"{figure} {value:.3f}" for figure, value in found.items()),
                f"{step_size:.2f}",
                f"{seconds:.0f}",
            ]
        )
        print(*rows[-1], sep=" | ", flush=True)
    return (
        "## Nothing given: what the warm-up finds\n\n"
        f"`{kernel_class.__name__}` with no argument but `num_steps=10`. Means are "
        "off by so many posterior standard deviations of NUTS, whose own "
        "error is about 0.02.\n\n"
        + markdown_table(
            ["target", "steps + warm-up", "chains", "figures", "step size", "seconds"], rows
        )
    )


if __name__ == "__main__":
    import sys

    main(tuple(sys.argv[1:]))
