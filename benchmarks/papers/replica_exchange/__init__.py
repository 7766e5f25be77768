"""The slides of reSGLD: naive and corrected swaps, and the price of a correction."""

from __future__ import annotations

from benchmarks.papers.replica_exchange import snapshots, windows
from benchmarks.papers.replica_exchange.adaptive import METHODS, densities, first_claims, row, run
from benchmarks.papers.replica_exchange.correction import (
    MINIBATCH,
    NAIVE,
    draws_of_equal_rows,
    name_of,
    slope_claims,
    trade,
    trade_offs,
)
from benchmarks.papers.replica_exchange.target import (
    CASES,
    CHAINS,
    GRADIENT_SD,
    LADDER,
    SEED,
    STEP_SIZE,
    THINNING,
)
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import claims_table, markdown_table, standard_error


def main(experiment: Experiment) -> str:
    """The section, as text."""
    steps = experiment.choose(100_000, 2_000)
    cases = experiment.choose(CASES, CASES[:1])
    names = experiment.choose(list(METHODS), list(METHODS)[:3])
    found, rows = {}, []
    for case in cases:
        found[case.name] = {}
        for name in names:
            found[case.name][name], mcmc = run(case, name, steps)
            rows.append(row(case, name, found[case.name][name], mcmc))
    figure = experiment.save(
        densities(cases, found),
        "papers_replica_exchange",
        "Densities and paths of SGLD, naive and adaptive reSGLD on a mixture of two normals",
    )
    sizes = experiment.choose((25, 50, 100, 200, 400, 1600), (25, 400))
    factors = experiment.choose((1.0, 2.0, 4.0, 8.0, NAIVE), (1.0, NAIVE))
    traded = [result for factor in factors for result in trade(CASES[0], sizes, factor, steps)]
    draws = draws_of_equal_rows(traded)
    second = experiment.save(
        trade_offs(traded),
        "papers_correction_factor",
        "Swaps, changes of mode and errors by minibatch size for several correction factors",
    )
    ordered = sorted(traded, key=lambda result: (result.minibatch, result.factor))
    cells = [
        [
            str(result.minibatch),
            name_of(result.factor),
            f"{result.rate.mean():.4f}",
            f"{result.crossings:.2f}",
            f"{result.variation:.3f}",
            f"{result.bias:+.3f} +- {standard_error(result.masses()):.3f}",
            f"{result.error():.3f}",
            f"{result.error(draws[result.minibatch]):.3f}",
        ]
        for result in ordered
    ]
    case, mixture = CASES[0], CASES[0].mixture
    return (
        "## Replica exchange with noisy energies (slides of reSGLD)\n\n"
        "The slides give no settings for their figure 3. These are from the authors' script "
        "(gaoliyao/Replica_Exchange_Stochastic_Gradient_MCMC, simulation): "
        + " and ".join(f"{c.mixture} with noise {c.name} on energies" for c in cases)
        + f"; noise of sd {GRADIENT_SD:g} on gradients, learning rate {STEP_SIZE:g}, temperatures "
        f"{LADDER[0]:g} and {LADDER[1]:g}, F = 1, {steps:,} steps from 0. We run {CHAINS} chains "
        f"with seed {SEED} and keep every {THINNING}th position. Variances are learnt from each "
        "step, whereas the script evaluates one energy ten times every 20 steps.\n\n"
        + figure
        + f"\nThe densities are those of all {CHAINS} chains.\n\n"
        + markdown_table(
            [
                "noise",
                "method",
                "TV a chain",
                "TV pooled",
                f"mass of the left mode, {mixture.left_mass:.1f}",
                "share of swaps",
                "variance learnt",
                "changes of mode in 1,000 steps",
            ],
            rows,
        )
        + "\nTV is the total variation of a histogram with bins of "
        f"{mixture.edges[1] - mixture.edges[0]:g}. The true variances are "
        + " and ".join(f"{c.variance:.2f}" for c in cases)
        + ".\n\n"
        + "A claim is decided by two standard errors:\n\n"
        + claims_table(first_claims(cases, found), "the slides")
        + "\n### Correction factor and minibatch size\n\n"
        "This is the first of these targets, with normal noise of variance "
        f"{case.variance:g} x {MINIBATCH} / n on energies and {GRADIENT_SD**2:g} x {MINIBATCH} / n "
        "on gradients, as minibatches of n rows have it. The error is the root mean square error "
        f"of the left mode's mass over {CHAINS} chains. At equal rows, a chain has {steps:,} x "
        f"{sizes[0]} / n steps.\n\n"
        + second
        + "\n"
        + markdown_table(
            [
                "n",
                "F",
                "share of swaps",
                "changes of mode",
                "TV a chain",
                "bias of the mass",
                "error",
                "error, equal rows",
            ],
            cells,
        )
        + "\n"
        + claims_table(slope_claims(traded), "the slides")
        + "\n"
        + snapshots.section(experiment.quick)
        + "\n"
        + windows.section(CASES[0], steps // 4, experiment.quick)
    )
