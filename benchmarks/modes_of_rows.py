"""Two modes that the rows of the data make: what subsampling leaves of the way between them."""

from __future__ import annotations

import time
import warnings

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random
from numpyro.infer import MCMC

from benchmarks.tables import markdown_table
from numpyro_contour import ContourSGLD, diagnose, expectation, to_inference_data

ROWS = (40, 1000, 20_000)
MINIBATCH = 200
#: draws and steps of each
DRAWS, STEPS = 1000, 100


def noise_of(rows: int) -> float:
    """The standard deviation of a row that keeps the posterior of README's 40 rows."""
    return 3.5 * np.sqrt(rows / 40)


def model(y: jax.Array, noise: float) -> None:
    """The model of README: only the square of its parameter is seen."""
    a = numpyro.sample("a", dist.Normal(0.3, 1))
    with numpyro.plate("rows", len(y)):
        rows = numpyro.subsample(y, event_dim=0)
        numpyro.sample("y", dist.Normal(a**2, noise), obs=rows)


def data(rows: int) -> jax.Array:
    """Rows whose mean is 1.5 squared, so that all sizes have one posterior."""
    error = random.normal(random.key(1), (rows,))
    return 1.5**2 + noise_of(rows) * (error - error.mean())


def exact() -> tuple[float, float]:
    """P(a > 0) by a grid, and the barrier from the deeper mode in nats."""
    grid = np.linspace(-4, 4, 8001)
    energy = 0.5 * (grid - 0.3) ** 2 + 0.5 * 40 * (grid**2 - 1.5**2) ** 2 / 3.5**2
    density = np.exp(energy.min() - energy)
    height = energy[np.abs(grid) < 1].max() - energy.min()
    return float(density[grid > 0].sum() / density.sum()), float(height)


def row(rows: int, energy: str) -> list[str]:
    """A row of the table: eight chains at one kind of energy."""
    y = data(rows)
    minibatch = None if energy == "full" else MINIBATCH
    kernel = ContourSGLD(model, num_steps=STEPS, energy=energy, minibatch_size=minibatch)
    mcmc = MCMC(
        kernel,
        num_warmup=250,
        num_samples=DRAWS,
        num_chains=8,
        chain_method="vectorized",
        progress_bar=False,
    )
    began = time.perf_counter()
    with warnings.catch_warnings():
        # That some of these runs are bad is what the table is to show.
        warnings.simplefilter("ignore", UserWarning)
        mcmc.run(random.key(0), y, noise_of(rows))
        jax.block_until_ready(mcmc.last_state)
        seconds = time.perf_counter() - began
        idata = to_inference_data(mcmc)
    right = np.asarray(idata["posterior"]["a"]) > 0
    crossings = (right[:, 1:] != right[:, :-1]).sum(1)
    stats = idata["sample_stats"]
    noise = np.asarray(stats["energy_noise"]) if "energy_noise" in stats else np.zeros((8, 1))
    mass = expectation(idata, lambda posterior: posterior["a"] > 0)
    faults = diagnose(idata).faults
    by_chain = np.median(noise, axis=1)
    return [
        f"{rows:,}",
        f'`"{energy}"`',
        f"{np.median(by_chain):.3g}, worst chain {by_chain.max():.3g}",
        f"{crossings.mean():.0f}",
        f"{mass.mean:.2f} +- {mass.mcse:.2f}",
        f"{faults[0].check}, {len(faults)} in all" if faults else "none",
        f"{seconds:.0f}",
    ]


def main() -> str:
    """The table, as text."""
    rows = [[*row(ROWS[0], "full")]]
    for number in ROWS[1:]:
        rows += [row(number, energy) for energy in ("control_variate", "minibatch", "full")]
    mass, height = exact()
    return (
        "## Two modes that the rows make\n\n"
        "The model of README, of which the data show only the square of the parameter: N rows, "
        "noisier as there are more of them, so that the posterior stays the same, with "
        f"{height:.0f} nats between its modes and P(a > 0) = {mass:.3f}. Minibatches of "
        f"{MINIBATCH}, 8 chains of {DRAWS:,} draws, each for {STEPS} steps. The noise of the "
        "energy is the median over a chain's draws, in nats; crossings between draws, a chain; "
        "the first fault that `diagnose` names; seconds of a run.\n\n"
        + markdown_table(
            ["N", "`energy`", "noise, nats", "crossings", "P(a > 0)", "faults", "seconds"], rows
        )
    )


if __name__ == "__main__":
    print(main())
