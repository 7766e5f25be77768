"""The algorithms on the mixture, and the figures that are kept from their runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import MCMC

from benchmarks.accuracy.mixture import PAPER
from benchmarks.papers.mixture.exact import EMPTY_FIRST, PARTITION, ZETA, exact_theta
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.runs import driver
from benchmarks.shared.tables import crossings
from numpyro_contour import SGLD, ContourSGLD, EnergyPartition, robbins_monro
from numpyro_contour.examples import mixture

CHAINS = 10
NUM_STEPS = 100
STEP_SIZE = 0.1
GAIN = robbins_monro(1, 0.6, 100)
PAPERS_WEIGHTS = "piecewise"
#: steps of warm-up when nothing is given
WARMUP = 100_000


@dataclass(frozen=True)
class Variant:
    """An algorithm of the comparison."""

    name: str
    colour: str
    settings: dict[str, Any] = field(default_factory=dict)
    kernel: Callable = ContourSGLD
    #: steps of warm-up, which count as iterations
    warmup: int = 0
    #: line style
    line: str = "-"

    def mcmc(self, steps: int, warmup: int = 0, num_steps: int = NUM_STEPS, **more: Any) -> MCMC:
        """The driver for a run of this many steps."""
        kernel = self.kernel(
            potential_fn=mixture.potential,
            energy=mixture.noisy_energy(),
            **{"num_steps": num_steps, **self.settings, **more},
        )
        return driver(kernel, warmup // num_steps, steps // num_steps, CHAINS)


@dataclass(frozen=True)
class Results:
    """The figures that are kept from a run."""

    variant: Variant
    #: draws, (chains, draws), each for `NUM_STEPS` steps
    x: np.ndarray
    #: their log weights, by the theta at their own time
    log_weights: np.ndarray
    #: learnt theta, (chains, num_bins), and the exact one of each chain's partition
    theta: np.ndarray | None
    exact: np.ndarray | None

    def errors(self, times: np.ndarray) -> np.ndarray:
        """The error of E[x] after these iterations, (chains, times); NaN if undefined."""
        draws = (times - self.variant.warmup) // NUM_STEPS
        last = self.x.shape[1]
        means = running_mean(self.x, self.log_weights)[:, np.clip(draws, 1, last) - 1]
        return np.where((draws > 0) & (draws <= last), means - mixture.MEAN, np.nan)

    @property
    def final(self) -> np.ndarray:
        """The error of E[x] at the end, (chains,)."""
        return self.errors(np.array([self.iterations]))[:, 0]

    @property
    def iterations(self) -> int:
        """The number of iterations of the run."""
        return self.variant.warmup + NUM_STEPS * self.x.shape[1]

    @property
    def crossings(self) -> np.ndarray:
        """How often successive draws of each chain are in different modes."""
        return crossings(self.x > mixture.DIVIDE)


@dataclass(frozen=True)
class Path:
    """A stretch of the chains."""

    iterations: np.ndarray
    #: positions and gradient multipliers there, (chains, iterations)
    x: np.ndarray
    multiplier: np.ndarray

    def part(self, start: int | None, stop: int | None, every: int = 1) -> Path:
        """Some of its iterations."""
        kept = slice(start, stop, every)
        return Path(self.iterations[kept], self.x[:, kept], self.multiplier[:, kept])


def running_mean(x: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    """The weighted mean of the draws so far, (chains, draws)."""
    shifted = np.asarray(log_weights, np.float64)
    weights = np.exp(shifted - shifted.max(axis=1, keepdims=True))
    with np.errstate(invalid="ignore"):  # before the first draw with a weight there is no mean
        return np.cumsum(weights * x, axis=1) / np.cumsum(weights, axis=1)


def variants(experiment: Experiment) -> list[Variant]:
    """The algorithms of Figure 1(c), and ours."""
    numbers = {"step_size": STEP_SIZE}
    contour = numbers | {
        "partition": PARTITION,
        "gain": GAIN,
        "zeta": ZETA,
        "collect_theta": False,
    }
    known = {"theta": exact_theta(PARTITION)}
    paper = PAPER | contour
    found = [
        Variant("SGLD", "0.5", numbers | {"noise": "independent"}, SGLD),
        Variant("KSGLD, the paper's", "tab:orange", paper | known, line="--"),
        Variant("CSGLD, the paper's", "tab:orange", paper),
        Variant("KSGLD, ours", "tab:blue", contour | known, line="--"),
        Variant("ContourSGLD, the same numbers", "tab:blue", contour),
    ]
    if experiment.quick:
        return found
    return [
        *found,
        Variant("CSGLD, the paper's, u_1 = 1", "tab:red", paper | {"partition": EMPTY_FIRST}),
        Variant(
            "ContourSGLD, nothing given",
            "tab:green",
            {"collect_theta": False},
            warmup=WARMUP,
        ),
    ]


def chains_from_zero() -> jax.Array:
    """Where chains start: between the modes."""
    return jnp.zeros(CHAINS)


def measure(variant: Variant, steps: int) -> Results:
    """Run an algorithm for this many steps, including warm-up."""
    mcmc = variant.mcmc(steps - variant.warmup, variant.warmup)
    mcmc.run(random.key(0), init_params=chains_from_zero())
    x = mcmc.get_samples(group_by_chain=True)
    # The energies are exact, so these are the weights of `weighted_samples`.
    log_weights = mcmc.get_extra_fields(group_by_chain=True)["log_weight"]
    theta = exact = None
    if hasattr(mcmc.last_state, "log_theta"):
        theta = np.exp(np.asarray(mcmc.last_state.log_theta, np.float64))
        exact = _exact_of_chains(mcmc.last_state.partition)
    return Results(variant, np.asarray(x), np.asarray(log_weights), theta, exact)


def _exact_of_chains(partition: EnergyPartition) -> np.ndarray:
    """The exact theta of each chain's partition, (chains, num_bins)."""
    edges = np.stack([partition.lower, partition.upper], axis=1)
    distinct, which = np.unique(edges, axis=0, return_inverse=True)
    made = [EnergyPartition(*map(float, pair), partition.num_bins) for pair in distinct]
    return np.stack([exact_theta(one) for one in made])[which.ravel()]


def positions(results: Results, steps: int) -> Path:
    """The first draws of a run without a multiplier, each chosen from any of its steps."""
    x = results.x[:, : steps // NUM_STEPS]
    return Path(NUM_STEPS * np.arange(1, x.shape[1] + 1), x, np.ones_like(x))


def path(variant: Variant, steps: int, thinning: int) -> Path:
    """The positions of all chains at regular intervals."""
    mcmc = variant.mcmc(steps, num_steps=thinning, draw="last")
    mcmc.run(random.key(1), init_params=chains_from_zero())
    x = np.asarray(mcmc.get_samples(group_by_chain=True))
    multiplier = mcmc.get_extra_fields(group_by_chain=True)["gradient_multiplier"]
    return Path(thinning * np.arange(1, x.shape[1] + 1), x, np.asarray(multiplier))
