"""Runs of vectorised chains, and their draws and weights."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax import random
from numpyro.infer import MCMC

from numpyro_contour import weighted_samples

#: the kernels, and the number of gradients that a step of each takes; `InteractingContourSGLD`,
#: whose chains one by one are those of `ContourSGLD`, is in `accuracy.shared_theta`
KERNELS = {
    "SGLD": 1,
    "SGHMC": 1,
    "SGNHT": 1,
    "CyclicalSGLD": 1,
    "CyclicalSGHMC": 1,
    "ReplicaExchangeSGLD": 2,
    "ReplicaExchangeSGHMC": 2,
    "ContourSGLD": 1,
    "ContourSGHMC": 1,
    "ContourSGNHT": 1,
}


def driver(kernel: Any, warmup: int, draws: int, chains: int, **more: Any) -> MCMC:
    """NumPyro's driver for vectorised chains without a progress bar."""
    return MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
        **more,
    )


def run(
    kernel: Any, warmup: int, draws: int, chains: int, *data: Any, seed: int = 0, **more: Any
) -> MCMC:
    """A finished run of vectorised chains.

    Args:
        kernel: the kernel.
        warmup: number of draws of warm-up.
        draws: number of draws that are kept.
        chains: number of chains.
        data: the model's arguments.
        seed: seed.
        more: further arguments of `MCMC.run`.
    """
    mcmc = driver(kernel, warmup, draws, chains)
    with quiet():
        mcmc.run(random.key(seed), *data, **more)
    jax.block_until_ready(mcmc.last_state)
    return mcmc


@contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings about untrustworthy runs: the benchmark measures how bad they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def draws_of(mcmc: MCMC, **more: Any) -> tuple[Any, np.ndarray]:
    """Draws by site, (chains, draws, ...) each, and weights with mean 1 in each chain."""
    with quiet():
        x, log_weights = weighted_samples(mcmc, **more)
    return jax.tree.map(np.asarray, x), np.exp(np.asarray(log_weights, np.float64))
