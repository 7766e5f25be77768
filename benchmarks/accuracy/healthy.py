"""Runs that are long enough: whether they are right, and whether they have a bad verdict."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.shared import runs
from benchmarks.shared.posteriors import Errors, by_nuts, errors, two_draws
from benchmarks.shared.targets import on_a_grid
from numpyro_contour import ContourSGLD, diagnose, to_inference_data
from numpyro_contour.diagnosis.report import Report
from numpyro_contour.kernels import Kernel

#: A run is right if the pooled means are wrong by less than this many posterior sds,
MEAN = 0.2
#: the ratios of sds differ from 1 by less than this,
SD = 0.1
#: and the mode masses are wrong by less than this in total variation.
MASSES = 0.05


@dataclass(frozen=True)
class Healthy:
    """A run that is long enough for its target, and the way to find its true error."""

    name: str
    kernel: Kernel
    errors: Errors
    data: tuple = ()
    #: starts of the chains, None for those of the kernel
    start: Any = None
    warmup: int = 200
    samples: int = 1000
    chains: int = 8

    @property
    def size(self) -> str:
        """Chains, draws and steps of a draw."""
        return f"{self.chains} x {self.samples:,} x {self.kernel.settings['num_steps']}"


def is_right(found: dict[str, float]) -> bool:
    """Whether the true error is small enough to trust the run."""
    return (
        found["pooled"] < MEAN
        and found["sd ratio min"] > 1 - SD
        and found["max"] < 1 + SD
        and found.get("TV pooled", 0.0) < MASSES
    )


def by_grid(potential: Callable, low: float, high: float, dim: int = 1) -> dict[str, np.ndarray]:
    """Mean and sd of a density in one or two dimensions, in double precision."""
    line = np.linspace(low, high, 4001 if dim == 1 else 801)
    of_point = (lambda x: potential(x[0])) if dim == 1 else potential
    points, shares = on_a_grid(of_point, [line] * dim)
    mean = shares @ points
    return two_draws(mean, np.sqrt(shares @ (points - mean) ** 2))


def against(truth: dict[str, np.ndarray], masses: Errors | None = None) -> Errors:
    """Errors of means and sds of a potential's draws, and of the masses of modes."""

    def found(x: Any, weights: np.ndarray) -> dict[str, float]:
        samples = x if isinstance(x, dict) else {"x": x}
        of_masses = {} if masses is None else masses(x, weights)
        return errors(samples, weights, truth) | of_masses

    return found


def against_nuts(model: Callable, data: tuple = ()) -> Errors:
    """Errors relative to a long run of NUTS over all rows."""

    def found(x: Any, weights: np.ndarray) -> dict[str, float]:
        return errors(x, weights, by_nuts(ContourSGLD(model).model, data, 500, 2500, 2))

    return found


@dataclass(frozen=True)
class Outcome:
    """A run's true error and its report."""

    errors: dict[str, float]
    report: Report
    seconds: tuple[float, float, float]


def outcome(healthy: Healthy) -> Outcome:
    """Run, report and compare."""
    begin = time.perf_counter()
    numbers = healthy.warmup, healthy.samples, healthy.chains
    mcmc = runs.run(healthy.kernel, *numbers, *healthy.data, init_params=healthy.start)
    ran = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        report = diagnose(to_inference_data(mcmc))
    reported = time.perf_counter()
    found = healthy.errors(*runs.draws_of(mcmc))
    return Outcome(found, report, (ran - begin, reported - ran, time.perf_counter() - reported))


def bad_verdicts(report: Report) -> str:
    """The bad verdicts with their figures and limits."""
    found = [f"{v.check} {v.figure:.3g} (limit {v.limit:.3g})" for v in report.faults]
    return ", ".join(found) or "none"


def healthy_row(healthy: Healthy, outcome: Outcome) -> list[str]:
    """A line of the table of healthy runs."""
    found = outcome.errors
    run, report, truth = outcome.seconds
    return [
        healthy.name if is_right(found) else f"{healthy.name} (NOT RIGHT)",
        type(healthy.kernel).__name__,
        healthy.size,
        f"{found['pooled']:.3f}",
        f"{found['sd ratio min']:.3f} to {found['max']:.3f}",
        f"{found['TV pooled']:.3f}" if "TV pooled" in found else "",
        bad_verdicts(outcome.report),
        f"{run:.0f} + {report:.0f} + {truth:.0f}",
    ]
