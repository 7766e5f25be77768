"""Run the benchmarks and write their pages: `python -m benchmarks [NAME ...] [--quick] [--list]`.

A NAME is that of one benchmark (`cost.steps`), its last part (`steps`), or a question (`cost`).
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from tempfile import mkdtemp

from benchmarks.catalogue import BENCHMARKS, HEADS
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.pages import DOCS, write_section


def named(given: str) -> list[str]:
    """The benchmarks that a word of the command line selects."""
    return [name for name in BENCHMARKS if given in (name, *name.split("."))]


def run(name: str, experiment: Experiment) -> None:
    """Write a benchmark's section of its page, or its figures, and print it."""
    page = BENCHMARKS[name].page
    text = import_module(f"benchmarks.{name}").main(experiment)
    if page is not None:
        order = [key.split(".")[-1] for key, row in BENCHMARKS.items() if row.page == page]
        section = name.split(".")[-1]
        text = write_section(experiment.folder / page, HEADS[page], order, section, text)
    print(text, flush=True)


def main(argv: list[str] | None = None) -> None:
    """Run the named benchmarks, or all, and write each section as soon as it is done."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="all if none is named")
    parser.add_argument("--list", action="store_true", help="print all names and their questions")
    parser.add_argument("--quick", action="store_true", help="short form, to check that it runs")
    parser.add_argument(
        "--output", type=Path, help="folder of the pages: docs, or a new one for the short form"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[""],
        metavar="START",
        help="for benchmarks that keep their results row by row (peers.posteriors, known_modes, "
        "curves, coverage, mode_jumping and by_the_clock, calibration, posteriordb, "
        "cost.accelerator): measure those with these prefixes, keep the others",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        default=[""],
        metavar="START",
        help="for peers.posteriors, peers.by_the_clock and posteriordb: run the methods with these "
        "prefixes, keep the others' results",
    )
    arguments = parser.parse_args(argv)
    names = list(dict.fromkeys(name for given in arguments.names for name in named(given)))
    for given in arguments.names:
        if not named(given):
            parser.error(f"no benchmark is called {given}; --list prints all")
    by_method = (["peers.posteriors"], ["peers.by_the_clock"], ["posteriordb"])
    by_row = (*by_method, ["calibration"], ["cost.accelerator"])
    by_row += tuple(
        [f"peers.{name}"] for name in ("known_modes", "curves", "coverage", "mode_jumping")
    )
    if arguments.only != [""] and names not in by_row:
        parser.error(f"--only goes with one of {', '.join(name for (name,) in by_row)}, alone")
    if arguments.methods != [""] and names not in by_method:
        parser.error(
            f"--methods goes with one of {', '.join(name for (name,) in by_method)}, alone"
        )
    if arguments.list:
        for name, (page, question) in BENCHMARKS.items():
            print(f"{name:26}{page or 'docs':15}{question}")
        return
    folder = arguments.output or (Path(mkdtemp()) if arguments.quick else DOCS)
    for name in names or BENCHMARKS:
        only, methods = tuple(arguments.only), tuple(arguments.methods)
        run(name, Experiment(folder, arguments.quick, only, methods))


if __name__ == "__main__":
    main()
