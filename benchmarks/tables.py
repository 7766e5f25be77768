"""Tables and the few statistics that the benchmarks share."""

from __future__ import annotations

import numpy as np


def markdown_table(header: list[str], rows: list[list[str]]) -> str:
    """A table in markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def total_variation(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Total variation between distributions along the last axis."""
    return 0.5 * np.abs(a - b).sum(-1)
