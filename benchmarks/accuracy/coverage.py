"""Whether the reported Monte Carlo errors agree with replicate runs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from benchmarks.shared import models, runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table, standard_error
from benchmarks.shared.targets import on_a_grid
from numpyro_contour import SGLD, ContourSGLD, EnergyPartition
from numpyro_contour.diagnostics import weighted_ess, weighted_mcse, weighted_mean
from numpyro_contour.examples import mixture, nine_modes

REPLICATES = 200
CHAINS = 4
DRAWS = 1000
CORRELATION = 0.9
#: draws of the runs with nothing given, and as many of warm-up
DEFAULT_DRAWS = 500
#: runs after which compiled programs are forgotten: each run adds some, to no end
FORGOTTEN = 25
#: the standard deviation of the noise in the model of README
NOISE = 3.5


def gaussian(x: jax.Array) -> jax.Array:
    """The potential energy of two standard normals with a correlation of 0.9."""
    square = x[0] ** 2 - 2 * CORRELATION * x[0] * x[1] + x[1] ** 2
    return square / (2 * (1 - CORRELATION**2))


def replicates(
    kernel: Any, draws: int, start: jax.Array, key: jax.Array
) -> tuple[np.ndarray, np.ndarray]:
    """Draws and log weights of all replicates, (replicates, chains, draws, ...)."""
    mcmc = runs.driver(kernel, draws // 4, draws, len(start))
    mcmc.run(key, init_params=start)
    x, weights = runs.draws_of(mcmc)
    with np.errstate(divide="ignore"):  # weights of 0
        log_weights = np.log(weights)
    return x.reshape(-1, CHAINS, *x.shape[1:]), log_weights.reshape(-1, CHAINS, draws)


def scores(x: np.ndarray, log_weights: np.ndarray, exact: float) -> dict[str, Any]:
    """The deviations of the replicates' means in units of their reported errors."""
    means = np.array([weighted_mean(*one) for one in zip(x, log_weights)])
    errors = np.array([weighted_mcse(*one) for one in zip(x, log_weights)])
    z = (means - exact) / errors
    return {
        "ess": np.median([weighted_ess(*one, method="mean") for one in zip(x, log_weights)]),
        "bias": means.mean() - exact,
        "bias_error": standard_error(means),
        "sd": means.std(ddof=1),
        "mcse": np.sqrt(np.mean(errors**2)),
        "cover": np.mean(np.abs(z) < 1.96),
        "rms": np.sqrt(np.mean(z**2)),
    }


def results(number: int, draws: int) -> dict[str, dict[str, Any]]:
    """The rows of the table, from this many replicates."""
    chains = number * CHAINS
    key_mixture, key_gaussian, key_start = random.split(random.key(0), 3)
    contour = ContourSGLD(
        potential_fn=mixture.potential,
        step_size=0.1,
        num_steps=50,
        partition=EnergyPartition(0.0, 20.0, 40),
    )
    # Every other chain starts in the other mode, as two searches for a mode would.
    start = jnp.where(jnp.arange(chains) % 2 == 0, -6.0, 4.0)
    x, log_weights = replicates(contour, draws, start, key_mixture)
    rows = {
        "mixture, ContourSGLD: x": scores(x, log_weights, 0.0),
        "mixture, ContourSGLD: x > -1": scores(x > mixture.DIVIDE, log_weights, mixture.MASS),
    }
    sgld = SGLD(potential_fn=gaussian, step_size=0.05, num_steps=5)
    start = random.normal(key_start, (chains, 2))
    x, log_weights = replicates(sgld, draws, start, key_gaussian)
    rows["correlated Gaussian, SGLD: x(1)"] = scores(x[..., 0], log_weights, 0.0)
    rows["correlated Gaussian, SGLD: x(1) > 1"] = scores(
        x[..., 0] > 1, log_weights, 0.15865525393145707
    )
    return rows


def with_nothing_given(
    kernel: Any, number: int, draws: int, start: Any, *data: Any
) -> tuple[Any, np.ndarray]:
    """Draws and log weights of so many runs, each with a warm-up and modes of its own.

    `start` makes the first positions of a run from a key; None for those of the kernel.
    """
    mcmc = runs.driver(kernel, draws, draws, CHAINS)
    found = []
    for n, key in enumerate(random.split(random.key(1), number)):
        if n % FORGOTTEN == FORGOTTEN - 1:
            jax.clear_caches()
        more = {} if start is None else {"init_params": start(key)}
        with runs.quiet():
            mcmc.run(key, *data, **more)
        found.append(runs.draws_of(mcmc))
    x = jax.tree.map(lambda *each: np.stack(each), *(x for x, _ in found))
    with np.errstate(divide="ignore"):  # weights of 0
        return x, np.log(np.stack([weights for _, weights in found]))


def default_results(number: int, draws: int) -> dict[str, dict[str, Any]]:
    """The rows of runs with nothing given, whose chains jump between the modes they find."""
    y = models.amplitude_data(NOISE)
    exact, _ = models.amplitude_by_grid(y, NOISE)
    x, log_weights = with_nothing_given(
        ContourSGLD(models.amplitude), number, draws, None, y, NOISE
    )
    rows = {"model of README: a > 0": scores(x["a"] > 0, log_weights, exact)}
    line = np.linspace(-4.0, 4.0, 801)
    grid, shares = on_a_grid(nine_modes.potential, [line, line])
    x, log_weights = with_nothing_given(
        ContourSGLD(potential_fn=nine_modes.potential),
        number,
        draws,
        lambda key: random.uniform(key, (CHAINS, 2), minval=-2.0, maxval=2.0),
    )
    edge = nine_modes.MODE_GRID[2] / 2
    for name, inside in (
        ("middle mode", lambda x: (np.abs(x) < edge).all(-1)),
        ("modes on the right", lambda x: x[..., 0] > edge),
    ):
        rows[f"nine modes: {name}"] = scores(inside(x), log_weights, shares @ inside(grid))
    return rows


def main(experiment: Experiment) -> str:
    """The section of the page."""
    number, draws = experiment.choose((REPLICATES, DRAWS), (3, 100))
    rows = results(number, draws)
    default_draws = experiment.choose(DEFAULT_DRAWS, 50)
    rows |= default_results(number, default_draws)
    return (
        "## Coverage of the reported errors\n\n"
        f"There are {number} runs of {CHAINS} chains of {draws:,} draws, after {draws // 4} draws "
        "of warm-up. A draw of ContourSGLD stands for 50 steps, and one of SGLD for 5. In the "
        "model of README and the nine modes nothing is given, each run has a warm-up of its own of "
        f"{default_draws} draws and as many draws, each for 200 steps, and chains jump between the "
        "modes that they find. Coverage "
        "is the share of runs whose interval, mean +- 1.96 MCSE, contains the exact value. The rms "
        "z is the root mean square of the deviations in units of the MCSE.\n\n"
        + markdown_table(
            ["estimate", "ESS", "bias", "sd of the means", "rms MCSE", "coverage", "rms z"],
            [
                [
                    name,
                    f"{row['ess']:.0f}",
                    f"{row['bias']:.4f} +- {row['bias_error']:.4f}",
                    f"{row['sd']:.4f}",
                    f"{row['mcse']:.4f}",
                    f"{row['cover']:.1%}",
                    f"{row['rms']:.2f}",
                ]
                for name, row in rows.items()
            ],
        )
    )
