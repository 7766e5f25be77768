"""Targets with known answers for runs with nothing given, and the errors of these runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.shared import models
from benchmarks.shared.posteriors import Errors, by_nuts, errors, halves, of_nine, tv_of
from benchmarks.shared.targets import spread_starts, two_normals
from numpyro_contour.examples import concrete, mixture, nine_modes
from numpyro_contour.examples.datasets import Split, load, split_and_standardise

CHAINS = 16
MANY_CHAINS = 96
#: A target whose barrier is higher than the defaults are meant for.
BEYOND = "mixture30, 37 nats"


@dataclass(frozen=True)
class Target:
    """A model or potential, its budget, and the function for the error of a run."""

    name: str
    steps: int
    warmup: int
    #: `(x, weights) -> {figure: value}`; the first figure is the error of a single chain
    errors: Errors
    potential: Callable | None = None
    #: starts of a number of chains, None for those of the kernel
    start: Callable[[int], np.ndarray] | None = None
    model: Callable | None = None
    data: tuple = ()
    num_steps: int = 10
    #: more chains if the error of few would be larger than the distance to a limit
    chains: int = CHAINS
    #: a figure that is also divided by that of `SGLD`
    beside_sgld: str | None = None


def gauss(x: jax.Array) -> jax.Array:
    """Twenty standard normals."""
    return 0.5 * jnp.sum(x**2)


def gauss_errors(x: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    """Error of the mean energy, and effective draws from the spread of the chains' means."""
    energy = 0.5 * (x**2).sum(-1)
    means = (weights * energy).mean(1) / weights.mean(1)
    variance = ((weights[..., None] * x).mean(1) / weights.mean(1)[:, None]).var()
    return {
        "E[U] a chain": np.sqrt(((means - 10.0) ** 2).mean()),
        "pooled": means.mean() - 10.0,
        "its error": means.std() / np.sqrt(len(means)),
        "ESS a chain": 1 / variance,
    }


def against_nuts(model: Callable, data: tuple) -> Errors:
    """Errors of means in posterior sds, and the range of the ratios of sds."""
    truth = cache(lambda: by_nuts(model, data))
    return lambda x, weights: errors(x, weights, truth())


def concrete_errors(split: Split) -> Errors:
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


def targets() -> dict[str, Target]:
    """The rows of the table."""
    rows = [
        Target(
            "mix1",
            200_000,
            20_000,
            halves(lambda x: x > mixture.DIVIDE, mixture.MASS),
            potential=mixture.potential,
            start=spread_starts(-8, 6),
        ),
        Target(
            "nine",
            200_000,
            20_000,
            tv_of(of_nine, nine_modes.exact_masses().ravel()),
            potential=nine_modes.potential,
            start=spread_starts(0, 0, 2),
        ),
        Target(
            "two10d",
            100_000,
            10_000,
            halves(lambda x: x.sum(-1) > 0, 0.6),
            potential=two_normals(10),
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
    # The lowest barriers between the two labellings, found on a grid: 13, 20 and 37 nats.
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
                halves(lambda x: x["mu"][..., 0] < x["mu"][..., 1], 0.5),
                model=models.mixture_model,
                data=(models.mixture_data(rows_of, centre),),
            )
        )
    for name, model, data in (
        ("eight schools", models.eight_schools, ()),
        ("regression", models.regression, models.regression_data()),
        ("poisson", models.counts_in_groups, models.counts_in_groups_data()),
        ("logistic", partial(models.logistic, minibatch=None), models.logistic_data(2000)),
    ):
        # The level and the effects of the hierarchy form a ridge, which takes many small steps.
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
