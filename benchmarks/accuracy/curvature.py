"""Curvature that varies: coordinates in which it hardly does, and Metropolis-Hastings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import NUTS

from benchmarks.accuracy import kinds_models
from benchmarks.shared import models, runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from numpyro_contour import SGLD, ContourSGLD

WARMUP, DRAWS, STEPS, CHAINS = 400, 500, 100, 16


def centred_schools() -> None:
    """Eight schools, centred."""
    y = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


class Target(NamedTuple):
    """A model, the coordinate that is slow, and a form of the model that NUTS samples well."""

    model: Callable
    slow: Callable[[Any], np.ndarray]
    by_nuts: Callable | None


TARGETS = {
    "eight schools, centred": Target(
        centred_schools, lambda x: np.log(x["tau"]), models.eight_schools
    ),
    "funnel, 10-d": Target(kinds_models.funnel().model, lambda x: x["v"], None),
}

KERNELS: dict[str, Callable] = {
    "`SGLD`": SGLD,
    "`SGLD`, adjusted": lambda model, **more: SGLD(model, adjusted=True, **more),
    "`ContourSGLD`": ContourSGLD,
    "`ContourSGLD`, adjusted": lambda model, **more: ContourSGLD(model, adjusted=True, **more),
}


#: what is made of a kernel: one on a wrapped model leaves its sites as they are written
COORDINATES: dict[str, Callable] = {
    "as written": lambda kernel: kernel.wrap_model(lambda model: model),
    "found": lambda kernel: kernel,
}


def truth(target: Target, draws: int) -> tuple[float, float]:
    """Mean and standard deviation of the slow coordinate."""
    if target.by_nuts is None:
        return 0.0, 3.0
    nuts = NUTS(target.by_nuts, target_accept_prob=0.95)
    x = target.slow(runs.run(nuts, draws, draws, 4).get_samples())
    return float(x.mean()), float(x.std())


def row(kernel: Any, target: Target, exact: tuple[float, float], draws: int) -> list[str]:
    """Bias and error of one kernel."""
    mcmc = runs.run(kernel, WARMUP, draws, CHAINS)
    z, weights = runs.draws_of(mcmc)
    mean, sd = exact
    off = ((weights * target.slow(jax.tree.map(np.asarray, z))).mean(1) - mean) / sd
    error = off.std(ddof=1) / CHAINS**0.5
    step = float(np.median(np.asarray(mcmc.last_state.step_size)))
    return [f"{off.mean():+.3f} +- {error:.3f}", f"{(off**2).mean() ** 0.5:.2f}", f"{step:.2g}"]


def main(experiment: Experiment) -> str:
    """The section of the page."""
    draws, of_nuts = experiment.choose((DRAWS, 2000), (20, 50))
    rows = []
    for name in experiment.choose([*TARGETS], ["funnel, 10-d"]):
        target = TARGETS[name]
        exact = truth(target, of_nuts)
        for label in experiment.choose([*KERNELS], ["`SGLD`, adjusted"]):
            for form, of in COORDINATES.items():
                kernel = of(KERNELS[label](target.model, num_steps=STEPS))
                rows.append([name, label, form, *row(kernel, target, exact, draws)])
                print(*rows[-1], sep=" | ", flush=True)
                jax.clear_caches()
    header = ["posterior", "kernel", "coordinates", "bias in sds", "error of a chain", "step size"]
    return (
        "## Curvature that varies\n\n"
        f"Two posteriors with necks, at equal gradients: {CHAINS} chains of {WARMUP} draws of "
        f"warm-up and {draws:,} after it, of {STEPS} steps each, with nothing given. The slow "
        "coordinate is the log of the scale between schools, and the funnel's log variance. The "
        "bias is that of the mean of a chain, with its standard error; the error is the root mean "
        "square of a chain's. Truth is exact for the funnel, and NUTS with four chains of "
        f"{of_nuts:,} draws for the schools, non-centred. Coordinates are those of the models as "
        "they are written, with necks, or partly non-centred ones, which are found.\n\n"
        + markdown_table(header, rows)
    )
