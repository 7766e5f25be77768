"""Methods, and the scores of their runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from benchmarks.peers.target import Target
from benchmarks.shared.tables import total_variation
from benchmarks.shared.timing import Result, timed

#: number of chains in a run, and of runs of each method
CHAINS = 16
RUNS = 3


@dataclass(frozen=True)
class Drawn:
    """The draws of a method for `RUNS` runs."""

    #: positions, (chains, draws, size); the chains of a run follow each other
    x: np.ndarray
    #: weights, (chains, draws)
    weights: np.ndarray
    #: gradients that all chains of all runs took; evaluations of the density also count
    gradients: float
    #: seconds, without compilation, of a run that only found how long the others may be
    pilot: float = 0.0


@dataclass(frozen=True)
class Method:
    """A sampler with its settings."""

    name: str
    #: `(target, gradients of each of CHAINS chains) -> Drawn`; None in results
    draw: Callable[[Target, int], Drawn] | None
    #: the package that it is from
    package: str = "numpyro_contour"
    #: whether it moves by gradients of minibatches, or could do so
    stochastic_gradient: bool = True
    #: our kernel whose warm-up gives it step size and scale
    tuned_by: str | None = None
    #: share of the gradients that it gets, below 1 if all of them would take hours
    share: float = 1.0


@dataclass(frozen=True)
class Outcome:
    """How well a method did."""

    method: Method
    #: total variation of the mode masses for each run, (RUNS,), and for single chains
    variation: np.ndarray
    chain_variation: np.ndarray
    #: root mean square error of the means of each run, in posterior sds, (RUNS,)
    mean_error: np.ndarray
    #: gradients of a run
    gradients: float
    #: seconds of a run without compilation, and seconds of compilation
    seconds: float
    compiling: float


def masses_of(target: Target, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weighted mode masses of each chain, (chains, modes)."""
    modes = target.mode(x)
    number = len(target.truth.masses)
    rows = [
        np.bincount(np.clip(m, 0, number - 1), w, minlength=number) / w.sum()
        for m, w in zip(modes, weights)
    ]
    return np.stack(rows)


def score(target: Target, method: Method, drawn: Drawn, seconds: float, spent: float) -> Outcome:
    """The errors of a method's runs; draws that are not finite have no weight."""
    finite = np.isfinite(drawn.x).all(-1) & np.isfinite(drawn.weights)
    weights = np.where(finite, drawn.weights, 0.0).astype(np.float64)
    # A chain whose draws are all not finite counts as a chain that stays at 0.
    weights = np.where(weights.sum(1, keepdims=True) > 0, weights, 1.0)
    weights /= weights.mean(1, keepdims=True)
    x = np.where(finite[..., None], drawn.x, 0.0).astype(np.float64)
    truth = target.truth
    masses = masses_of(target, x, weights)
    means = (weights[..., None] * x).mean(1)
    of_run = lambda a: a.reshape(RUNS, -1, a.shape[-1]).mean(1)
    z = (of_run(means) - truth.means) / truth.sds
    return Outcome(
        replace(method, draw=None),
        total_variation(of_run(masses), truth.masses),
        total_variation(masses, truth.masses),
        np.sqrt((z**2).mean(1)),
        drawn.gradients / RUNS,
        seconds / RUNS,
        spent,
    )


def run(method: Method, target: Target, gradients: int) -> Outcome:
    """Draw, take the time, and score."""
    assert method.draw is not None
    target.truth  # noqa: B018 - computed here to keep it out of the time
    jax.clear_caches()
    draw = method.draw
    with warnings.catch_warnings():
        # No warnings about chains that do not mix: the benchmark measures this.
        warnings.simplefilter("ignore")
        drawn, seconds, compiling = timed(lambda: draw(target, gradients))
    return score(target, method, drawn, max(seconds - compiling - drawn.pilot, 1e-3), compiling)


def without_compiling(function: Callable[[], Result]) -> tuple[Result, float]:
    """The result of a function, and its seconds without compilation."""
    result, seconds, compiling = timed(function)
    return result, seconds - compiling


def chains_first(x: Any) -> np.ndarray:
    """An array of float64 on the host."""
    return np.asarray(x, np.float64)
