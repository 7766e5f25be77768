"""The first and the second run of small models, beside NUTS: whole processes, with memory."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table

ROUNDS = 3
#: models, each with the one that NUTS runs beside it
MODELS = {
    "eight schools": "eight schools",
    "logistic 1,000 x 8": "logistic 1,000 x 8",
    "mixture of 100 rows": "mixture of 100 rows",
    "logistic, minibatches of 100": "logistic 1,000 x 8",
}
KERNELS = "NUTS", "blackjax", "SGLD", "ContourSGLD"
PARTS = "trace", "lower", "compile"


def first(kernel: str, model: str, draws: int) -> dict[str, Any]:
    """What a process takes to its first answer, and then to a second one."""
    script = "benchmarks.cost.first_run"
    command = [sys.executable, "-m", script, kernel, model, str(draws), "--twice"]
    began = time.perf_counter()
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(ran.stdout.splitlines()[-1])
    return found | {"first": time.perf_counter() - began - found["second"]}


def measured(model: str, beside: str, rounds: int, draws: int) -> dict[str, list[dict[str, Any]]]:
    """The runs of each kernel, which take turns."""
    found: dict[str, list[dict[str, Any]]] = {kernel: [] for kernel in KERNELS}
    for number in range(rounds):
        for kernel in KERNELS[:: 1 if number % 2 else -1]:
            of = beside if kernel in ("NUTS", "blackjax") else model
            found[kernel].append(first(kernel, of, draws))
            print(model, kernel, found[kernel][-1], flush=True)
    return found


def lines(model: str, found: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    """The rows of the table for one model."""
    rows = []
    for kernel, runs in found.items():
        middle = {n: statistics.median(r[n] for r in runs) for n in ("first", "second", "peak")}
        parts = [f"{statistics.median(run[part] for run in runs):.1f}" for part in PARTS]
        ratios = [
            statistics.median(run[n] / other[n] for run, other in zip(runs, found["NUTS"]))
            for n in ("first", "second", "peak")
        ]
        rows.append(
            [
                *(model, {"blackjax": "NUTS of blackjax"}.get(kernel, kernel)),
                *(f"{middle['first']:.1f}", f"{ratios[0]:.2f}", *parts),
                *(f"{middle['second']:.1f}", f"{ratios[1]:.2f}"),
                *(f"{middle['peak'] / 2**30:.2f}", f"{ratios[2]:.2f}"),
            ]
        )
    return rows


def main(experiment: Experiment) -> str:
    """The section of the page."""
    models = list(MODELS.items())[: experiment.choose(len(MODELS), 1)]
    rounds, draws = experiment.choose((ROUNDS, 1000), (1, 20))
    table = [row for m, b in models for row in lines(m, measured(m, b, rounds, draws))]
    header = ["model", "kernel", "first run, s", "of NUTS", *(f"{part}, s" for part in PARTS)]
    header += ["second run, s", "of NUTS", "peak, GiB", "of NUTS"]
    return (
        "## The first answer\n\nWhole processes with imports, without JAX's cache of compiled "
        f"programs: 4 vectorised chains of {draws:,} + {draws:,} draws with the defaults, "
        "then the same run once more in the same process. Where our kernels take minibatches, "
        "NUTS takes all rows. Seconds of tracing, lowering and compiling are those of all programs "
        "of the first run, as JAX reports them; ours are compiled two at a time while others are "
        "traced and run. The peak is that of the first run. Figures are medians of "
        f"{rounds} rounds in which the kernels take turns, and ratios are taken within rounds.\n\n"
        + markdown_table(header, table)
    )
