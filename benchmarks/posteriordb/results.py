"""Scores, kept as JSON beside the page, so that single posteriors and kernels can be run again."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

from benchmarks.posteriordb.scores import Score

#: scores by kernel, one for each seed
Scores = dict[str, list[Score]]


def _place(posterior: str, folder: Path) -> Path:
    return folder / "posteriordb" / f"{posterior}.json"


def keep(posterior: str, scores: Scores, folder: Path) -> None:
    """Write the scores of a posterior."""
    path = _place(posterior, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(_plain(one)) for one in rows) + "\n]"
        for name, rows in scores.items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def kept_of(posterior: str, folder: Path) -> Scores:
    """The scores that `keep` wrote; none where there is no file."""
    path = _place(posterior, folder)
    plain = json.loads(path.read_text()) if path.exists() else {}
    return {
        name: [Score(**{**row, "ratios": tuple(row["ratios"])}) for row in rows]
        for name, rows in plain.items()
    }


def _plain(score: Score) -> dict[str, object]:
    short = lambda x: [short(y) for y in x] if isinstance(x, tuple) else float(f"{x:.4g}")
    plain = dataclasses.asdict(score)
    return {name: x if isinstance(x, str | int) else short(x) for name, x in plain.items()}
