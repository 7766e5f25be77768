"""Two modes that come from the rows of the data: can chains cross between them when subsampled?"""

from __future__ import annotations

import time

import jax
import numpy as np
from jax import random

from benchmarks.shared.experiment import Experiment
from benchmarks.shared.models import amplitude, amplitude_by_grid
from benchmarks.shared.runs import quiet, run
from benchmarks.shared.tables import crossings, markdown_table
from numpyro_contour import ContourSGLD, diagnose, expectation, to_inference_data

ROWS = (40, 1000, 20_000)
MINIBATCH = 200
#: number of draws, and steps of each draw
DRAWS, STEPS = 1000, 100


def noise_of(rows: int) -> float:
    """The standard deviation of a row that gives the same posterior as README's 40 rows."""
    return 3.5 * np.sqrt(rows / 40)


def data(rows: int) -> jax.Array:
    """Rows whose mean is 1.5 squared, so that all sizes have the same posterior."""
    error = random.normal(random.key(1), (rows,))
    return 1.5**2 + noise_of(rows) * (error - error.mean())


def row(rows: int, energy: str, draws: int) -> list[str]:
    """A row of the table: eight chains with one kind of energy."""
    y = data(rows)
    minibatch = None if energy == "full" else MINIBATCH
    kernel = ContourSGLD(amplitude, num_steps=STEPS, energy=energy, minibatch_size=minibatch)
    began = time.perf_counter()
    mcmc = run(kernel, draws // 4, draws, 8, y, noise_of(rows))
    seconds = time.perf_counter() - began
    with quiet():
        idata = to_inference_data(mcmc)
    right = np.asarray(idata["posterior"]["a"]) > 0
    stats = idata["sample_stats"]
    noise = np.asarray(stats["energy_noise"]) if "energy_noise" in stats else np.zeros((8, 1))
    mass = expectation(idata, lambda posterior: posterior["a"] > 0)
    faults = diagnose(idata).faults
    by_chain = np.median(noise, axis=1)
    return [
        f"{rows:,}",
        f'`"{energy}"`',
        f"{np.median(by_chain):.3g}, worst chain {by_chain.max():.3g}",
        f"{crossings(right).mean():.0f}",
        f"{mass.mean:.2f} +- {mass.mcse:.2f}",
        f"{faults[0].check}, {len(faults)} in all" if faults else "none",
        f"{seconds:.0f}",
    ]


def main(experiment: Experiment) -> str:
    """The section of the page."""
    draws = experiment.choose(DRAWS, 100)
    rows = [row(ROWS[0], "full", draws)]
    for number in experiment.choose(ROWS[1:], ROWS[1:2]):
        energies = experiment.choose(("control_variate", "minibatch", "full"), ("minibatch",))
        rows += [row(number, energy, draws) for energy in energies]
    mass, height = amplitude_by_grid(data(40), noise_of(40))
    return (
        "## Two modes that the rows make\n\n"
        "This is the model of README, in which the data determine only the square of the "
        "parameter. There are N rows. The more rows there are, the noisier each one is, so that "
        f"the posterior stays the same, with {height:.0f} nats between its modes and P(a > 0) = "
        f"{mass:.3f}. Minibatches have {MINIBATCH} rows, and 8 chains make {draws:,} draws of "
        f"{STEPS} steps each. The noise of the energy is the median over a chain's draws, in nats. "
        "Crossings are counted between draws, per chain. The table names the first fault that "
        "`diagnose` finds; seconds are those of a run.\n\n"
        + markdown_table(
            ["N", "`energy`", "noise, nats", "crossings", "P(a > 0)", "faults", "seconds"], rows
        )
    )
