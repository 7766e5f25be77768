"""Chains that share theta beside chains with thetas of their own, at equal gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import MCMC

from benchmarks.peers.targets import nine_mode
from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.models import amplitude, amplitude_data, amplitude_energy
from benchmarks.shared.tables import markdown_table, mean_and_error, total_variation
from benchmarks.shared.targets import on_a_grid, spread_starts, two_normals
from numpyro_contour import ContourSGLD, InteractingContourSGLD, expectation, to_inference_data
from numpyro_contour.diagnostics import weighted_rhat
from numpyro_contour.examples import mixture, nine_modes

KERNELS = (ContourSGLD, InteractingContourSGLD)
NOISE = 3.5
SIZE = 10
#: chains and seeds of a comparison, and of the runs whose errors are judged
CHAINS, SEEDS = 16, 5
JUDGED_CHAINS, JUDGED = 8, 100
# Runs after which what is compiled is forgotten: each adds programs, of which a process has room
# for some 60 runs.
_COMPILED = 40


class Length(NamedTuple):
    """Draws of warm-up and as many that are kept, targets, seeds, and runs that are judged."""

    draws: int = 250
    targets: int = 3
    seeds: int = SEEDS
    judged: int = JUDGED
    #: values of `jumps`, and the kernels
    jumps: tuple[bool, ...] = (False, True)
    kernels: tuple[type, ...] = KERNELS


class Law(NamedTuple):
    """A target, and the exact law of its energies and modes."""

    name: str
    #: what a kernel is given
    given: dict[str, Any]
    #: arguments of the model
    data: tuple
    #: starting points of so many chains, None for the kernel's own
    starts: Callable[[int], Any] | None
    #: the mode of each draw, from 0
    mode: Callable[[Any], np.ndarray]
    #: exact draws or points of a grid: their energies, modes and probabilities
    energy: np.ndarray
    modes: np.ndarray
    shares: np.ndarray

    @property
    def masses(self) -> np.ndarray:
        """The mass of each mode."""
        return np.bincount(self.modes, self.shares)


def readme() -> Law:
    """The model of README, by a grid."""
    y, grid = amplitude_data(NOISE), np.linspace(-4, 4, 80_001)
    energy = amplitude_energy(grid, y, NOISE)
    shares = np.exp(energy.min() - energy)
    side = lambda x: (x["a"] > 0).astype(int)
    given = {"model": partial(amplitude, noise=NOISE)}
    modes = side({"a": grid})
    return Law("README", given, (y,), None, side, energy, modes, shares / shares.sum())


def nine() -> Law:
    """The nine modes of the paper, by a grid."""
    points, shares = on_a_grid(nine_modes.potential, [np.linspace(-4.0, 4.0, 1601)] * 2)
    energy = np.asarray(jax.vmap(nine_modes.potential)(points))
    given = {"potential_fn": nine_modes.potential}
    starts = spread_starts(-2.0, 2.0, 2)
    return Law("nine modes", given, (), starts, nine_mode, energy, nine_mode(points), shares)


def ten_dimensions() -> Law:
    """Two normals 11 nats apart, by exact draws."""
    potential, rng = two_normals(SIZE), np.random.default_rng(0)
    right = rng.random(1_000_000) < 0.6
    shift = np.where(right, 1, -1)[:, None] * 4.7 / np.sqrt(SIZE)
    energy = jax.vmap(potential)(jnp.asarray(shift + rng.standard_normal((right.size, SIZE))))
    side = lambda x: (x.sum(-1) > 0).astype(int)
    starts, shares = spread_starts(-1.5, 1.5, SIZE), np.full(right.size, 1 / right.size)
    given = {"potential_fn": potential}
    name = "two modes, 10-d"
    return Law(name, given, (), starts, side, np.asarray(energy), right.astype(int), shares)


def repeated(kernel: Any, law: Law, chains: int, draws: int, seeds: int) -> Iterator[MCMC]:
    """Finished runs."""
    mcmc = runs.driver(kernel, draws, draws, chains)
    start = {} if law.starts is None else {"init_params": law.starts(chains)}
    for seed in range(seeds):
        if seed % _COMPILED == 0:
            jax.clear_caches()
        with runs.quiet():
            mcmc.run(random.key(seed), *law.data, **start)
        yield mcmc


def theta_error(mcmc: MCMC, law: Law) -> float:
    """The total variation between theta and the masses of its bins, in the mean of the chains."""
    state = mcmc.last_state
    lower, upper = np.asarray(state.partition.lower), np.asarray(state.partition.upper)
    theta = np.exp(np.asarray(state.log_theta, float))
    bins = theta.shape[1]
    exact = []
    for low, high in zip(lower, upper):
        index = np.clip((law.energy - low) / (high - low) * bins, 0, bins - 1).astype(int)
        exact.append(np.bincount(index, law.shares, bins))
    return float(total_variation(theta, np.array(exact)).mean())


def accuracy(length: Length) -> Iterator[list[str]]:
    """Rows: errors of theta, of the masses of all chains, and of those of single chains."""
    for make in (readme, nine, ten_dimensions)[: length.targets]:
        law = make()
        for jumps in length.jumps:
            for kernel_class in length.kernels:
                kernel = kernel_class(**law.given, jumps=jumps)
                of_theta, of_all, of_chains = [], [], []
                for mcmc in repeated(kernel, law, CHAINS, length.draws, length.seeds):
                    x, weights = runs.draws_of(mcmc)
                    in_mode = law.mode(x)[..., None] == np.arange(len(law.masses))
                    masses = (weights[..., None] * in_mode).mean(1)
                    of_theta.append(theta_error(mcmc, law))
                    of_all.append(total_variation(masses.mean(0), law.masses))
                    of_chains.append(total_variation(masses, law.masses).mean())
                errors = (mean_and_error(np.array(e)) for e in (of_theta, of_all, of_chains))
                yield [law.name, "yes" if jumps else "no", kernel_class.__name__, *errors]


def coverage(length: Length) -> Iterator[list[str]]:
    """Rows: how often the interval of `expectation` holds the exact mass."""
    law = Law(
        "mixture",
        {"potential_fn": mixture.potential},
        (),
        lambda chains: np.linspace(-6.0, 4.0, chains),
        lambda x: (x > mixture.DIVIDE).astype(int),
        *[np.zeros(0)] * 3,
    )
    for kernel_class in length.kernels:
        kernel = kernel_class(**law.given, num_steps=50, jumps=False)
        found = []
        for mcmc in repeated(kernel, law, JUDGED_CHAINS, length.draws, length.judged):
            with runs.quiet():
                idata = to_inference_data(mcmc)
                right = expectation(idata, lambda posterior: posterior["z"] > mixture.DIVIDE)
            x, weights = runs.draws_of(mcmc)
            r_hat = weighted_rhat(x > mixture.DIVIDE, np.log(weights))
            found.append((float(right.mean), float(right.mcse), float(r_hat)))
        mean, mcse, r_hat = np.array(found).T
        z = (mean - mixture.MASS) / mcse
        yield [
            kernel_class.__name__,
            mean_and_error(mean),
            f"{mean.std(ddof=1):.4f}",
            f"{np.sqrt(np.mean(mcse**2)):.4f}",
            f"{np.mean(np.abs(z) < 1.96):.0%}",
            f"{np.sqrt(np.mean(z**2)):.2f}",
            f"{np.median(r_hat):.3f}",
        ]


def main(experiment: Experiment) -> str:
    """The section of the page."""
    length = experiment.choose(Length(), Length(20, 1, 2, 2, (False,), KERNELS[1:]))
    return (
        "## Chains that share theta\n\n"
        f"`InteractingContourSGLD` beside `ContourSGLD`, {CHAINS} vectorised chains of "
        f"{length.draws * 200:,} steps of warm-up and as many that are kept, nothing given but "
        f"`jumps`, {length.seeds} seeds. Total variation between theta after the run and the exact "
        "masses of its bins, in the mean of the chains; between the masses of modes by all chains "
        "and the exact ones; and the same by single chains, in their mean.\n\n"
        + markdown_table(
            ["target", "jumps", "kernel", "theta", "masses, all chains", "masses, one chain"],
            list(accuracy(length)),
        )
        + "\nChains that share theta are not independent, as Monte Carlo errors take them to be. "
        f"{length.judged} runs of {JUDGED_CHAINS} chains on the mixture in one dimension, with "
        f"{length.draws} draws of 50 steps after as many of warm-up and `jumps=False`, say what "
        "that does to the errors of `expectation`. Coverage is the share of runs whose interval, "
        f"mean +- 1.96 MCSE, holds the exact mass of {mixture.MASS}:\n\n"
        + markdown_table(
            [
                "kernel",
                "mean of the runs",
                "sd of the means",
                "rms MCSE",
                "coverage",
                "rms z",
                "R-hat",
            ],
            list(coverage(length)),
        )
    )
