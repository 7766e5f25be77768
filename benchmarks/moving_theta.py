"""What a theta that still moves does to the answers: the same runs with smaller gains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random
from numpyro.infer import MCMC

from benchmarks.defaults import MANY_CHAINS, spread_starts, two_modes
from benchmarks.tables import markdown_table
from numpyro_contour import (
    ContourSGHMC,
    ContourSGLD,
    EnergyPartition,
    robbins_monro,
    weighted_samples,
)

#: The gains by their names; None is the default, robbins_monro(10, 0.8, 100).
GAINS = {
    "default": None,
    "robbins_monro(10, 0.9, 100)": robbins_monro(10, 0.9, 100),
    "robbins_monro(10, 1.0, 100)": robbins_monro(10, 1.0, 100),
}
#: Standard deviations of the noise in the model of README, for two heights of the barrier.
NOISES = (3.5, 3.0)
GRID = np.linspace(-4, 4, 8001)


def amplitude(noise: float) -> Callable:
    """The model of README."""

    def model(y: jax.Array) -> None:
        a = numpyro.sample("a", dist.Normal(0.3, 1))
        with numpyro.plate("rows", len(y)) as rows:
            numpyro.sample("y", dist.Normal(a**2, noise), obs=y[rows])

    return model


def amplitude_data(noise: float) -> jax.Array:
    """The data of README."""
    return 1.5**2 + noise * random.normal(random.key(1), (40,))


def amplitude_exact(noise: float) -> tuple[float, float]:
    """P(a > 0) on a grid, and the barrier from the deeper mode in nats."""
    misfit = np.sum((np.asarray(amplitude_data(noise), float)[:, None] - GRID**2) ** 2, 0)
    energy = 0.5 * (GRID - 0.3) ** 2 + 0.5 * misfit / noise**2
    density = np.exp(energy.min() - energy)
    height = energy[np.abs(GRID) < 1].max() - energy.min()
    return float(density[GRID > 0].sum() / density.sum()), float(height)


def run(kernel: Any, warmup: int, draws: int, chains: int, *data: Any, **more: Any) -> tuple:
    """Draws, and weights of mean 1 in each chain."""
    mcmc = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(random.key(0), *data, **more)
    x, log_weights = weighted_samples(mcmc)
    return x, np.exp(log_weights)


def masses(inside: np.ndarray, weights: np.ndarray, exact: float) -> list[str]:
    """The mean over chains of a mode's mass and its error, the scatter of chains, crossings."""
    by_chain = (weights * inside).mean(1)
    error = by_chain.std(ddof=1) / len(by_chain) ** 0.5
    crossings = (inside[:, 1:] != inside[:, :-1]).sum(1).mean()
    return [
        f"{exact:.3f}",
        f"{by_chain.mean():.3f} +- {error:.3f}",
        f"{by_chain.std(ddof=1):.3f}",
        f"{crossings:.0f}",
    ]


def two_sided() -> list[list[str]]:
    """Rows of the model of README: as it stands there, and with bins and step size given."""
    rows = []
    for noise in NOISES:
        exact, height = amplitude_exact(noise)
        y = amplitude_data(noise)
        for name, gain in GAINS.items():
            given: dict[str, Any] = {} if gain is None else {"gain": gain}
            kernel = ContourSGLD(amplitude(noise), num_steps=500, **given)
            x, weights = run(kernel, 250, 1000, 48, y)
            target = f"model of README, noise {noise:g}: {height:.0f} nats"
            rows.append([target, name, *masses(np.asarray(x["a"]) > 0, weights, exact)])
    return rows


def ten_dimensions() -> list[list[str]]:
    """Rows of the two normals of the defaults' benchmark: the lesser mode, 0.4."""
    rows = []
    for name, gain in GAINS.items():
        given: dict[str, Any] = {} if gain is None else {"gain": gain}
        kernel = ContourSGLD(potential_fn=two_modes, num_steps=10, **given)
        start = jnp.asarray(spread_starts(-1.5, 1.5, 10)(MANY_CHAINS))
        x, weights = run(kernel, 1000, 10_000, MANY_CHAINS, init_params=start)
        lesser = np.asarray(x).sum(-1) < 0
        rows.append(["10 dimensions, 11 nats", name, *masses(lesser, weights, 0.4)])
    return rows


def variances() -> list[list[str]]:
    """Rows of three standard normals: mean of the variances, after 20,000 steps."""
    rows = []
    # A gradient acts for ten steps with momentum, so that both move at the same pace.
    for kernel_class, step_size in ((ContourSGHMC, 0.02), (ContourSGLD, 0.2)):
        for name, gain in GAINS.items():
            given: dict[str, Any] = {} if gain is None else {"gain": gain}
            kernel = kernel_class(
                potential_fn=lambda x: 0.5 * jnp.sum(x**2),
                num_steps=10,
                step_size=step_size,
                partition=EnergyPartition(0.0, 20.0, 40),
                **given,
            )
            x, weights = run(kernel, 200, 2000, 512, init_params=jnp.zeros((512, 3)))
            found = (weights[..., None] * np.asarray(x, float) ** 2).mean((1, 2))
            error = found.std(ddof=1) / len(found) ** 0.5
            rows.append([kernel_class.__name__, name, f"{found.mean():.3f} +- {error:.3f}"])
    return rows


def main() -> str:
    """The tables, as text."""
    return (
        "## A theta that still moves\n\n"
        "Draws are weighed by theta of their own time. While it still moves, the answers have a "
        "bias of the order of the gain times the steps between crossings. The same runs with "
        "smaller gains: 48 chains of 500,000 steps on the model of README with nothing given, 96 "
        "chains of 100,000 steps on two normals in ten dimensions. Mean of the chains' estimates "
        "of P(a > 0), or of the mass of the lesser mode, and their standard deviation; crossings "
        "between draws, a chain.\n\n"
        + markdown_table(
            ["target", "gain", "exact", "mean of chains", "sd of a chain", "crossings a chain"],
            two_sided() + ten_dimensions(),
        )
        + "\nThree standard normals, step size 0.02 with momentum and 0.2 without, 40 bins of half "
        "a nat: mean variance (1) over 512 chains of 20,000 steps.\n\n"
        + markdown_table(["kernel", "gain", "variance"], variances())
    )


if __name__ == "__main__":
    print(main())
