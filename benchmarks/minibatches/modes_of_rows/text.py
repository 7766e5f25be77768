"""The tables and the words of the section."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from benchmarks.minibatches.modes_of_rows.runs import CHAINS, Outcome
from benchmarks.minibatches.modes_of_rows.target import USUAL, Target
from numpyro_contour.modes.way_down import DESCENT_LENGTH

KINDS = {
    "sign": "the rows have mean a^2",
    "amplitude": "the same, the model of README, with noisier rows the more there are",
    "weak mixture": (
        "two components less than a standard deviation apart, of masses 0.3 and 0.7, in this or in "
        "the opposite order"
    ),
    "period": "a sinusoid in thirty nights, at its frequency or at the nightly alias",
    "drive-by location": "distances to a source on one of the sides of a winding road",
    "phase retrieval": "squares of a linear form, seen with noise",
    "logistic": "logits (x'w)^2 - 0.3, expanded to second order for the run without noise",
}
RUNS = [
    *("target", "energies", "noise: median, 99 %, on top", "anchors, passes"),
    *("crossings, least", "error a chain", "pooled", "faults", "million rows", "seconds"),
]
ROWS = [
    *("target", "rows on minibatches", "error a chain", 'rows of `energy="full"`', "its error"),
    *("its rows for the same error", "ratio"),
]


def lines(target: Target, noisy: Outcome, exact: Outcome, jumping: Outcome) -> list[list[str]]:
    """The runs of a target, on minibatches and without noise, and on minibatches with jumps."""
    size = f"N = {target.rows:,}, n = {target.minibatch:,}"
    name = f"{target.name.split(', N')[0]}, {size}: {target.barrier:.1f} nats, {target.mass:.3f}"
    table = []
    known = f"the same with jumps, {jumping.used.modes} modes known"
    for run, first in ((noisy, name), (exact, "the same without noise"), (jumping, known)):
        noise = [np.median(run.noise), np.quantile(run.noise, 0.99)]
        noise += [run.noise_on_top]
        used = run.used
        places = f"{used.anchors}, {used.passes}" if used.anchors else ""
        table.append(
            [
                first,
                target.how if run is exact else used.name,
                "0" if run is exact else ", ".join(map(_nats, noise)),
                places,
                f"{run.crossed.mean():.0f}, {run.crossed.min()}",
                f"{run.error(target.mass):.3f}",
                f"{run.mass:.3f} +- {run.mcse:.3f}",
                ", ".join(run.faults) or "none",
                "" if run is exact else f"{run.rows / 1e6:,.0f}",
                f"{run.seconds:.0f}",
            ]
        )
    return table


def _nats(noise: float) -> str:
    if noise < 0.001:
        return "< 0.001"
    return f"{noise:.2g}" if noise < 10 else f"{noise:.0f}"


def rows_for_the_same_error(target: Target, noisy: Outcome, exact: Outcome) -> list[str]:
    """A row of the table of rows."""
    errors = noisy.error(target.mass), exact.error(target.mass)
    wanted = exact.rows * (errors[1] / errors[0]) ** 2
    return [
        target.name,
        f"{noisy.rows:.2g}",
        f"{errors[0]:.3f}",
        f"{exact.rows:.2g}",
        f"{errors[1]:.3f}",
        f"{wanted:.2g}",
        f"{noisy.rows / wanted:.3f}",
    ]


def other_lengths(targets: Iterable[Target]) -> str:
    """The end of a sentence, which names the targets whose runs have another length."""
    said = [
        f"*{target.name}* has {length.warmup} + {length.draws} of {length.num_steps}"
        for target in targets
        if (length := target.length) != USUAL
    ]
    return f"; {', '.join(said)}." if said else "."


def kinds(targets: Iterable[Target]) -> str:
    """A list of what the posteriors are."""
    first = {target.name.split(",")[0] for target in targets}
    said = [f"- *{name}*: {what}" for name, what in KINDS.items() if name in first]
    return ";\n".join(said) + "."


def section(
    lengths: str,
    kinds: str,
    runs: str,
    rows: str,
    figure: str,
    drawn: str,
    noise: list[float],
) -> str:
    """The section of the page."""
    return f"""## Two modes that the rows make

In these posteriors the modes come from the rows of the data, each of which says little. Steps see
minibatches of n of the N rows. `ContourSGLD` is given nothing except `num_steps` and, but for the
third run of each, `jumps=False`; {CHAINS} vectorised chains start as in NumPyro. Most runs have
{USUAL.warmup} draws of warm-up and {USUAL.draws} draws after it, of {USUAL.num_steps} steps
each{lengths} The first column has the height of the barrier above the deeper mode and the exact
mass of one mode, both of which are computed from sufficient statistics or on a grid:

{kinds}

Each run is compared with the same run **without noise**, as long and with nothing given, on the
exact energy from the numbers that the second column names. It shows what crossings and errors
minibatches cost. The third run is **with jumps**, the default. It does not hang on climbs once the
modes are known.

Noise is the standard deviation of the energy in nats: its median and 99 % quantile at the draws,
and its value on top of the barrier. Anchors are those in use at the end, beside the passes over all
rows that placed them. Crossings are counted between draws: the mean over chains, and the least. The
error of a chain is the root mean square over chains of the difference between its mass and the
exact one; the pooled mass has the Monte Carlo error that `expectation` reports. Rows are
evaluations of a row, of all chains. A step evaluates each row of its minibatch twice: where the
chain is, and at the anchor or, for an expansion in the data, at the centroid of its cluster. A
Hessian-vector product counts as one more evaluation, so that a step of second order takes 3 n rows,
and the Hessian of an anchor as many passes as there are parameters. An expansion in the data also
evaluates its K clusters with a second derivative along each of their q columns, which counts as
K (1 + q) rows. Passes over all rows for anchors are counted, and so are the weights: two rows for
each row and draw, one more for second order, and one more from 100,000 rows on. (Not counted is the
search for clusters, once a run, nor the shapes of modes.) A try to jump counts as eight energies
with their noise, a descent in search of modes as {DESCENT_LENGTH} steps.

{runs}
{figure}
The figure shows {drawn}: energies of the first chain over all rows, with one standard deviation of
the noise of a step on both sides. With one anchor the median noise is {_nats(noise[0])} nats, with
several it is {_nats(noise[1])}.

### Rows for the same error

A run with `energy="full"` is the run without noise, at N rows a step and none for weights. Its rows
for the error of the run on minibatches are extrapolated, since squared errors fall as the number of
draws grows.

{rows}"""
