"""Runs that are each broken in one way, and a healthy one, to test `diagnose`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import MCMC

from numpyro_contour import ContourSGLD
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.schedules import robbins_monro

CHAINS = 4


def two_modes(x: jax.Array, apart: float = 3.0) -> jax.Array:
    """Two unit normals in two dimensions, 0.4 and 0.6, at -apart and +apart in the first.

    This is the potential energy in nats. The barrier is 4 nats high, or 31 nats with `apart` = 8.
    """
    place = jnp.array([apart, 0.0])
    left = math.log(0.4) - 0.5 * jnp.sum((x + place) ** 2)
    right = math.log(0.6) - 0.5 * jnp.sum((x - place) ** 2)
    return -jnp.logaddexp(left, right)


def side_well(x: jax.Array) -> jax.Array:
    """A unit normal, and a narrow well at 12, 9 nats above its bottom, behind 100 nats."""
    well = -9.0 - 2.0 * jnp.sum((x - jnp.array([12.0, 0.0])) ** 2)
    return -jnp.logaddexp(-0.5 * jnp.sum(x**2), well)


def narrow_modes(x: jax.Array) -> jax.Array:
    """Two normals in one dimension, 0.4 at -5 and 0.6 at 5, with 12 nats between them."""
    left, right = math.log(0.4) - 0.5 * (x[0] + 5) ** 2, math.log(0.6) - 0.5 * (x[0] - 5) ** 2
    return -jnp.logaddexp(left, right)


def with_noise(potential: Callable, sd: float) -> Callable:
    """The argument `energy` of a kernel: noise of this standard deviation on the energy alone."""

    def energy(key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        value, gradient = jax.value_and_grad(potential)(x)
        return value + sd * random.normal(key, (), value.dtype), gradient

    return energy


class Run(NamedTuple):
    """A fault, and the check that a report should name first."""

    #: the fault in words
    what: str
    #: the first fault of the report, None if there is none
    check: str | None
    #: arguments of `ContourSGLD` that differ from those of the healthy run
    kernel: dict[str, Any] = {}  # noqa: RUF012 - never changed
    #: where the chains start, (chains, d); None for both modes
    start: Any = None
    #: draws of warm-up
    warmup: int = 200
    #: draws of each chain after it
    draws: int = 1000


BINS = 80
#: the runs by name
RUNS = {
    "healthy": Run("Bins of a quarter of a nat up to 20 nats; all chains cross.", None),
    "too narrow below": Run(
        "The partition begins 8 nats above the bottom of the modes.",
        "partition below",
        {"partition": EnergyPartition(8.0, 28.0, BINS)},
    ),
    "too narrow above": Run(
        "The partition ends at 3 nats, below the top of the barrier.",
        "partition above",
        {"partition": EnergyPartition(0.0, 3.0, 12)},
    ),
    "bins too wide": Run(
        "Three bins of 13 nats each.",
        "bin width",
        {"partition": EnergyPartition(0.0, 40.0, 3)},
    ),
    "too few steps": Run(
        "One step a draw and 100 draws.", "length", {"num_steps": 1}, warmup=20, draws=100
    ),
    "trapped chain": Run(
        "One of four chains starts in a well that it does not leave.",
        "round trips",
        {"potential_fn": side_well, "step_size": 0.05},
        start=[[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [12.0, 0.0]],
    ),
    "step size too large": Run(
        "Steps of 1.5, where modes have a variance of 1.", "step size", {"step_size": 1.5}
    ),
    "noisy energies": Run(
        "The energy is seen with noise of ten bins.",
        "energy noise",
        {"energy": with_noise(two_modes, 2.5)},
    ),
    "wrong theta": Run(
        "A uniform theta is given, and kept.",
        "theta against draws",
        {"theta": np.full(BINS, 1 / BINS)},
    ),
    "one chain elsewhere": Run(
        "Two modes with 31 nats between them, and one chain starts in the other.",
        "chains",
        {"potential_fn": lambda x: two_modes(x, 8.0)},
        start=[[-8.0, 0.0], [8.0, 0.0], [8.0, 1.0], [8.0, -1.0]],
    ),
    "uneven weights": Run(
        "A zeta above 1 and a large gain: chains stay where weights are small.",
        "weights",
        {
            "potential_fn": narrow_modes,
            "zeta": 1.05,
            "gain": robbins_monro(1000, 1.0, 100),
            "multiplier_bound": -2.0,
            "step_size": 0.1,
            "num_steps": 100,
            "draw": "last",
            "partition": EnergyPartition(0.0, 40.0, 200),
        },
        start=[[-5.0], [-4.0], [4.0], [5.0]],
        warmup=1000,
        draws=12_000,
    ),
    "multiplier at its bound": Run(
        "The gradient multiplier may not fall below 0.9.",
        "multiplier bound",
        {"multiplier_bound": 0.9},
    ),
}


def run(name: str, seed: int = 0) -> MCMC:
    """A finished run of `RUNS`, by name.

    Args:
        name: a key of `RUNS`.
        seed: seed of the run. Defaults to 0.

    Returns:
        The `numpyro.infer.MCMC` of four chains, after its run.

    Raises:
        KeyError: there is no run with this name.

    Example:
        >>> from numpyro_contour import diagnose
        >>> from numpyro_contour.examples.faults import run
        >>> diagnose(run("noisy energies")).faults[0].check
        'energy noise'
    """
    chosen = RUNS[name]
    arguments: dict[str, Any] = {
        "potential_fn": two_modes,
        "step_size": 0.2,
        "num_steps": 50,
        "partition": EnergyPartition(0.0, 20.0, BINS),
    }
    mcmc = MCMC(
        ContourSGLD(**(arguments | chosen.kernel)),
        num_warmup=chosen.warmup,
        num_samples=chosen.draws,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    modes = [[-4.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [4.0, 0.0]]
    mcmc.run(random.key(seed), init_params=jnp.array(chosen.start or modes))
    return mcmc
