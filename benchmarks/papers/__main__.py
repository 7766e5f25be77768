"""Reproduce the papers' experiments: `python -m benchmarks.papers [name ...] [--quick]`."""

from __future__ import annotations

from benchmarks.papers.harness import write_page

#: experiments in the order of the page, each a module of this package
NAMES = ("mixture", "nine_modes", "uci", "replica_exchange", "peaks")
HEAD = """\
# The papers' experiments

Made by `make benchmark`; `python -m benchmarks.papers [name ...]` makes single sections, with
`--quick` in short form. Every number is printed by the scripts in `benchmarks/papers`.

"""


def main(argv: list[str] | None = None) -> None:
    """Write docs/papers.md."""
    write_page(
        argv, __doc__, "papers.md", HEAD, {name: f"benchmarks.papers.{name}" for name in NAMES}
    )


if __name__ == "__main__":
    main()
