"""Vectorised chains on the nine modes, as functions of the number of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from benchmarks.accuracy.nine_modes import GAIN, LOWER
from benchmarks.shared.timing import by_steps
from numpyro_contour import ContourSGLD, EnergyPartition
from numpyro_contour.examples import nine_modes


def kernel(bins: int, num_steps: int, **arguments: Any) -> ContourSGLD:
    """`ContourSGLD` on the nine modes with all settings given, and 25 nats in these bins."""
    return ContourSGLD(
        potential_fn=nine_modes.potential,
        step_size=0.001,
        partition=EnergyPartition(LOWER, LOWER + 25.0, bins),
        gain=GAIN,
        num_steps=num_steps,
        collect_theta=False,
        **arguments,
    )


def chains_of(kernel: ContourSGLD, chains: int) -> Callable[[int], None]:
    """Chains through NumPyro's driver, to be called with the steps of all chains together.

    The measured cost is therefore that of a step of one chain.
    """
    start = jnp.zeros((chains, 2) if chains > 1 else 2)
    return by_steps(
        kernel,
        chains * kernel.settings["num_steps"],
        run={"init_params": start},
        num_chains=chains,
        chain_method="vectorized",
    )
