"""What the experiments share: how long they are, and where their figures go."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from matplotlib.figure import Figure

from benchmarks.page import DOCS, write_section

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


def write_page(
    argv: list[str] | None, description: str, name: str, head: str, modules: dict[str, str]
) -> None:
    """Write a page of the docs and its figures, each section as soon as it is there, and print it.

    Args:
        argv: the arguments of the command line, None for the program's own.
        description: what its help says.
        name: the page's file.
        head: what stands before the sections.
        modules: the modules of the experiments by the names of their sections, in their order.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("names", nargs="*", choices=[[], *modules], help="all if none is named")
    parser.add_argument("--quick", action="store_true", help="short form, to see that it runs")
    parser.add_argument("--output", type=Path, default=DOCS, help="folder of the page")
    arguments = parser.parse_args(argv)
    experiment = Experiment(arguments.output, arguments.quick)
    for section in arguments.names or modules:
        text = import_module(modules[section]).main(experiment)
        page = arguments.output / name
        print(write_section(page, head, modules, section, text), flush=True)
