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
        f"The target is 0.4 N(-6, 1) + 0.6 N(4, 1) at temperature 1, with step size {STEP_SIZE:g}, "
        f"gains 1 / (k^0.6 + 100), {PARTITION.num_bins} subregions of 1 nat, gradient noise "
        f"N(0, 0.01) and zeta {ZETA:g}. There are {CHAINS} runs of {steps:,} iterations from x = "
        "0. KSGLD is given the exact theta. 'The paper's' means its Psi, random field and weights, "
        "and independent noise; 'ours' means our defaults with the same numbers. Each draw stands "
        f"for {NUM_STEPS} steps: a reservoir picks one of them, and the draw has their mean "
        "weight. Weights are by the theta at their own time. 'Nothing given' begins with a warm-up "
        f"of {WARMUP:,} iterations.\n\n"
        + flattening_in_words()
        + one
        + "\nThe table shows the absolute error of E[x] after the given numbers of iterations "
        "(mean +- standard deviation over the runs), the mean of E[x] at the end with its standard "
        "error, the total variation of theta from the exact one, and how often successive draws "
        "are in different modes.\n\n"
        + table(results, decades)
        + "\n"
        + claims(results, times)
        + "\n"
        + two
        + "\nThese are sample paths of the first chain of CSGLD by the paper's rule: one position "
        "of every 100 steps, and of every 10 early on. Over all chains, the multiplier is below 0 "
        f"at {bouncy(early)} in the first {early.iterations[-1]:,} iterations, and at "
        f"{bouncy(late)} after {late.iterations[0]:,}.\n"
    )
