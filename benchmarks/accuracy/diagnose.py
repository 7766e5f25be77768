"""The verdicts of `diagnose` on broken runs, on correct runs, and on the paper's settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.accuracy.healthy import (
    MASSES,
    MEAN,
    SD,
    Outcome,
    bad_verdicts,
    healthy_row,
    is_right,
    outcome,
)
from benchmarks.accuracy.healthy_models import models
from benchmarks.accuracy.healthy_potentials import potentials
from benchmarks.accuracy.paper_settings import PAPER_CHAINS, PLAIN_WORDS, papers
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from numpyro_contour import diagnose
from numpyro_contour.examples import faults

SEEDS = 3
#: checks that are bad when the figure is below the limit, and checks without a figure of their own
SMALL_IS_BAD = {
    "length",
    "effective draws",
    "round trips",
    "weights",
    "temperature",
    "swaps",
    "ladder",
}
NO_FIGURE = {"warm-up", "flatness"}
#: checks whose figures may be too far from 0 on either side
SIGNED = {"variances"}


def _nearness(check: str, figure: float, limit: float) -> float:
    """How close a figure is to its limit, which can differ between runs."""
    if check in SMALL_IS_BAD:
        return limit / max(figure, 1e-9)
    return (abs(figure) if check in SIGNED else figure) / limit


def extremes(outcomes: dict[str, Outcome]) -> list[list[str]]:
    """For each check, the figure closest to its limit, and the run that has it."""
    found: dict[str, list[tuple[float, float, str]]] = {}
    for name, one in outcomes.items():
        for v in one.report.verdicts:
            if v.check not in NO_FIGURE and np.isfinite(v.figure):
                found.setdefault(v.check, []).append((v.figure, v.limit, name))
    rows = []
    for check, figures in found.items():
        nearest = max(figures, key=lambda item: _nearness(check, *item[:2]))
        figure, limit, name = nearest
        rows.append([check, str(len(figures)), f"{figure:.3g}", f"{limit:.3g}", name])
    return rows


def broken_runs(experiment: Experiment) -> str:
    """The table of runs that are each broken in one way, for three seeds."""
    rows, seeds = [], experiment.choose(SEEDS, 1)
    for name, run in list(faults.RUNS.items())[: experiment.choose(None, 1)]:
        reports = [diagnose(faults.run(name, seed)) for seed in range(seeds)]
        first = [report.faults[0].check if report.faults else "none" for report in reports]
        named = sum(check == (run.check or "none") for check in first)
        rows.append([name, run.what, bad_verdicts(reports[0]), f"{named} of {seeds}"])
        print(*rows[-1], sep=" | ", flush=True)
    header = ["run", "what is done", "bad verdicts, the first seed", "right verdict first"]
    return markdown_table(header, rows)


def main(experiment: Experiment) -> str:
    """The section of the page."""
    broken = broken_runs(experiment)
    runs = {healthy.name: healthy for healthy in potentials() + models()}
    if experiment.quick:
        runs = {name: replace(runs[name], warmup=40, samples=100) for name in ("30 normals",)}
    outcomes: dict[str, Outcome] = {}
    for name, healthy in runs.items():
        outcomes[name] = outcome(healthy)
        print(*healthy_row(healthy, outcomes[name]), sep=" | ", flush=True)
    right = sum(is_right(outcome.errors) for outcome in outcomes.values())
    false = sum(
        is_right(outcome.errors) and not outcome.report.trusted for outcome in outcomes.values()
    )
    header = [
        *("target", "kernel", "chains x draws x steps", "mean", "sd", "masses", "bad verdicts"),
        "seconds, run + report + truth",
    ]
    return (
        "## Verdicts on runs\n\nThese runs are each broken in one way "
        "(`numpyro_contour.examples.faults`):\n\n" + broken + "\n"
        f"The next table shows `diagnose` on {len(outcomes)} runs, each on a different target, "
        f"with nothing given except `num_steps` unless stated. In {right} of them the true error "
        "is small: compared with exact answers or with NUTS, pooled means are wrong by less than "
        f"{MEAN} posterior sds, sds by less than {SD:.0%} and mode masses by less than {MASSES} in "
        f"total variation. {false} of these have a bad verdict.\n\n"
        + markdown_table(header, [healthy_row(runs[name], o) for name, o in outcomes.items()])
        + "\nFor each check, the figure that came closest to its limit:\n\n"
        + markdown_table(["check", "runs", "nearest", "limit", "run"], extremes(outcomes))
        + "\nThe paper's own settings, with "
        f"{PAPER_CHAINS} chains: its update of theta, its weights by bin, log theta at right "
        "edges, steps that may grow, and independent noise, with the numbers of sections 4.1 "
        "(1,000,000 steps) and D.3. The errors are the total variation of theta (mean over "
        "chains), the total variation of the mode masses (of a single chain and of all chains "
        "pooled), and the mean, whose exact value is 0.\n\n"
        + papers(experiment)
        + "\n"
        + PLAIN_WORDS
    )
