"""Ranks, kept as JSON beside the page, so that a model can be run again alone."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

from benchmarks.calibration.ranks import Ranks


def place_of(name: str, folder: Path) -> Path:
    """The file of a model's ranks."""
    short = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return folder / "calibration" / f"{short}.json"


def keep(name: str, ranks: Ranks, folder: Path) -> None:
    """Write the ranks of a model."""
    path = place_of(name, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dataclasses.asdict(ranks), indent=1)
    # A list on one line.
    text = re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text)
    path.write_text(text + "\n")


def kept_of(name: str, folder: Path) -> Ranks | None:
    """The ranks that `keep` wrote; None if there is no file."""
    path = place_of(name, folder)
    return Ranks(**json.loads(path.read_text())) if path.exists() else None
