"""Two runs on a posterior that is known: two modes, and coordinates that the data do not inform."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import xarray as xr
from numpyro.infer import Predictive
from scipy import stats

from benchmarks.shared import runs
from numpyro_contour import ContourSGLD, expectation, predictive, to_inference_data
from numpyro_contour.statistics.arviz_versions import from_datasets, to_datasets

ROWS = 30
X = np.linspace(0.5, 1.5, ROWS)
Y = 1.2**2 * X + 2.0 * np.random.default_rng(0).normal(size=ROWS)
GRID = np.linspace(-3.5, 3.5, 4001)
#: the parameters, without the mean of each row
NAMES = ["a", "b"]


def model(y: np.ndarray | None = None) -> None:
    """The data depend on the square of a, and not on b at all."""
    a = numpyro.sample("a", dist.Normal(0.3, 1))
    numpyro.sample("b", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", ROWS):
        mean = numpyro.deterministic("mean", a**2 * jnp.asarray(X))
        numpyro.sample("y", dist.Normal(mean, 2.0), obs=y)


class Truth(NamedTuple):
    """What is known of the posterior, by summation over a grid of a."""

    #: the probability of each place of the grid
    mass: np.ndarray
    #: log likelihoods of the rows there, (places, rows)
    log_likelihood: np.ndarray

    @classmethod
    def of_grid(cls) -> Truth:
        """By the model's densities."""
        log_likelihood = stats.norm.logpdf(Y, GRID[:, None] ** 2 * X, 2.0)
        log_density = stats.norm.logpdf(GRID, 0.3, 1) + log_likelihood.sum(1)
        mass = np.exp(log_density - log_density.max())
        return cls(mass / mass.sum(), log_likelihood)

    def mean(self, values: np.ndarray = GRID) -> float:
        """The posterior mean of a function of a, given at the places of the grid."""
        return float(self.mass @ values)

    @property
    def sd(self) -> float:
        """The posterior standard deviation of a."""
        return float(np.sqrt(self.mean((GRID - self.mean()) ** 2)))

    def inside(self, low: float, high: float) -> float:
        """The probability of an interval."""
        return self.mean(((low <= GRID) & (high >= GRID)).astype(float))

    def left_out(self) -> tuple[float, np.ndarray]:
        """The expected log density of each row given the others, summed; and where each row lies in
        its distribution given the others, from 0 to 1.
        """
        without = self.mass[:, None] * np.exp(-self.log_likelihood)
        below = stats.norm.cdf(Y, GRID[:, None] ** 2 * X, 2.0)
        ranks = (without * below).sum(0) / without.sum(0)
        return float(-np.log(without.sum(0)).sum()), ranks

    def r2(self) -> float:
        """The posterior mean of the share of the variance that the model explains."""
        fitted = GRID[:, None] ** 2 * X
        explained, left = fitted.var(1), (Y - fitted).var(1)
        return self.mean(explained / (explained + left))


class Case(NamedTuple):
    """Two runs, and what is known of their posterior."""

    idata: Any
    other: Any
    truth: Truth
    #: the standard error of the weighted mean of a
    error: float

    @classmethod
    def of_run(cls, draws: int) -> Case:
        """Two runs with so many draws in each of eight chains."""
        idata, other = (_run(seed, draws) for seed in (0, 1))
        return cls(idata, other, Truth.of_grid(), float(expectation(idata, "a").mcse))


def _run(seed: int, draws: int) -> Any:
    kernel = ContourSGLD(model, num_steps=100)
    mcmc = runs.run(kernel, 250, draws, 8, Y, seed=seed)
    with runs.quiet():
        idata = to_inference_data(
            mcmc,
            log_likelihood=True,
            posterior_predictive=predictive(mcmc, jax.random.key(seed)),
            prior=Predictive(model, num_samples=500)(jax.random.key(seed)),
            constant_data={"x": X},
            dims={"x": ["rows"], "y": ["rows"], "mean": ["rows"]},
        )
    groups = to_datasets(idata)
    posterior = groups["posterior"]
    # As a user adds it for the functions of prior sensitivity.
    of_a, of_b = (
        xr.apply_ufunc(stats.norm.logpdf, posterior[name], mean)
        for name, mean in (("a", 0.3), ("b", 0.0))
    )
    return from_datasets(groups | {"log_prior": xr.Dataset({"a": of_a, "b": of_b})})
