"""Figures kept as JSON beside the page: runs by posterior and method."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.clock.exact import masses_of
from benchmarks.peers.clock.methods import METHODS
from benchmarks.peers.clock.posteriors import POSTERIORS
from benchmarks.shared.tables import total_variation

Runs = list[dict[str, Any]]
#: runs by method, by posterior
Rows = dict[str, dict[str, Runs]]
#: in place of a posterior: the first run of NUTS on eight schools, which says how fast a machine is
YARDSTICK = "eight schools"


def _place(folder: Path) -> Path:
    return folder / "peers" / "by-the-clock.json"


def kept_in(folder: Path) -> Rows:
    """The runs that are kept."""
    place = _place(folder)
    return json.loads(place.read_text()) if place.exists() else {}


def keep(posterior: str, found: dict[str, Runs], folder: Path) -> None:
    """Add the runs of methods on a posterior, or put them in place of the old ones."""
    short = json.loads(json.dumps(found), parse_float=lambda text: float(f"{float(text):.4g}"))
    rows = kept_in(folder)
    runs = rows.get(posterior, {}) | short
    rows[posterior] = {name: runs[name] for name in METHODS if name in runs}
    parts = []
    for name in (YARDSTICK, *POSTERIORS):
        if name in rows:
            lines = (f" {json.dumps(m)}: {json.dumps(runs)}" for m, runs in rows[name].items())
            parts.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    place = _place(folder)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def variation_of(errors: np.ndarray) -> float:
    """The total variation to be expected of masses with these standard errors, if normal."""
    return float(np.sqrt(2 / np.pi) * np.sum(errors) / 2)


class Summary:
    """The runs of a method on a posterior: the mean of their errors, and medians of the rest.

    The mean, since chains that stay where they began are right now and then by chance.

    Attributes:
        failed: why there are none, if a run has failed; otherwise None.
        seconds: from the start of the process to the masses of the modes.
        error: total variation of the masses.
        reported: the same as the package's own errors predict it; None if it gives none.
        evaluations: evaluations of the density or of its gradient; None if they are not known.
        peak: resident memory in bytes.
    """

    def __init__(self, posterior: str, runs: Runs) -> None:
        failures = [run["failed"] for run in runs if "failed" in run]
        self.failed = failures[0] if failures else None
        if failures:
            return
        exact = masses_of(posterior)
        self.seconds = statistics.median(run["seconds"] for run in runs)
        self.error = statistics.fmean(
            float(total_variation(np.array(run["masses"]), exact)) for run in runs
        )
        self.reported = _median([_reported(run["errors"]) for run in runs])
        self.evaluations = _median([run["evaluations"] for run in runs])
        self.peak = statistics.median(run["peak"] for run in runs)


def _reported(errors: list[float | None] | None) -> float | None:
    """The predicted variation; None where a mass has no error."""
    if errors is None or None in errors:
        return None
    each = np.array(errors, float)
    return variation_of(each) if np.isfinite(each).all() else None


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if len(known) == len(values) else None
