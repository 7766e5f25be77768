"""Vectorised chains on the nine modes, as functions of the number of steps."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import random
from numpyro.infer import MCMC

from benchmarks.nine_modes import GAIN, LOWER
from numpyro_contour import ContourSGLD, EnergyPartition
from numpyro_contour.examples import nine_modes


def kernel(bins: int, num_steps: int, **arguments: Any) -> ContourSGLD:
    """`ContourSGLD` on the nine modes with all given, 25 nats in so many bins."""
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
    """So many chains through NumPyro's driver, to be called with the steps of all of them together.

    Its costs are therefore those of a step of one chain.
    """
    steps_of_a_draw = chains * kernel.settings["num_steps"]
    start = jnp.zeros((chains, 2) if chains > 1 else 2)
    runs: dict[int, MCMC] = {}

    def run(steps: int) -> None:
        if steps not in runs:
            # With its progress bar NumPyro keeps the compiled loop between runs, for vectorised
            # chains too; without it, each run compiles anew.
            runs[steps] = MCMC(
                kernel,
                num_warmup=0,
                num_samples=steps // steps_of_a_draw,
                num_chains=chains,
                chain_method="vectorized",
                progress_bar=True,
            )
        with contextlib.redirect_stderr(io.StringIO()):
            runs[steps].run(random.key(0), init_params=start)
        jax.block_until_ready(runs[steps].last_state.z)

    return run
