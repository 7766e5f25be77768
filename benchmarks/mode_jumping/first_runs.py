"""First runs of small models, beside NUTS alone: seconds from the start, memory, the search."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.mode_jumping.kept import Kept
from benchmarks.shared.tables import markdown_table

PAIRS = 5
MODELS = "eight schools", "logistic 1,000 x 8", "mixture of 100 rows"
KERNELS = "NUTS", "ModeJumping"


def first(kernel: str, model: str, draws: int) -> dict[str, Any]:
    """What a process takes, from its start to its end."""
    command = [sys.executable, "-m", "benchmarks.cost.first_run", kernel, model, str(draws)]
    began = time.perf_counter()
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(ran.stdout.splitlines()[-1]) | {"seconds": time.perf_counter() - began}


def fill(kept: Kept, quick: bool) -> None:
    """Measure the models that are wanted, the kernels in turns."""
    for model in MODELS[:1] if quick else MODELS:
        if not kept.wants(model):
            continue
        found: dict[str, list[dict[str, Any]]] = {kernel: [] for kernel in KERNELS}
        for pair in range(1 if quick else PAIRS):
            for kernel in KERNELS[:: 1 if pair % 2 else -1]:
                found[kernel].append(first(kernel, model, 20 if quick else 1000))
        row: dict[str, Any] = {
            f"{name} of {kernel}": statistics.median(one[name] for one in found[kernel])
            for kernel in KERNELS
            for name in ("seconds", "peak")
        }
        pairs = zip(found["ModeJumping"], found["NUTS"])
        ratios = [[ours[n] / theirs[n] for n in ("seconds", "peak")] for ours, theirs in pairs]
        row["ratio"], row["of memory"] = map(statistics.median, zip(*ratios))
        ours = found["ModeJumping"]
        row["search"] = {
            part: statistics.median(one["search"][part] for one in ours)
            for part in ours[0]["search"]
        }
        kept.put(model, row | {name: ours[0][name] for name in ("modes", "gradients")})


def text(rows: dict[str, dict[str, Any]]) -> str:
    """The text and its table."""
    lines = [
        [
            name,
            *(f"{row[f'seconds of {kernel}']:.1f}" for kernel in KERNELS),
            f"{row['ratio']:.2f}",
            *(f"{row[f'peak of {kernel}'] / 2**30:.2f}" for kernel in KERNELS),
            f"{row['of memory']:.2f}",
            f"{row['modes']}",
            f"{row['gradients']:,}",
            *(f"{row['search'][part]:.2f}" for part in ("trace", "compile", "search")),
        ]
        for name, row in rows.items()
    ]
    return (
        "### The first run\n\nWhole processes with imports, without JAX's cache of compiled "
        f"programs, 4 vectorised chains of 1000 + 1000 draws; medians of {PAIRS} pairs that take "
        "turns, on two cores. Of the search: seconds to trace its program; to wait for it, which "
        "is compiled while NUTS is initialised; and to run it.\n\n"
        + markdown_table(
            [
                *("model", "NUTS, s", "ModeJumping, s", "ratio", "NUTS, GiB", "ModeJumping, GiB"),
                *("ratio of memory", "modes", "gradients of the search", "trace", "wait", "search"),
            ],
            lines,
        )
    )
