"""Compare with peers: `python -m benchmarks.peers [name ...] [--quick]`."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from benchmarks.page import DOCS, write_section
from benchmarks.papers.harness import Experiment

#: sections in the order of the page, and their modules
SECTIONS = {"posteriors": "benchmarks.peers", "flights": "benchmarks.peers.flights"}
HEAD = """\
# Peers at equal work

Made by `make benchmark`; `python -m benchmarks.peers [name ...]` makes single sections, with
`--quick` in short form. Every number is printed by the scripts in `benchmarks/peers`.

"""


def main(argv: list[str] | None = None) -> None:
    """Write docs/peers.md and its figures, each section as soon as it is there, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *SECTIONS], help="all if none is named")
    parser.add_argument("--quick", action="store_true", help="short form, to see that it runs")
    parser.add_argument("--output", type=Path, default=DOCS, help="folder of the page")
    arguments = parser.parse_args(argv)
    experiment = Experiment(arguments.output, arguments.quick)
    for name in arguments.names or SECTIONS:
        text = import_module(SECTIONS[name]).main(experiment)
        page = arguments.output / "peers.md"
        print(write_section(page, HEAD, SECTIONS, name, text), flush=True)


if __name__ == "__main__":
    main()
