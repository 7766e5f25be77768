"""Peers with as many rows, where the rows make the modes: docs/benchmarks.md."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np

from benchmarks.minibatches.modes_of_rows.runs import CHAINS, on_minibatches
from benchmarks.minibatches.modes_of_rows.target import Target
from benchmarks.minibatches.modes_of_rows.targets import target_of
from benchmarks.minibatches.peers_on_rows.methods import DRAWS, ECS, Found, Peers
from benchmarks.peers.methods import RUNS
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table, standard_error

TARGETS = ("amplitude, N = 20,000",)
HEADER = [
    *("target", "method", "million rows", "error a chain", "pooled", "error of a run"),
    "million rows for the error of ContourSGLD",
]


def main(experiment: Experiment) -> str:
    """The section of the page."""
    rows: list[list[str]] = []
    for name in experiment.choose(TARGETS, ("sign",)):
        target = target_of(name, experiment.quick)
        table = beside_peers(target, _found(target, experiment.quick))
        for line in table:
            print(*line, sep=" | ", flush=True)
            rows.append(line)
    return _text(markdown_table(HEADER, rows))


def _found(target: Target, quick: bool) -> Iterator[Found]:
    """What all methods found, ours first."""
    if quick:
        runs = [on_minibatches(target, chains=RUNS)]  # a chain stands for a run
    else:
        runs = [on_minibatches(target, seed=seed) for seed in range(RUNS)]
    masses = np.concatenate([run.masses for run in runs])
    yield Found("ContourSGLD", masses, float(np.mean([run.rows for run in runs])))
    yield from Peers(target, runs[0]).all(quick)


def beside_peers(target: Target, found: Iterator[Found]) -> Iterator[list[str]]:
    """The rows of a target in the table: our own first."""
    ours = next(found)
    for one in chain([ours], found):
        error = one.error(target.mass)
        wanted = one.rows * (error / ours.error(target.mass)) ** 2
        yield [
            target.name if one is ours else "",
            one.name,
            f"{one.rows / 1e6:,.0f}",
            f"{error:.3f}",
            f"{one.masses.mean():.3f} +- {standard_error(one.masses):.3f}",
            f"{one.error_of_run(target.mass):.3f}",
            "" if one is ours else f"{wanted / 1e6:,.0f}",
        ]


def _text(table: str) -> str:
    return f"""## Peers with as many rows

The posteriors are those of the section before, and the exact masses stand there. Each method makes
{RUNS} runs of {CHAINS} chains, each run with as many rows as one of `ContourSGLD`, to which nothing
is given except `num_steps` and `jumps=False`. SGLD takes plain minibatches with nothing given.
Others begin where its chains end: `blackjax.csgld` with the partition that a run of ours found and
the step size and scale of SGLD, SGMCMCJax with the latter, and HMCECS with the Taylor proxy at the
end of one chain ({ECS:,} + {ECS:,} draws, in as many rows as these take).
Stochastic-gradient samplers make {DRAWS:,} draws, of which a quarter is warm-up. NUTS and tempered
SMC run on the exact energies, which give the draws of all rows, and are charged N rows for a
gradient. A run of SMC counts as a chain.

Errors are root mean squares: of the masses of single chains, and of the means over the chains of a
run. The pooled mass is the mean over all chains with its standard error. The last column is
extrapolated from the errors of single chains, with squared errors that fall as the number of rows
grows. Chains that never cross would not get there.

{table}"""
