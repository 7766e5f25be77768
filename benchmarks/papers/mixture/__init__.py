"""Figures 1 and 2 of CSGLD (section 4.1): the mixture 0.4 N(-6, 1) + 0.6 N(4, 1)."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.papers.mixture.claims import bouncy, claims, flattening_in_words, table
from benchmarks.papers.mixture.exact import PARTITION, ZETA
from benchmarks.papers.mixture.figures import figure_1, figure_2
from benchmarks.papers.mixture.runs import (
    CHAINS,
    NUM_STEPS,
    STEP_SIZE,
    WARMUP,
    measure,
    path,
    positions,
    variants,
)
from benchmarks.shared.experiment import Experiment


def main(experiment: Experiment) -> str:
    """The section of the page."""
    plt.switch_backend("Agg")
    steps = experiment.choose(10_000_000, 10_000)
    decades = experiment.choose(np.array([10**4, 10**5, 10**6, 10**7]), np.array([10**3, 10**4]))
    times = np.unique(np.geomspace(1_000, steps, 81).astype(int) // NUM_STEPS * NUM_STEPS)
    results = [measure(one, steps) for one in variants(experiment)]

    stretch = experiment.choose(100_000, 10_000)
    calm = positions(results[0], stretch)
    whole = path(results[2].variant, experiment.choose(5 * stretch, stretch), 10)
    early = whole.part(None, stretch // 100)
    late = whole.part(-experiment.choose(stretch // 10, stretch // 20), None, 10)

    one = experiment.save(figure_1(results, times), "csgld_figure_1", "Figure 1 of CSGLD")
    two = experiment.save(figure_2(calm, early, late), "csgld_figure_2", "Figure 2 of CSGLD")
    plt.close("all")
    return (
        "## A mixture of two Gaussians (CSGLD, section 4.1, Figures 1 and 2)\n\n"
        f"0.4 N(-6, 1) + 0.6 N(4, 1), temperature 1, step size {STEP_SIZE:g}, gains 1 / (k^0.6 + "
        f"100), {PARTITION.num_bins} subregions of 1 nat, gradient noise N(0, 0.01), zeta "
        f"{ZETA:g}, {steps:,} iterations, {CHAINS} runs from x = 0. KSGLD is given the exact "
        "theta. 'The paper's' are its Psi, random field and weights, and independent noise; ours "
        "the defaults at the same numbers. Each draw stands for "
        f"{NUM_STEPS} steps, of which a reservoir picks one, "
        "with their mean weight; weights are by the theta of their own time. 'Nothing given' "
        f"begins with a warm-up of {WARMUP:,} iterations.\n\n"
        + flattening_in_words()
        + one
        + "\nThe absolute error of E[x] after so many iterations, mean +- standard deviation over "
        "the runs; the mean of E[x] at the end +- its standard error; the total variation of theta "
        "from the exact one; and how often successive draws are in different modes.\n\n"
        + table(results, decades)
        + "\n"
        + claims(results, times)
        + "\n"
        + two
        + "\nSample paths of the first chain, CSGLD by the paper's rule: one position "
        f"of every 100 steps, early of every 10. Multipliers below 0, of all chains: "
        f"{bouncy(early)} in the first {early.iterations[-1]:,} iterations, "
        f"{bouncy(late)} after {late.iterations[0]:,}.\n"
    )
