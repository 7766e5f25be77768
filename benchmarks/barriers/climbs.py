"""Runs with a stated barrier, and their figures for the modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.infer import MCMC

from benchmarks.shared import runs
from benchmarks.shared.tables import crossings, kish_of, standard_error
from numpyro_contour import ContourSGLD, diagnose, to_inference_data

CHAINS = 4


class Climb(NamedTuple):
    """A run and the mode of each of its draws."""

    mcmc: MCMC
    #: draws by chain, as `weighted_samples` returns them
    draws: Any
    #: weights, each chain's with mean 1, (chains, draws)
    weights: np.ndarray
    #: whether each draw is in the first mode, (chains, draws)
    first: np.ndarray

    @property
    def masses(self) -> np.ndarray:
        """The mass of the first mode in each chain."""
        return (self.weights * self.first).mean(1)

    @property
    def mass(self) -> float:
        """The pooled mass of the first mode."""
        return float(self.masses.mean())

    @property
    def error(self) -> float:
        """The standard error of the pooled mass, from the differences between chains."""
        return float(standard_error(self.masses))

    @property
    def crossings(self) -> np.ndarray:
        """Crossings of each chain."""
        return crossings(self.first)

    @property
    def kish(self) -> np.ndarray:
        """Effective share of the draws of each chain."""
        return np.array([kish_of(w[None]) for w in self.weights])

    def moments(self, values: np.ndarray) -> tuple[float, float]:
        """Weighted mean and standard deviation of a scalar, (chains, draws)."""
        mean = (self.weights * values).mean()
        return float(mean), float(np.sqrt((self.weights * (values - mean) ** 2).mean()))

    def trips(self) -> dict[str, float]:
        """The figures of `diagnose`: fewest round trips, and the least share that was climbed."""
        with runs.quiet():
            verdicts = diagnose(to_inference_data(self.mcmc)).verdicts
        return {v.check: v.figure for v in verdicts if v.check in ("round trips", "climb")}


def climb(
    is_first: Callable[[Any], np.ndarray],
    *args: Any,
    model: Callable | None = None,
    potential_fn: Callable | None = None,
    start: jax.Array | None = None,
    draws: int = 1000,
    num_steps: int = 1000,
    seed: int = 0,
    chains: int = CHAINS,
    **arguments: Any,
) -> Climb:
    """A run of `draws` windows of warm-up, and of as many windows that are kept.

    Args:
        is_first: a function that tells for each draw whether it is in the first mode.
        args: the model's arguments.
        model: a model.
        potential_fn: a potential energy of a vector, instead of a model.
        start: where all chains start, None for NumPyro's starts.
        draws: number of draws of each chain.
        num_steps: gradients for each draw.
        seed: seed.
        chains: number of chains.
        arguments: `barrier` and other arguments of `ContourSGLD`.
    """
    # What climbs reach by themselves.
    arguments = {"jumps": False} | arguments
    kernel = ContourSGLD(model, potential_fn, num_steps=num_steps, **arguments)
    init = None if start is None else jnp.tile(start, (chains, 1))
    mcmc = runs.run(kernel, draws, draws, chains, *args, seed=seed, init_params=init)
    samples, weights = runs.draws_of(mcmc)
    samples = jax.tree.map(lambda x: x.astype(np.float64), samples)
    return Climb(mcmc, samples, weights, np.asarray(is_first(samples)))


def row(name: str, found: Climb) -> list[str]:
    """The columns that tables of runs share: crossings, round trips, climb, masses, Kish share."""
    trips = found.trips()
    return [
        name,
        ", ".join(map(str, found.crossings)),
        f"{trips['round trips']:.0f}",
        f"{trips['climb']:.0%}" if "climb" in trips else "",
        ", ".join(f"{mass:.2f}" for mass in found.masses),
        f"{found.mass:.3f} ± {found.error:.3f}",
        f"{found.kish.min():.2f}",
    ]


COLUMNS = [
    "run",
    "crossings, by chain",
    "fewest round trips",
    "climbed",
    "mass of the first mode, by chain",
    "pooled",
    "lowest Kish share",
]
