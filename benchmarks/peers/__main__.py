"""Compare with peers: `python -m benchmarks.peers [name ...] [--quick]`."""

from __future__ import annotations

from benchmarks.papers.harness import write_page

#: sections in the order of the page, and their modules
SECTIONS = {"posteriors": "benchmarks.peers.posteriors", "flights": "benchmarks.peers.flights"}
HEAD = """\
# Peers at equal work

Made by `make benchmark`; `python -m benchmarks.peers [name ...]` makes single sections, with
`--quick` in short form. Every number is printed by the scripts in `benchmarks/peers`; the errors
of all runs are kept in `docs/peers`, and `python -m benchmarks.peers.posteriors [name ...]`
measures single posteriors anew.

"""


def main(argv: list[str] | None = None) -> None:
    """Write docs/peers.md."""
    write_page(argv, __doc__, "peers.md", HEAD, SECTIONS)


if __name__ == "__main__":
    main()
