"""Whole processes by the clock: seconds to the masses of modes, by this package and by others.

`python -m benchmarks peers.by_the_clock --only START ...` measures only the posteriors whose names
have these prefixes, `--methods START ...` only these methods, and the section is written with the
runs that are kept of the others.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cost.first_answer import first
from benchmarks.peers.clock.exact import data_of
from benchmarks.peers.clock.methods import METHODS
from benchmarks.peers.clock.posteriors import POSTERIORS
from benchmarks.peers.clock.results import YARDSTICK, Runs, keep, kept_in
from benchmarks.peers.clock.start import run
from benchmarks.peers.clock.text import section
from benchmarks.shared.experiment import Experiment

ROUNDS = 3
#: the quick form: a posterior, methods, and draws of each chain
QUICK = "README's model, 1-d", ("ContourSGLD", "NUTS"), 100


def measured(name: str, methods: list[str], rounds: int, *draws: int) -> dict[str, Runs]:
    """The runs of methods on a posterior, alternately; a method that fails is not run again."""
    found: dict[str, Runs] = {method: [] for method in methods}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "data.npz"
        np.savez(file, **{f"array_{i}": array for i, array in enumerate(data_of(name))})
        for number in range(rounds):
            for method in methods[:: -1 if number % 2 else 1]:
                if any("failed" in one for one in found[method]):
                    continue
                found[method].append(run(method, name, number, file, *draws))
                print(name, method, found[method][-1], flush=True)
    return found


def yardstick(rounds: int) -> dict[str, Any]:
    """First runs of NUTS on eight schools, which say how fast the machine is."""
    return {"NUTS": [{"seconds": first("NUTS", YARDSTICK, 1000)["first"]} for _ in range(rounds)]}


def main(experiment: Experiment) -> str:
    """The section of the page."""
    if experiment.quick:
        name, methods, draws = QUICK
        return section({name: measured(name, list(methods), 1, draws)}, draws)
    methods = [name for name in METHODS if name.startswith(experiment.methods)]
    if YARDSTICK.startswith(experiment.only):
        keep(YARDSTICK, yardstick(ROUNDS), experiment.folder)
    for name in POSTERIORS:
        if name.startswith(experiment.only):
            keep(name, measured(name, methods, ROUNDS), experiment.folder)
    return section(kept_in(experiment.folder))
