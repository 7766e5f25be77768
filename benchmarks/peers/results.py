"""Results on each posterior, kept as JSON beside the page, so that a run can be resumed."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.measure import Compared
from benchmarks.peers.methods import Method, Outcome
from benchmarks.peers.target import Target


def place_of(target: Target, folder: Path) -> Path:
    """The file of a posterior's results."""
    return folder / "peers" / f"{re.sub(r'[^a-z0-9]+', '-', target.name.lower())}.json"


def _short(value: np.ndarray | float) -> Any:
    """Round to five digits, more than runs agree in."""
    if isinstance(value, np.ndarray):
        return [_short(element) for element in value.tolist()]
    return float(f"{value:.5g}")


def _plain(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    values = {field.name: getattr(outcome, field.name) for field in dataclasses.fields(outcome)}
    method = dataclasses.asdict(values.pop("method"))
    method.pop("draw")
    return {"method": method, **{name: _short(value) for name, value in values.items()}}


def _outcome(plain: dict[str, Any] | None) -> Outcome | None:
    if plain is None:
        return None
    method = Method(draw=None, **plain["method"])
    values = {k: np.array(v) if isinstance(v, list) else v for k, v in plain.items()}
    return Outcome(**{**values, "method": method})


@dataclasses.dataclass(frozen=True)
class Kept:
    """The results of all methods on a posterior."""

    found: dict[str, Compared]
    #: the errors of those that failed
    failed: list[str]
    #: the versions of the packages
    made_with: str
    #: methods that were run again after the others
    again: tuple[str, ...] = ()


def keep(target: Target, results: Kept, folder: Path) -> None:
    """Write the results of all methods on a posterior."""
    rows = {
        name: {field: _plain(outcome) for field, outcome in vars(row).items()}
        for name, row in results.found.items()
    }
    kept = {
        "target": target.name,
        "made_with": results.made_with,
        "failed": results.failed,
        "again": list(results.again),
        "methods": rows,
    }
    path = place_of(target, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(kept, indent=1)
    # A list on one line.
    text = re.sub(r"\[[^\[\]{}\"]*\]", lambda found: " ".join(found[0].split()), text)
    path.write_text(text + "\n")


def kept_of(target: Target, folder: Path) -> Kept | None:
    """The results that `keep` wrote; None if there is no file."""
    path = place_of(target, folder)
    if not path.exists():
        return None
    kept = json.loads(path.read_text())
    found = {}
    for name, row in kept["methods"].items():
        first = _outcome(row["equal_gradients"])
        assert first is not None
        found[name] = Compared(first, _outcome(row["equal_seconds"]))
    return Kept(found, kept["failed"], kept["made_with"], tuple(kept.get("again", ())))
