"""Simulation-based calibration: does the prior's draw rank anywhere among those of the posterior?

`python -m benchmarks calibration --only START ...` runs only the models whose names have these
prefixes, and rewrites the section from these and from the stored ranks of the others. With a prefix
that no model has it only rewrites the section.
"""

from __future__ import annotations

import jax

from benchmarks.calibration.ranks import Ranks, ranks_of
from benchmarks.calibration.results import keep, kept_of
from benchmarks.calibration.runs import IGNORED, RUNS
from benchmarks.calibration.text import section
from benchmarks.shared.experiment import Experiment

DATA_SETS = 200
#: sizes of the quick form
QUICK = {"num_steps": 10, "warmup": 30, "draws": 30}


def measure(name: str, number: int, quick: bool) -> Ranks:
    """The ranks of a model over so many data sets."""
    run = RUNS[name]
    model = run.model._replace(**QUICK) if quick else run.model
    found = ranks_of(model, number, run.make, lambda text: print(f"{name}: {text}", flush=True))
    # A process may map only so many programs.
    jax.clear_caches()
    return found


def main(experiment: Experiment) -> str:
    """The section of the page."""
    number = experiment.choose(DATA_SETS, 3)
    for name in experiment.choose(tuple(RUNS), (IGNORED,)):
        if name.startswith(experiment.only):
            keep(name, measure(name, number, experiment.quick), experiment.folder)
    kept = {name: kept_of(name, experiment.folder) for name in RUNS}
    return section(experiment, {name: ranks for name, ranks in kept.items() if ranks is not None})
