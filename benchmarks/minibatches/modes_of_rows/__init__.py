"""Modes that the rows of the data make, crossed by minibatches: docs/benchmarks.md."""

from __future__ import annotations

import numpy as np

from benchmarks.minibatches.modes_of_rows import text
from benchmarks.minibatches.modes_of_rows.figure import bands, with_one_anchor
from benchmarks.minibatches.modes_of_rows.runs import Outcome, on_minibatches, without_noise
from benchmarks.minibatches.modes_of_rows.target import Target
from benchmarks.minibatches.modes_of_rows.targets import DRAWN, TARGETS, target_of
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table


def main(experiment: Experiment) -> str:
    """The section of the page."""
    measured: dict[str, tuple[Target, Outcome, Outcome, Outcome]] = {}
    for name in experiment.choose(tuple(TARGETS), ("sign",)):
        target = target_of(name, experiment.quick)
        jumping = on_minibatches(target, jumps=None)
        # By climbs alone, which is the same code without a part of it.
        climbing = jumping if experiment.quick else on_minibatches(target)
        measured[name] = target, climbing, without_noise(target), jumping
        for line in text.lines(*measured[name]):
            print(*line, sep=" | ", flush=True)
    tables = [
        [line for row in measured.values() for line in text.lines(*row)],
        [text.rows_for_the_same_error(*row[:3]) for row in measured.values()],
    ]
    made = [markdown_table(header, table) for header, table in zip((text.RUNS, text.ROWS), tables)]
    target = target_of(experiment.choose(DRAWN, "sign"), experiment.quick)
    several = measured[target.name][1]
    one = with_one_anchor(target)
    names = ("one anchor", f"{several.used.anchors} anchors")
    figure = bands(target, dict(zip(names, (one, several))))
    alternative = "Energies along a run with their noise, by one anchor and by several"
    targets = [row[0] for row in measured.values()]
    return text.section(
        text.other_lengths(targets),
        text.kinds(targets),
        *made,
        experiment.save(figure, "anchors", alternative),
        target.name,
        [float(np.median(run.noise)) for run in (one, several)],
    )
