"""Logistic regression on three million flights: kernels on minibatches, HMCECS and NUTS."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random
from numpyro.infer import HMCECS, MCMC, NUTS

from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.posteriors import errors, two_draws
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import timed
from numpyro_contour import SGLD, ContourSGLD
from numpyro_contour.examples import flights
from numpyro_contour.examples.flights import LATE, normal_approximation

MINIBATCH = 1000
PRIOR_SD = 5.0


def model(x: jax.Array, y: jax.Array, subsample: int | None = None) -> None:
    """A logistic regression."""
    beta = numpyro.sample("beta", dist.Normal(0, PRIOR_SD).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("flights", len(y), subsample_size=subsample):
        rows = numpyro.subsample(x, event_dim=1)
        numpyro.sample("late", dist.Bernoulli(logits=rows @ beta), obs=numpyro.subsample(y, 0))


def subsampled(x: jax.Array, y: jax.Array) -> None:
    """The same regression on minibatches."""
    model(x, y, min(MINIBATCH, len(y)))


@dataclass(frozen=True)
class Length:
    """How long the runs are."""

    #: steps of the kernels after warm-up, and steps of warm-up
    steps: int
    warmup: int
    #: steps of a draw: the energy of each draw takes a pass over all rows
    num_steps: int
    #: draws of HMCECS, and of its warm-up
    ecs: int
    #: draws of NUTS, and of its warm-up
    nuts: int
    #: number of chains, except for NUTS
    chains: int


def run_kernel(kernel_class: type, length: Length, x: jax.Array, y: jax.Array) -> tuple:
    """Draws and weights of a kernel with nothing given, and the rows that it evaluated."""
    kernel = kernel_class(subsampled, num_steps=length.num_steps)
    draws = length.steps // length.num_steps
    mcmc = runs.run(kernel, length.warmup // length.num_steps, draws, length.chains, x, y)
    samples, weights = runs.draws_of(mcmc)
    # Two minibatches per step, at the position and the anchor, and a pass per draw's weight.
    passes = draws if kernel_class is ContourSGLD else 0
    rows = 2 * MINIBATCH * (length.steps + length.warmup) + passes * len(y)
    return samples, weights, length.chains * rows


def run_ecs(length: Length, x: jax.Array, y: jax.Array) -> tuple:
    """Draws and rows of HMCECS with the Taylor proxy at the mode, as in its example."""
    mode = normal_approximation(np.asarray(x), np.asarray(y), PRIOR_SD)[0]
    proxy = HMCECS.taylor_proxy({"beta": jnp.asarray(mode, jnp.float32)})
    mcmc = MCMC(
        HMCECS(NUTS(subsampled), num_blocks=100, proxy=proxy),
        num_warmup=length.ecs,
        num_samples=length.ecs,
        num_chains=length.chains,
        chain_method="sequential",  # the only one that it supports
        progress_bar=False,
    )
    each = np.tile(mode, (length.chains, 1)) if length.chains > 1 else mode
    mcmc.run(
        random.key(0),
        x,
        y,
        extra_fields=("hmc_state.num_steps",),
        init_params={"beta": jnp.asarray(each, jnp.float32)},
    )
    leapfrogs = float(np.asarray(mcmc.get_extra_fields()["hmc_state.num_steps"]).sum())
    samples = mcmc.get_samples(group_by_chain=True)
    # The warm-up takes at least as many, and the proxy takes a few passes.
    rows = 2 * leapfrogs * min(MINIBATCH, len(y)) + 3 * len(y)
    return samples, np.ones((length.chains, length.ecs)), rows


def run_nuts(length: Length, x: jax.Array, y: jax.Array) -> tuple:
    """Draws and rows of one chain of NUTS on all rows."""
    mcmc = MCMC(
        NUTS(model),
        num_warmup=length.nuts,
        num_samples=length.nuts,
        num_chains=1,
        progress_bar=False,
    )
    mcmc.run(random.key(0), x, y, extra_fields=("num_steps",))
    leapfrogs = float(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum())
    return mcmc.get_samples(group_by_chain=True), np.ones((1, length.nuts)), 2 * leapfrogs * len(y)


def row(name: str, make: Callable[[], tuple], truth: tuple[np.ndarray, np.ndarray]) -> list[str]:
    """A line of the table."""
    jax.clear_caches()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (samples, weights, rows), seconds, compiling = timed(make)
    # The draws are standardised by the truth, which then is a standard normal.
    z = (np.asarray(samples["beta"], np.float64) - truth[0]) / truth[1]
    size = z.shape[-1]
    found = errors({"z": z}, weights, two_draws(np.zeros(size), np.ones(size), "z"))
    return [
        name,
        str(len(weights)),
        f"{found['worst mean a chain']:.3f}",
        f"{found['pooled']:.3f}",
        f"{found['sd ratio min']:.3f} to {found['max']:.3f}",
        f"{rows / 1e6:,.0f}",
        f"{seconds - compiling:.0f}",
        f"{compiling:.0f}",
    ]


def main(experiment: Experiment) -> str:
    """The section of the page."""
    length = experiment.choose(
        Length(20_000, 10_000, 200, 1000, 100, 4), Length(200, 400, 20, 10, 10, 1)
    )
    x, y = flights.regression(flights.load(experiment.choose(flights.ROWS, 4000)))
    truth = normal_approximation(x, y, PRIOR_SD)
    x, y = jnp.asarray(x), jnp.asarray(y)
    makers: dict[str, Callable[[], tuple]] = {
        "ContourSGLD": lambda: run_kernel(ContourSGLD, length, x, y),
        "SGLD": lambda: run_kernel(SGLD, length, x, y),
        "HMCECS": lambda: run_ecs(length, x, y),
        "NUTS, all rows": lambda: run_nuts(length, x, y),
    }
    if experiment.quick:
        del makers["SGLD"]
    rows = []
    for name, make in makers.items():
        rows.append(row(name, make, truth))
        if not experiment.quick:
            print(*rows[-1], sep=" | ", flush=True)
    header = [
        "method",
        "chains",
        "worst mean of a chain",
        "pooled",
        "sd ratios",
        "million rows",
        "seconds",
        "compiling",
    ]
    return (
        "## Three million flights\n\n"
        f"The question is whether a flight is more than {LATE} minutes late, given hour, weekday "
        f"and distance. The model is a logistic regression on {len(y):,} rows and {x.shape[1]} "
        f"columns, in minibatches of {MINIBATCH:,}. The truth is the normal approximation in "
        "float64, which is exact with so many rows. Errors of means are in posterior standard "
        "deviations. Rows are those that all chains evaluated; the warm-ups of HMCECS and NUTS are "
        "assumed to evaluate as many as their draws. Kernels with nothing given except "
        f"`num_steps={length.num_steps}` take {length.warmup:,} + {length.steps:,} steps (warm-up "
        "+ draws). HMCECS has 100 blocks and the Taylor proxy at the mode, and makes "
        f"{length.ecs:,} + {length.ecs:,} draws from there; NUTS makes {length.nuts} + "
        f"{length.nuts}.\n\n{markdown_table(header, rows)}\n"
        "The posterior has one mode. Flattening therefore gains nothing here, and its cost is the "
        "difference from SGLD.\n"
    )
