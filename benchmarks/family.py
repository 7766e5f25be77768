"""Every kernel with nothing given: a regression from minibatches, and two modes far apart."""

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import MCMC

import numpyro_contour
from benchmarks.posteriors import by_nuts, errors
from benchmarks.subsampling import logistic, logistic_data
from benchmarks.tables import markdown_table
from numpyro_contour import ContourSGLD, weighted_samples
from numpyro_contour.examples import mixture

#: Kernels and the gradients of a step.
KERNELS = {
    "SGLD": 1,
    "SGHMC": 1,
    "SGNHT": 1,
    "CyclicalSGLD": 1,
    "CyclicalSGHMC": 1,
    "ReplicaExchangeSGLD": 2,
    "ReplicaExchangeSGHMC": 2,
    "ContourSGLD": 1,
    "ContourSGHMC": 1,
    "ContourSGNHT": 1,
}
CHAINS = 16


def run(
    kernel: object,
    steps: int,
    warmup: int,
    num_steps: int,
    *data: object,
    chains: int = CHAINS,
    **more: object,
) -> tuple:
    """Draws and weights; the warnings of a kernel that does not reach a mode are known."""
    mcmc = MCMC(
        kernel,
        num_warmup=warmup // num_steps,
        num_samples=steps // num_steps,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(random.key(0), *data, **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        x, log_weights = weighted_samples(mcmc)
    return x, np.exp(log_weights)


def regression(name: str, data: tuple, truth: dict) -> list[str]:
    """The logistic regression: effective draws, the worst error and the ratios of sds."""
    steps = 30_000
    kernel = getattr(numpyro_contour, name)(logistic, num_steps=50)
    x, w = run(kernel, steps, 10_000, 50, *data)
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


def correlated(name: str) -> list[str]:
    """Two normal coordinates of correlation 0.99, with exact gradients: effective draws."""
    steps = 50_000
    kernel = getattr(numpyro_contour, name)(
        potential_fn=lambda x: 0.5 * x @ PRECISION @ x, num_steps=20
    )
    x, w = run(kernel, steps, 10_000, 20, chains=64, init_params=jnp.zeros((64, 2)))
    means = (w[..., None] * np.asarray(x, np.float64)).mean(1)
    return [f"{1000 / ((means**2).mean() * steps * KERNELS[name]):.1f}"]


def modes(name: str) -> list[str]:
    """0.4 N(-6, 1) + 0.6 N(4, 1) from the left: the mass on the right."""
    kernel = getattr(numpyro_contour, name)(
        potential_fn=mixture.potential, energy=mixture.noisy_energy(), num_steps=100
    )
    x, w = run(kernel, 200_000, 20_000, 100, init_params=jnp.full(CHAINS, -6.0))
    mass = (w * (np.asarray(x) > mixture.DIVIDE)).mean(1)
    return [f"{mass.mean():.3f}", f"{np.sqrt(((mass - mixture.MASS) ** 2).mean()):.3f}"]


def main() -> str:
    """The table, as text."""
    data = logistic_data(10_000)
    truth = by_nuts(ContourSGLD(logistic).model, data, 500, 2500, 2)
    rows = [
        [name, *regression(name, data, truth), *correlated(name), *modes(name)] for name in KERNELS
    ]
    return (
        "## Every kernel with nothing given\n\n"
        "16 chains. Logistic regression: 10,000 rows, 20 columns of scales from 0.1 to 10, "
        "minibatches of 200, warm-up 10,000 steps, 30,000 steps; effective draws for 1,000 "
        "minibatch gradients (median coordinate, from the error across chains), worst error of a "
        "mean of one chain in posterior sds, ratios of sds. Correlated: the same effective draws "
        "for two normal coordinates of correlation 0.99, exact gradients, 64 chains. Two modes 11 "
        "nats apart: 200,000 steps from the left one; mean over chains of the mass on the right, "
        "0.6, and its root mean square error in one chain.\n\n"
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


if __name__ == "__main__":
    print(main())
