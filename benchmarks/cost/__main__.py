"""Measure what a step costs: `python -m benchmarks.cost [name ...] [--quick]`."""

from __future__ import annotations

from benchmarks.papers.harness import write_page

#: experiments in the order of the page, each a module of this package
NAMES = ("steps", "chains", "numpy_rule", "compiling", "memory")
HEAD = """\
# What a step costs

Made by `make benchmark`; `python -m benchmarks.cost [name ...]` makes single sections, with
`--quick` in short form. Every number is printed by the scripts in `benchmarks/cost`. Methods that
are compared take turns in one process, so that a busy machine slows all of them.

"""


def main(argv: list[str] | None = None) -> None:
    """Write docs/cost.md."""
    write_page(argv, __doc__, "cost.md", HEAD, {name: f"benchmarks.cost.{name}" for name in NAMES})


if __name__ == "__main__":
    main()
