"""Runs on a posterior with reference draws, held against them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax import random
from numpyro.infer import MCMC, NUTS

import numpyro_contour
from benchmarks.posteriordb.models import Posterior
from benchmarks.shared import runs
from numpyro_contour import diagnose, to_inference_data
from numpyro_contour.diagnostics import weighted_rhat

NUM_STEPS, CHAINS = 100, 4
#: kernels with nothing given but `num_steps`
KERNELS = ("ContourSGLD", "SGLD", "SGHMC", "ContourSGHMC")
REFERENCE = "NUTS"
#: what is right: errors of means in posterior standard deviations, ratios of these
MOST_OFF, RATIOS = 0.1, (0.9, 1.1)
#: a mean that is off by so many standard deviations has to be called bad
WRONG = 0.2


@dataclass(frozen=True)
class Length:
    """How long a run is, in draws of each chain."""

    warmup: int
    draws: int

    @property
    def gradients(self) -> int:
        """Gradients of all chains together."""
        return CHAINS * NUM_STEPS * (self.warmup + self.draws)


@dataclass(frozen=True)
class Score:
    """How well a run did."""

    #: largest error of a mean in posterior standard deviations
    error: float
    #: the least and the largest ratio of standard deviations
    ratios: tuple[float, float]
    rhat: float
    #: the first check that `diagnose` calls bad; "" for none, and for NUTS
    fault: str
    #: gradients of all chains together
    gradients: int
    seconds: float

    @property
    def right(self) -> bool:
        """Whether all means and standard deviations are."""
        low, high = self.ratios
        return self.error <= MOST_OFF and RATIOS[0] <= low and high <= RATIOS[1]

    @property
    def wrong(self) -> bool:
        """Whether a mean is so far off that it has to be called bad."""
        return not self.error <= WRONG


def score(posterior: Posterior, name: str, seed: int, length: Length) -> Score:
    """A run of a kernel of this package, or of NUTS for as many gradients."""
    began = time.perf_counter()
    if name == REFERENCE:
        samples, gradients = _nuts(posterior, seed, length)
        weights = np.ones(next(iter(samples.values())).shape[:2])
        fault, seconds = "", time.perf_counter() - began
    else:
        kernel = getattr(numpyro_contour, name)(posterior.model, num_steps=NUM_STEPS)
        mcmc = runs.run(kernel, length.warmup, length.draws, CHAINS, seed=seed, **posterior.data)
        samples, weights = runs.draws_of(mcmc)
        seconds, gradients = time.perf_counter() - began, length.gradients
        fault = _first_fault(mcmc)
    values, weights = posterior.values(samples), weights[..., None]
    means = (weights * values).mean((0, 1)) / weights.mean()
    sds = np.sqrt((weights * (values - means) ** 2).mean((0, 1)) / weights.mean())
    exact, scale = np.transpose(list(posterior.reference.values()))
    ratios = sds / scale
    return Score(
        float(np.abs((means - exact) / scale).max()),
        (float(ratios.min()), float(ratios.max())),
        float(np.max(weighted_rhat(values, np.log(weights[..., 0])))),
        fault,
        gradients,
        seconds,
    )


def _first_fault(mcmc: MCMC) -> str:
    with runs.quiet():
        report = diagnose(to_inference_data(mcmc))
    if report.faults:
        return report.faults[0].check
    return "" if report.trusted else "not told"


def _nuts(posterior: Posterior, seed: int, length: Length) -> tuple[dict[str, Any], int]:
    """Draws of NUTS, which says only afterwards how many gradients it took, and their number."""

    def spent(mcmc: MCMC) -> int:
        return int(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum())

    def made(draws: int) -> tuple[MCMC, int]:
        mcmc = runs.driver(NUTS(posterior.model), length.warmup, draws, CHAINS)
        fields = {"extra_fields": ("num_steps",)}
        mcmc.warmup(random.key(seed), collect_warmup=True, **fields, **posterior.data)
        warmup = spent(mcmc)
        mcmc.run(random.key(seed), **fields, **posterior.data)
        return mcmc, warmup

    mcmc, warmup = made(length.draws)
    left = length.gradients - warmup - spent(mcmc)
    if left > 0:  # as many more as there are gradients left
        more = int(length.draws * left / max(spent(mcmc), 1))
        mcmc, warmup = made(length.draws + more)
    return mcmc.get_samples(group_by_chain=True), warmup + spent(mcmc)
