"""The section of the page: a table of all runs, and how often `diagnose` was right."""

from __future__ import annotations

import numpy as np

from benchmarks.posteriordb.results import Scores
from benchmarks.posteriordb.scores import (
    CHAINS,
    KERNELS,
    MOST_OFF,
    NUM_STEPS,
    RATIOS,
    REFERENCE,
    WRONG,
    Length,
    Score,
)
from benchmarks.shared.tables import markdown_table

HEADER = [
    *("posterior", "kernel", "right", "worst mean, sds", "sd ratios", "R-hat"),
    *("faults", "1,000 gradients", "seconds a run"),
]


def section(found: dict[str, Scores], length: Length) -> str:
    """The section, of the scores by posterior and kernel."""
    rows = [
        _row(posterior if first else "", name, scores[name])
        for posterior, scores in found.items()
        for first, name in _in_order(scores)
    ]
    ours = [(name, one) for scores in found.values() for name, one in _ours(scores)]
    return f"""## Posteriors with reference draws

Eight posteriors of [posteriordb](https://github.com/stan-dev/posteriordb), whose means and standard
deviations come from 10,000 draws of Stan's NUTS. Kernels are given nothing except
`num_steps={NUM_STEPS}`, and make {length.warmup:,} draws of warm-up and {length.draws:,} draws
after it with {CHAINS} chains, one run for each seed. NUTS with as many gradients, and at least as
many draws, stands beside them. A run is right if no mean is off by more than {MOST_OFF:g} standard
deviations, and every standard deviation is {RATIOS[0]:g} to {RATIOS[1]:g} times that of the
reference. The next columns give the largest error, the range of the ratios and the
largest R-hat of all runs, and the first faults that `diagnose` names. Other work ran
beside them, and most programs came from a cache, so that seconds are rough.

{_summary(ours)}

{markdown_table(HEADER, rows)}
A verdict of `diagnose` is right if a run with a mean off by more than {WRONG:g} standard
deviations is called bad, and one without is not:

{_verdicts(ours)}"""


def _in_order(scores: Scores) -> list[tuple[bool, str]]:
    names = [name for name in (*KERNELS, REFERENCE) if scores.get(name)]
    return [(number == 0, name) for number, name in enumerate(names)]


def _ours(scores: Scores) -> list[tuple[str, Score]]:
    return [(name, one) for name in KERNELS for one in scores.get(name, [])]


def _summary(ours: list[tuple[str, Score]]) -> str:
    parts = []
    for kernel in KERNELS:
        of_kernel = [one for name, one in ours if name == kernel]
        if of_kernel:
            right = sum(one.right for one in of_kernel)
            parts.append(f"{right} of {len(of_kernel)} runs of `{kernel}`")
    others = [one for _, one in ours if not one.right]
    hidden = sum(not one.fault for one in others)
    rest = f" Of the others {hidden} are without fault." if others else ""
    return f"Right are {', '.join(parts)}.{rest}"


def _row(posterior: str, kernel: str, scores: list[Score]) -> list[str]:
    ratios = [ratio for one in scores for ratio in one.ratios]
    faults = [one.fault for one in scores if one.fault]
    each = [f"{fault} {faults.count(fault)}" for fault in dict.fromkeys(faults)]
    return [
        posterior,
        kernel,
        f"{sum(one.right for one in scores)} of {len(scores)}",
        f"{max(one.error for one in scores):.3f}",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        f"{max(one.rhat for one in scores):.3f}",
        "" if kernel == REFERENCE else ", ".join(each) or "none",
        f"{np.median([one.gradients for one in scores]) / 1000:,.0f}",
        f"{np.median([one.seconds for one in scores]):.0f}",
    ]


def _verdicts(ours: list[tuple[str, Score]]) -> str:
    rows = []
    for kernel in (*KERNELS, "all"):
        of_kernel = [one for name, one in ours if kernel in (name, "all")]
        if not of_kernel:
            continue
        cells = [
            sum(one.wrong is wrong and bool(one.fault) is bad for one in of_kernel)
            for wrong in (False, True)
            for bad in (False, True)
        ]
        rows.append([kernel, *map(str, cells)])
    header = ["kernel", "right, faultless", "right, bad", "wrong, faultless", "wrong, bad"]
    return markdown_table(header, rows)
