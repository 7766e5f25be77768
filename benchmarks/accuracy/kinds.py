"""Whether models of many kinds are right, or called bad, from where chains start by default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import random
from numpyro.infer import MCMC

from benchmarks.accuracy.kinds_models import KINDS, Kind
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.posteriors import by_nuts, errors, two_draws
from benchmarks.shared.runs import draws_of, driver, quiet
from benchmarks.shared.tables import markdown_table
from numpyro_contour import ContourSGLD, diagnose, to_inference_data

WARMUP, DRAWS, CHAINS, SEEDS = 500, 1000, 4, 20
#: A run is right if no mean is off by more than so many posterior standard deviations.
MEAN = 0.2
#: A chain is frozen if in no coordinate its draws spread by this share of the posterior's sd.
FROZEN = 0.02
#: What the table counts, in its order.
OUTCOMES = ("right, faultless", "right, bad", "wrong, bad", "wrong, faultless")
HEADER = ["model", *OUTCOMES, "frozen chains", "mean error", "worst", "first faults"]


@dataclass(frozen=True)
class Run:
    """How a run did."""

    #: largest error of a mean in posterior standard deviations
    error: float
    frozen: int
    #: the first check that is bad, None where no fault was found
    fault: str | None

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`."""
        answer = "right" if self.error <= MEAN else "wrong"
        return f"{answer}, {'bad' if self.fault else 'faultless'}"


def truth_of(kind: Kind) -> dict[str, np.ndarray]:
    """Draws of the same posterior, or two draws with its mean and standard deviation."""
    if kind.exact is not None:
        draws = [two_draws(*found, name) for name, found in kind.exact.items()]
        return {name: x for one in draws for name, x in one.items()}
    found = by_nuts(kind.of_all_rows or kind.model, kind.data, 1000, 2500)
    return {name: found[name] for name in kind.sites or found}


def frozen(samples: dict[str, Any], truth: dict[str, np.ndarray]) -> int:
    """Chains that have not moved in any coordinate."""
    spreads = [
        np.asarray(samples[name], np.float64).reshape(CHAINS, -1, x.shape[1]).std(1) / x.std(0)
        for name, x in truth.items()
    ]
    return int(np.sum(np.concatenate(spreads, 1).max(1) < FROZEN))


def one(mcmc: MCMC, kind: Kind, truth: dict[str, np.ndarray], seed: int) -> Run:
    """A run with this seed."""
    with quiet():
        mcmc.run(random.key(seed), *kind.data)
        report = diagnose(to_inference_data(mcmc))
        try:
            samples, weights = draws_of(mcmc)
        except ValueError:
            # No chain has a draw with weight.
            return Run(np.inf, CHAINS, report.faults[0].check)
    error = errors(samples, weights, truth)["pooled"]
    fault = report.faults[0].check if report.faults else None
    return Run(error if np.isfinite(error) else np.inf, frozen(samples, truth), fault)


def row(name: str, runs: list[Run]) -> list[str]:
    """A line of the table."""
    counts = [str(sum(run.outcome == outcome for run in runs)) for outcome in OUTCOMES]
    found = [run.fault for run in runs if run.fault]
    faults = sorted(set(found), key=found.count, reverse=True)
    errors_found = [run.error for run in runs]
    return [
        *(name, *counts, str(sum(run.frozen for run in runs))),
        *(f"{np.median(errors_found):.3f}", f"{max(errors_found):.3g}"),
        ", ".join(f"{fault} {found.count(fault)}" for fault in faults) or "none",
    ]


def runs_of(name: str, seeds: int, warmup: int, draws: int) -> list[Run]:
    """Runs on a model with so many seeds."""
    kind = KINDS[name]()
    truth = truth_of(kind)
    mcmc = driver(ContourSGLD(kind.model, num_steps=kind.num_steps), warmup, draws, CHAINS)
    runs = []
    for seed in range(seeds):
        runs.append(one(mcmc, kind, truth, seed))
        # NumPyro compiles its loop anew in every run, and a process may map only so many programs.
        jax.clear_caches()
    print(*row(name, runs), sep=" | ", flush=True)
    return runs


def main(experiment: Experiment) -> str:
    """The section of the page."""
    names = experiment.choose(tuple(KINDS), ("Student's t",))
    sizes = experiment.choose((SEEDS, WARMUP, DRAWS), (1, 50, 50))
    return section({name: runs_of(name, *sizes) for name in names})


def section(found: dict[str, list[Run]]) -> str:
    """What was found, by model."""
    all_runs = [run for runs in found.values() for run in runs]
    count = lambda outcome: sum(run.outcome == outcome for run in all_runs)
    still = sum(run.frozen > 0 for run in all_runs)
    steps = [str(n) for n in sorted({KINDS[name]().num_steps for name in found})]
    seeds = [str(n) for n in sorted({len(runs) for runs in found.values()})]
    return f"""## Models of many kinds

{len(found)} ordinary models with made-up data, as users write them
(`benchmarks/accuracy/kinds_models.py`), run by `ContourSGLD` with {WARMUP} draws of warm-up and
{DRAWS:,} draws of {CHAINS} chains from NumPyro's own starts, {" or ".join(seeds)} seeds each.
Nothing is given but `num_steps`, which is {" or ".join(steps)} (fewer for the differential
equation). A run is right if no mean of a coordinate is off by more than {MEAN:g} posterior standard
deviations, compared with 10,000 draws of NUTS over all rows, and for the funnel with its exact mean
and scale. The columns of errors give the median and the largest of the seeds. A chain is frozen if
its draws spread in no coordinate by {FROZEN:.0%} of the posterior's standard deviation.

Of {len(all_runs)} runs {count(OUTCOMES[0])} are right and faultless, {count(OUTCOMES[1])} right but
called bad, {count(OUTCOMES[2])} wrong and called bad, and {count(OUTCOMES[3])} wrong though called
faultless. {still} have a frozen chain.

{markdown_table(HEADER, [row(name, runs) for name, runs in found.items()])}"""
