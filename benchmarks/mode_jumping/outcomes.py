"""The models of `models.py` by `ModeJumping`, each as a process of its own."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpyro.diagnostics

from benchmarks.mode_jumping.kept import Kept
from benchmarks.mode_jumping.measure import CHAINS, run
from benchmarks.mode_jumping.models import cases
from benchmarks.shared.processes import alone
from benchmarks.shared.tables import markdown_table
from numpyro_contour import diagnose

SEEDS = 3


def measure(number: int, seed: int, began: float, quick: bool) -> dict[str, Any]:
    """A run, its figures and its verdict."""
    case = cases()[number]
    warmup, draws = (50, 50) if quick else case.draws
    ran = run(True, draws, seed, case.args, warmup=warmup, model=case.model)
    samples = {k: np.asarray(v) for k, v in ran.mcmc.get_samples(group_by_chain=True).items()}
    seconds = time.time() - began
    values = {name: np.asarray(f(samples), float) for name, f in case.quantities.items()}
    known = ran.mcmc.sampler.modes_of(*case.args)
    report = diagnose(ran.mcmc)
    each = list(values.values())
    return {
        "seconds": seconds,
        "found": [float(x.mean()) for x in each],
        "exact": [case.truth()[name][0] for name in values],
        "effective": min(float(numpyro.diagnostics.effective_sample_size(x)) for x in each),
        "R-hat": max(float(numpyro.diagnostics.split_gelman_rubin(x)) for x in each),
        "gradients": ran.gradients,
        "modes": len(known),
        "alone": known.alone,
        "descents": known.descents,
        "faults": [fault.check for fault in report.faults],
    }


def fill(kept: Kept, quick: bool) -> None:
    """Measure the models that are wanted."""
    for number, case in enumerate(cases()[:1] if quick else cases()):
        if kept.wants(case.name):
            seeds = range(1 if quick else SEEDS)
            found = [alone(measure, number, seed, time.time(), quick) for seed in seeds]
            kept.put(case.name, {"runs": found})


def _figures(values: list[float]) -> str:
    return " ".join(f"{value:.3f}".lstrip("0") for value in values)


def text(rows: dict[str, dict[str, Any]]) -> str:
    """The text and its table."""
    lines = []
    for name, row in rows.items():
        each = row["runs"]
        over = {field: [one[field] for one in each] for field in each[0]}
        exact = np.array(each[0]["exact"])
        errors = np.abs(np.array(over["found"]) - exact).max(1)
        faults = sum(bool(one["faults"]) for one in each)
        kinds = sorted({fault for one in each for fault in one["faults"]})
        lines.append(
            [
                name,
                f"{np.median(over['modes']):.0f}",
                f"{np.median(over['alone']):.0f} of {np.median(over['descents']):.0f}",
                _figures(each[0]["found"]),
                _figures(each[0]["exact"]),
                f"{errors.max():.3f}",
                f"{np.median(over['effective']):,.0f}",
                f"{max(over['R-hat']):.3f}",
                f"{np.median(over['gradients']) / 1000:,.0f}",
                f"{np.median(over['seconds']):.1f}",
                f"{faults} of {len(each)}" + (f" ({', '.join(kinds)})" if kinds else ""),
            ]
        )
    return (
        "### Models that others had trouble with\n\nAliases of a range finder; positions of "
        "sensors that may be mirrored; periods of a planet; a hidden Markov chain; three tests "
        "without a gold standard; a network; clusters with 24 labellings; and a field with two "
        f"phases, which no search for modes is made for. {CHAINS} chains of 1000 + 1000 draws, "
        f"{SEEDS} seeds, whole processes. The probabilities are those of the first seed, and "
        "beside them the exact ones; the error is the largest of all seeds; effective draws are "
        "those of the probability that has the fewest. `Alone` are descents that ended in a mode "
        "that nothing else had found.\n\n"
        + markdown_table(
            [
                *("model", "modes", "alone", "probabilities", "exact", "error"),
                *("effective draws", "R-hat", "1,000 gradients", "seconds", "flagged"),
            ],
            lines,
        )
    )
