"""How a benchmark is run, and where its figures go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from matplotlib.figure import Figure

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Experiment:
    """How to run a benchmark.

    A benchmark is a module with `main(experiment) -> str`, its section of a page.
    """

    #: folder of the page, for figures
    folder: Path
    #: whether to run a short form that takes seconds, to check that it works
    quick: bool = False
    #: prefixes of the rows to measure, for benchmarks that keep their results row by row
    only: tuple[str, ...] = ("",)
    #: prefixes of the methods to measure, for those that also keep them method by method
    methods: tuple[str, ...] = ("",)

    def choose(self, full: Choice, quick: Choice) -> Choice:
        """The full size, or the size of the quick form."""
        return quick if self.quick else full

    def save(self, figure: Figure, name: str, alternative: str, **options: object) -> str:
        """Write a figure, and return its line of the page."""
        path = self.folder / "figures" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, **{"dpi": 80, "bbox_inches": "tight", **options})
        return f"![{alternative}](figures/{path.name})\n"
