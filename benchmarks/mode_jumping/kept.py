"""Figures kept as JSON beside the page, row by row, so that runs can be resumed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def _all(folder: Path) -> dict[str, dict[str, Any]]:
    place = _place(folder)
    return json.loads(place.read_text()) if place.exists() else {}


def _place(folder: Path) -> Path:
    return folder / "peers" / "mode-jumping.json"


@dataclass(frozen=True)
class Kept:
    """The rows of one part of the section."""

    part: str
    folder: Path
    #: prefixes of the rows that are measured, each the name of a part, a colon and that of a row
    only: tuple[str, ...] = ("",)

    def wants(self, row: str) -> bool:
        """Whether a row is to be measured."""
        return f"{self.part}: {row}".startswith(self.only)

    @property
    def rows(self) -> dict[str, Any]:
        """The rows that are kept, by name."""
        return _all(self.folder).get(self.part, {})

    def put(self, row: str, found: dict[str, Any]) -> None:
        """Add a row, or put it in place of the old one, and print it."""
        print(f"{self.part}: {row}: {found}", flush=True)
        short = json.loads(json.dumps(found), parse_float=lambda text: float(f"{float(text):.4g}"))
        parts = _all(self.folder)
        parts[self.part] = parts.get(self.part, {}) | {row: short}
        lines = [
            f"{json.dumps(part)}: {{\n"
            + ",\n".join(f" {json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
            + "\n}"
            for part, rows in parts.items()
        ]
        place = _place(self.folder)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("{\n" + ",\n".join(lines) + "\n}\n")
