"""Every kernel with nothing given: a regression from minibatches, and two modes far apart."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import numpyro_contour
from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.models import logistic, logistic_data
from benchmarks.shared.posteriors import by_nuts, errors
from benchmarks.shared.runs import KERNELS
from benchmarks.shared.tables import markdown_table
from numpyro_contour import ContourSGLD
from numpyro_contour.examples import mixture

CHAINS = 16


def drawn(
    kernel: object, steps: int, warmup: int, num_steps: int, *data: object, **more: object
) -> tuple:
    """Draws and weights of a run of this many steps."""
    numbers = warmup // num_steps, steps // num_steps, more.pop("chains", CHAINS)
    return runs.draws_of(runs.run(kernel, *numbers, *data, **more))


def regression(name: str, length: int, data: tuple, truth: dict) -> list[str]:
    """The logistic regression: effective draws, the worst error and the ratios of sds."""
    steps = 30_000 // length
    kernel = getattr(numpyro_contour, name)(logistic, num_steps=50)
    x, w = drawn(kernel, steps, 10_000 // length, 50, *data)
    means = (w[..., None] * np.asarray(x["beta"], np.float64)).mean(1)
    z = (means - truth["beta"].mean(0)) / truth["beta"].std(0)
    effective = 1000 / (np.median((z**2).mean(0)) * steps * KERNELS[name])
    found = errors(x, w, truth)
    return [
        f"{effective:.1f}",
        f"{found['worst mean a chain']:.3f}",
        f"{found['sd ratio min']:.3f} to {found['max']:.3f}",
    ]


PRECISION = np.linalg.inv(np.array([[1.0, 0.99], [0.99, 1.0]]))


def correlated(name: str, length: int) -> list[str]:
    """Effective draws for two normal coordinates with correlation 0.99 and exact gradients."""
    steps = 50_000 // length
    kernel = getattr(numpyro_contour, name)(
        potential_fn=lambda x: 0.5 * x @ PRECISION @ x, num_steps=20
    )
    start = jnp.zeros((64, 2))
    x, w = drawn(kernel, steps, 10_000 // length, 20, chains=64, init_params=start)
    means = (w[..., None] * np.asarray(x, np.float64)).mean(1)
    return [f"{1000 / ((means**2).mean() * steps * KERNELS[name]):.1f}"]


def modes(name: str, length: int) -> list[str]:
    """The mass of the right mode of 0.4 N(-6, 1) + 0.6 N(4, 1), with starts on the left."""
    kernel = getattr(numpyro_contour, name)(
        potential_fn=mixture.potential, energy=mixture.noisy_energy(), num_steps=100
    )
    numbers = 200_000 // length, 20_000 // length, 100
    x, w = drawn(kernel, *numbers, init_params=jnp.full(CHAINS, -6.0))
    mass = (w * (x > mixture.DIVIDE)).mean(1)
    return [f"{mass.mean():.3f}", f"{np.sqrt(((mass - mixture.MASS) ** 2).mean()):.3f}"]


def main(experiment: Experiment) -> str:
    """The section of the page."""
    # How many times shorter the runs are.
    length = experiment.choose(1, 10)
    data = logistic_data(experiment.choose(10_000, 300))
    truth = by_nuts(ContourSGLD(logistic).model, data, 500, 2500, 2)
    rows = [
        [
            name,
            *regression(name, length, data, truth),
            *correlated(name, length),
            *modes(name, length),
        ]
        for name in experiment.choose(KERNELS, ("SGLD",))
    ]
    return (
        "## Every kernel with nothing given\n\n"
        "There are 16 chains unless stated otherwise. The logistic regression has 10,000 rows and "
        "20 columns of scales from 0.1 to 10, with minibatches of 200, 10,000 steps of warm-up and "
        "30,000 steps after it. Effective draws are per 1,000 minibatch gradients, for the median "
        "coordinate, from the error across chains. The worst mean is the largest error of a mean "
        "in one chain, in posterior sds. The sd ratios compare the sds of the draws with the true "
        "ones. The column 'correlated' gives the same effective draws for two normal coordinates "
        "with correlation 0.99, exact gradients and 64 chains. The last two columns are for two "
        "modes 11 nats apart, with 200,000 steps from the left mode: the mass of the right mode "
        "(exact: 0.6), averaged over chains, and its root mean square error in one chain.\n\n"
        + markdown_table(
            [
                "kernel",
                "effective draws",
                "worst mean",
                "sd ratios",
                "correlated",
                "mass of 0.6",
                "error a chain",
            ],
            rows,
        )
    )
