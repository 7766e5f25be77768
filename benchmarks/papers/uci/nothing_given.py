"""The kernels with all their defaults on the UCI data."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers.uci.network import steps_an_epoch
from benchmarks.papers.uci.scores import Scores, score
from benchmarks.shared.runs import quiet, run
from numpyro_contour import SGHMC, SGLD, ContourSGHMC, ContourSGLD, weighted_samples
from numpyro_contour.examples import concrete
from numpyro_contour.examples.datasets import Split

KERNELS = (SGLD, SGHMC, ContourSGLD, ContourSGHMC)


class KernelLength(NamedTuple):
    """The lengths of the runs."""

    epochs: int
    chains: int
    #: draws of a chain, after the same number of warm-up draws
    draws: int
    kernels: tuple[type, ...] = KERNELS


def run_kernel(kernel_class: type, split: Split, length: KernelLength) -> Scores:
    """A kernel with nothing given on a split."""
    steps = length.epochs * steps_an_epoch(len(split.y_train)) // (2 * length.draws)
    kernel = kernel_class(concrete.model, num_steps=max(steps, 1))
    data = jnp.asarray(split.X_train), jnp.asarray(split.y_train)
    with quiet():
        # No warnings: a network's weights still depend on their start, but predictions matter.
        mcmc = run(kernel, length.draws, length.draws, length.chains, *data)
        samples, log_weights = weighted_samples(mcmc)
    predict = jax.jit(jax.vmap(jax.vmap(concrete.network, (0, None)), (0, None)))
    predicted = np.asarray(predict(samples, jnp.asarray(split.X_test)), np.float64)
    return score(
        predicted * split.y_sd,
        np.asarray(log_weights, np.float64),
        np.asarray(samples["noise_sd"], np.float64) * split.y_sd,
        split.y_test * split.y_sd,
    )
