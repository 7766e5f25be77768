"""The effect on the answers of a theta that still moves: the same runs with smaller gains."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from benchmarks.shared.experiment import Experiment
from benchmarks.shared.models import (
    amplitude,
    amplitude_by_grid,
    amplitude_data,
    amplitude_energy,
)
from benchmarks.shared.runs import draws_of, run
from benchmarks.shared.tables import crossings, markdown_table, mean_and_error
from benchmarks.shared.targets import spread_starts, two_normals
from numpyro_contour import ContourSGHMC, ContourSGLD, EnergyPartition, robbins_monro

#: The gains by name; the default is robbins_monro(10, 0.8, 100).
GAINS: dict[str, dict[str, Any]] = {
    "default": {},
    "robbins_monro(10, 0.9, 100)": {"gain": robbins_monro(10, 0.9, 100)},
    "robbins_monro(10, 1.0, 100)": {"gain": robbins_monro(10, 1.0, 100)},
}
#: Standard deviations of the noise in the model of README, for two heights of the barrier.
NOISES = (3.5, 3.0)
#: With theta known: the width of the bins in nats, and the step size, both as they are found.
KNOWN_WIDTH, KNOWN_STEP = 0.4, 0.0155


class Length(NamedTuple):
    """Divisors of the numbers of draws and chains, and the number of gains to compare."""

    draws: int = 1
    chains: int = 1
    gains: int = 3


def masses(inside: np.ndarray, weights: np.ndarray, exact: float) -> list[str]:
    """Cells: a mode's mass over chains with its error, the spread of chains, and crossings."""
    by_chain = (weights * inside).mean(1)
    return [
        f"{exact:.3f}",
        mean_and_error(by_chain),
        f"{by_chain.std(ddof=1):.3f}",
        f"{crossings(inside).mean():.0f}",
    ]


def gains(length: Length) -> list[tuple[str, dict[str, Any]]]:
    """The gains that are compared."""
    return list(GAINS.items())[: length.gains]


def drawn(
    kernel: Any, length: Length, warmup: int, draws: int, chains: int, *data: Any, **more: Any
) -> tuple:
    """Draws and weights of a run; its sizes are divided by those of `length`."""
    mcmc = run(kernel, warmup // length.draws, draws // length.draws, chains, *data, **more)
    return draws_of(mcmc)


def two_sided(length: Length) -> list[list[str]]:
    """Rows of the model of README: as it stands there, and with bins and step size given."""
    rows = []
    for noise in NOISES[: length.gains]:
        y = amplitude_data(noise)
        exact, height = amplitude_by_grid(y, noise)
        climbs = [(name, {"jumps": False} | given) for name, given in gains(length)]
        for name, given in [*climbs, ("default, with jumps", {})]:
            kernel = ContourSGLD(amplitude, **given)
            x, weights = drawn(kernel, length, 1000, 1000, 48 // length.chains, y, noise)
            target = f"model of README, noise {noise:g}: {height:.0f} nats"
            rows.append([target, name, *masses(x["a"] > 0, weights, exact)])
    return rows


def known_theta(length: Length) -> list[list[str]]:
    """Rows of the model of README with theta from the grid: what is left is of the step size."""
    noise = NOISES[0]
    y = amplitude_data(noise)
    exact, _ = amplitude_by_grid(y, noise)
    grid = np.linspace(-4, 4, 80_001)
    energy = amplitude_energy(grid, y, noise)
    probability = np.exp(energy.min() - energy)
    lower, bins = energy.min() - KNOWN_WIDTH, 64
    partition = EnergyPartition(lower, lower + KNOWN_WIDTH * bins, bins)
    of_bins = np.bincount(partition.index(energy), probability / probability.sum(), bins)
    rows = []
    for factor, more in ((1.0, {}), (0.5, {}), (0.25, {}), (None, {"adjusted": True})):
        step = {} if factor is None else {"step_size": KNOWN_STEP * factor}
        theta = np.maximum(of_bins, 1e-14)
        kernel = ContourSGLD(
            amplitude,
            num_steps=200,
            partition=partition,
            theta=theta,
            jumps=False,
            **step,
            **more,
        )
        x, weights = drawn(kernel, length, 200, 2000, 48 // length.chains, y, noise)
        name = "found, `adjusted=True`" if factor is None else f"{KNOWN_STEP * factor:.4f}"
        rows.append([name, *masses(x["a"] > 0, weights, exact)])
    return rows


def ten_dimensions(length: Length) -> list[list[str]]:
    """Rows of the two normals of the defaults' benchmark: the smaller mode, with mass 0.4."""
    chains, rows = 96 // length.chains, []
    for name, given in gains(length):
        kernel = ContourSGLD(potential_fn=two_normals(10), num_steps=10, jumps=False, **given)
        start = spread_starts(-1.5, 1.5, 10)(chains)
        x, weights = drawn(kernel, length, 1000, 10_000, chains, init_params=start)
        rows.append(["10 dimensions, 11 nats", name, *masses(x.sum(-1) < 0, weights, 0.4)])
    return rows


def variances(length: Length) -> list[list[str]]:
    """Rows of three standard normals: the mean of the variances after 20,000 steps."""
    chains, rows = 512 // length.chains, []
    # With momentum a gradient acts for ten steps, so both kernels move at the same pace.
    for kernel_class, step_size in ((ContourSGHMC, 0.02), (ContourSGLD, 0.2)):
        for name, given in gains(length):
            kernel = kernel_class(
                potential_fn=lambda x: 0.5 * jnp.sum(x**2),
                num_steps=10,
                step_size=step_size,
                partition=EnergyPartition(0.0, 20.0, 40),
                **given,
            )
            start = jnp.zeros((chains, 3))
            x, weights = drawn(kernel, length, 200, 2000, chains, init_params=start)
            found = (weights[..., None] * np.asarray(x, float) ** 2).mean((1, 2))
            rows.append([kernel_class.__name__, name, mean_and_error(found)])
    return rows


def main(experiment: Experiment) -> str:
    """The section of the page."""
    length = experiment.choose(Length(), Length(10, 24, 1))
    return (
        "## A theta that still moves\n\n"
        "Each draw is weighted by the theta at its own time, and by the normaliser of the density "
        "that it flattens. What a moving theta leaves of a bias is of the order of the gain times "
        "the number of steps between crossings. The table repeats the same runs with smaller "
        "gains: 48 chains of 200,000 steps on the model of README and 96 chains of 100,000 steps "
        "on two normals in ten dimensions, with nothing else given but `jumps=False`; the model of "
        "README also with jumps. It shows the mean over chains of the estimates of P(a > 0), or of "
        "the mass of the smaller mode, their standard deviation, and the crossings between draws "
        "per chain.\n\n"
        + markdown_table(
            ["target", "gain", "exact", "mean of chains", "sd of a chain", "crossings a chain"],
            two_sided(length) + ten_dimensions(length),
        )
        + "\nWhat else the model of README leaves is of the step size. With theta as a grid gives "
        f"it, {KNOWN_STEP} being the step that is found, 48 chains of 400,000 steps:\n\n"
        + markdown_table(
            ["step size", "exact", "mean of chains", "sd of a chain", "crossings a chain"],
            known_theta(length),
        )
        + "\nFor three standard normals, the step size is 0.02 with momentum and 0.2 without, and "
        "there are 40 bins of half a nat. The variance (exact: 1) is the mean over 512 chains of "
        "20,000 steps.\n\n" + markdown_table(["kernel", "gain", "variance"], variances(length))
    )
