"""The cost of many vectorised chains, compared with one."""

from __future__ import annotations

import numpy as np

from benchmarks.cost.vectorised import chains_of, kernel
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import ROUNDS, step_costs

BINS = (32, 128, 512)
CHAINS = (1, 4, 16, 64, 256)
#: the aim: a step of MANY chains costs at most LIMIT steps of one, for every number of bins
MANY = 64
LIMIT = MANY / 1.8


def measured(
    experiment: Experiment, bins: int, chains: tuple[int, ...], num_steps: int
) -> dict[int, np.ndarray]:
    """Microseconds per step of all chains in each round, by the number of chains."""
    one = kernel(bins, num_steps)
    methods = {str(number): chains_of(one, number) for number in chains}
    found = step_costs(methods, max(chains) * num_steps, experiment.choose(ROUNDS, 2))
    return {number: number * found[str(number)] for number in chains}


def main(experiment: Experiment) -> str:
    """The section of the page."""
    chains = experiment.choose(CHAINS, (1, MANY))
    num_steps = experiment.choose(1000, 20)
    rows, verdicts = [], []
    for bins in experiment.choose(BINS, BINS[:1]):
        found = measured(experiment, bins, chains, num_steps)
        rows += [
            [
                *(str(bins), str(number)),
                f"{np.median(cost):.1f}",
                f"{np.median(cost) / number:.2f}",
                f"{np.median(cost / found[1]):.1f}",
            ]
            for number, cost in found.items()
        ]
        ratio = np.median(found[MANY] / found[1])
        verdicts.append([str(bins), f"{ratio:.1f}", "yes" if ratio <= LIMIT else "no"])
    return (
        "## Vectorised chains\n\n`ContourSGLD` runs on the nine modes in two dimensions, with the "
        f"partition and the step size given, {num_steps:,} steps per draw and "
        "`collect_theta=False`, through NumPyro's "
        f'driver with `chain_method="vectorized"`. Figures are medians of '
        f"{experiment.choose(ROUNDS, 2)} rounds in which the numbers of chains take turns; set-up "
        "is not counted.\n\n"
        + markdown_table(
            [
                *("bins", "chains", "us a step of all chains", "us a step and chain"),
                "times one chain",
            ],
            rows,
        )
        + f"\nThe aim is that a step of {MANY} chains costs at most as much as {LIMIT:.1f} steps "
        "of one chain, for every number of bins. Each of these chains is then 1.8 times cheaper "
        "than a single chain:\n\n"
        + markdown_table(
            ["bins", f"cost of {MANY} chains / cost of 1", f"at most {LIMIT:.1f}"], verdicts
        )
    )
