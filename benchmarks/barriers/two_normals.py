"""Label switching: two exchangeable normals on 1,000 rows, with 386 nats between the labellings."""

from __future__ import annotations

import numpy as np

from benchmarks.barriers.climbs import COLUMNS, Climb, climb, row
from benchmarks.barriers.label_switching import REFERENCE, data, lower_first, model, relabelled
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table

SEEDS = 3


def main(experiment: Experiment) -> str:
    """The section of the page."""
    length = experiment.choose({"draws": 1000}, {"draws": 60, "num_steps": 20})
    y, seeds = data(), experiment.choose(SEEDS, 1)
    runs = [
        climb(lower_first, y, model=model, barrier=400.0, seed=s, **length) for s in range(seeds)
    ]
    # As users have it: the climbs find both labellings, and jumps weigh them.
    jumping = [
        climb(lower_first, y, model=model, barrier=400.0, seed=s, jumps=None, **length)
        for s in range(seeds)
    ]
    plain = climb(lower_first, y, model=model, **length)
    rows = [row(f"`barrier=400`, seed {s}", run) for s, run in enumerate(runs)]
    rows += [row(f"the same with jumps, seed {s}", run) for s, run in enumerate(jumping)]
    rows.append(row("nothing given", plain))
    gradients = length["draws"] * length.get("num_steps", 1000) * 2
    moments = [_moments(name, runs) for name in REFERENCE]
    header = ["", "error of the mean, in reference sds", "sd / reference sd"]
    return (
        "## Two exchangeable normals\n\n"
        "The data are the 1,000 rows of `gauss_mix.csv`. The priors are N(0, 2) for the means, "
        "half-N(0, 2) for the scales and Beta(5, 5) for the weight. The labellings are "
        "exchangeable, so the mass of each is 0.5, and about 386 nats lie between them. A run has "
        f"4 chains of {gradients:,} gradients, with NumPyro's default starts.\n\n"
        f"{markdown_table(COLUMNS, rows)}\n"
        "After relabelling, compared with the reference draws of posteriordb:\n\n"
        f"{markdown_table(header, moments)}\n"
        f"The aims were at least 10 crossings in every chain ({_reached(_fewest(runs) >= 10)}: the "
        f"smallest number is {_fewest(runs)}), a pooled mass from 0.35 to 0.65 "
        f"({_reached(all(0.35 <= run.mass <= 0.65 for run in runs))}), with jumps from 0.45 to "
        f"0.55 ({_reached(all(0.45 <= run.mass <= 0.55 for run in jumping))}), and means within "
        "0.2 reference sds and standard deviations within 15 % of the reference "
        f"({_reached(all(_fits(name, run) for name in REFERENCE for run in runs))}).\n"
    )


def _fewest(runs: list[Climb]) -> int:
    return int(min(run.crossings.min() for run in runs))


def _off(name: str, run: Climb) -> tuple[float, float]:
    mean, sd = run.moments(relabelled(run.draws)[name])
    return (mean - REFERENCE[name][0]) / REFERENCE[name][1], sd / REFERENCE[name][1]


def _fits(name: str, run: Climb) -> bool:
    off, ratio = _off(name, run)
    return abs(off) <= 0.2 and abs(ratio - 1) <= 0.15


def _moments(name: str, runs: list[Climb]) -> list[str]:
    found = np.array([_off(name, run) for run in runs])
    return [
        name,
        ", ".join(f"{off:+.2f}" for off in found[:, 0]),
        ", ".join(f"{ratio:.2f}" for ratio in found[:, 1]),
    ]


def _reached(holds: bool) -> str:
    return "reached" if holds else "not reached"
