"""What the experiments share: how long they are, and where their figures go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from matplotlib.figure import Figure

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Experiment:
    """How an experiment is to be run.

    An experiment is a module with `main(experiment) -> str`, its section of the page.
    """

    #: folder of the page, for figures
    folder: Path
    #: whether it only has to show that it runs, in some seconds
    quick: bool = False

    def choose(self, full: Choice, quick: Choice) -> Choice:
        """The paper's number, or that of the quick form."""
        return quick if self.quick else full

    def save(self, figure: Figure, name: str, alternative: str) -> str:
        """Write a figure, and return its line of the page."""
        path = self.folder / "figures" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=80, bbox_inches="tight")
        return f"![{alternative}](figures/{path.name})\n"
