"""Measure what a step costs: `python -m benchmarks.cost [name ...] [--quick]`."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from benchmarks.page import DOCS, write_section
from benchmarks.papers.harness import Experiment

#: experiments in the order of the page, each a module of this package
NAMES = ("steps", "chains", "numpy_rule", "compiling", "memory")
HEAD = """\
# What a step costs

Made by `make benchmark`; `python -m benchmarks.cost [name ...]` makes single sections, with
`--quick` in short form. Every number is printed by the scripts in `benchmarks/cost`. Methods that
are compared take turns in one process, so that a busy machine slows all of them.

"""


def main(argv: list[str] | None = None) -> None:
    """Write docs/cost.md, each section as soon as it is there, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], help="all if none is named")
    parser.add_argument("--quick", action="store_true", help="short form, to see that it runs")
    parser.add_argument("--output", type=Path, default=DOCS, help="folder of the page")
    arguments = parser.parse_args(argv)
    experiment = Experiment(arguments.output, arguments.quick)
    for name in arguments.names or NAMES:
        text = import_module(f"benchmarks.cost.{name}").main(experiment)
        page = arguments.output / "cost.md"
        print(write_section(page, HEAD, NAMES, name, text), flush=True)


if __name__ == "__main__":
    main()
