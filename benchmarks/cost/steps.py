"""The cost of a step as the sizes of data, model, minibatch and theta vary."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from benchmarks.cost.methods import STEPS_A_DRAW, Case, logistic
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import ROUNDS, step_costs


@dataclass(frozen=True)
class Setting:
    """A logistic regression and how it is sampled."""

    rows: int = 100_000
    columns: int = 50
    minibatch: int = 512
    bins: int = 128

    @property
    def steps(self) -> int:
        """Number of steps of the shorter run, larger where a step is cheap."""
        return STEPS_A_DRAW * min(10, max(1, 50_000 // (self.minibatch * self.columns)))

    def __str__(self) -> str:
        return (
            f"N = {self.rows:,}, d = {self.columns}, n = {self.minibatch:,} and {self.bins:,} bins"
        )


#: names of the fields, and the values that they take in turn
VARIED = {
    "rows": ("N, rows of the data", (10_000, 100_000, 1_000_000)),
    "columns": ("d, columns", (10, 50, 200)),
    "minibatch": ("n, rows of a minibatch", (64, 512, 2048)),
    "bins": ("bins", (32, 128, 512, 2048)),
}
QUICK = Setting(1000, 10, 64, 32)
QUICK_VARIED = {field: (name, (getattr(QUICK, field),)) for field, (name, _) in VARIED.items()}


def measured(experiment: Experiment, setting: Setting) -> list[str]:
    """The costs of the three methods and their ratios, as cells."""
    case = Case(
        *logistic(setting.rows, setting.columns),
        minibatch=setting.minibatch,
        step_size=0.1 / setting.rows,
        bins=setting.bins,
    )
    methods = {"ours": case.kernel(), "bare": case.bare(), "blackjax": case.blackjax()}
    steps, rounds = experiment.choose((setting.steps, ROUNDS), (STEPS_A_DRAW, 2))
    found = step_costs(methods, steps, rounds)
    return [
        *(f"{np.median(cost):.1f}" for cost in found.values()),
        f"{np.median(found['ours'] / found['bare']):.2f}",
        f"{np.median(found['ours'] / found['blackjax']):.2f}",
    ]


def main(experiment: Experiment) -> str:
    """The section of the page."""
    base = experiment.choose(Setting(), QUICK)
    cells: dict[Setting, list[str]] = {}
    text = (
        f"## A step of `ContourSGLD`\n\nThis is a logistic regression at {base}, unless the table "
        f"gives another size. `ContourSGLD` runs through NumPyro's driver with {STEPS_A_DRAW:,} "
        "steps per draw. The bare loop draws rows, gathers them and computes the value and the "
        "gradient. `blackjax.csgld` runs in one compiled loop with the same minibatches and bins. "
        f"Figures are medians of {experiment.choose(ROUNDS, 2)} rounds in which the three take "
        "turns. Ratios are taken within rounds, and set-up is not counted.\n"
    )
    for field, (name, values) in experiment.choose(VARIED, QUICK_VARIED).items():
        rows = []
        for value in values:
            setting = replace(base, **{field: value})
            if setting not in cells:
                cells[setting] = measured(experiment, setting)
            rows.append([f"{value:,}", *cells[setting]])
        header = [
            *(name, "ContourSGLD, us a step", "bare loop, us", "blackjax.csgld, us"),
            *("times the bare loop", "times blackjax.csgld"),
        ]
        text += "\n" + markdown_table(header, rows)
    return text
