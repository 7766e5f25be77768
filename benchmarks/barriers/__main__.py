"""Measure how far `barrier` goes: `python -m benchmarks.barriers [name ...] [--quick]`."""

from __future__ import annotations

from benchmarks.papers.harness import write_page

#: experiments in the order of the page, each a module of this package
NAMES = ("two_normals", "unequal", "gaussians", "gain", "time", "step")
HEAD = """\
# Barriers of hundreds of nats

Made by `make benchmark`; `python -m benchmarks.barriers [name ...]` makes single sections, with
`--quick` in short form. Every number is printed by the scripts in `benchmarks/barriers`.
[Which sampler?](which.md) says when to state a `barrier`, [Warm-up](choosing.md) what it decides.

A crossing is a change of mode from a draw to the next, so that crossings within the steps of one
draw are not seen. Half of the gradients are warm-up, and only the draws after it count.

"""


def main(argv: list[str] | None = None) -> None:
    """Write docs/barriers.md."""
    modules = {name: f"benchmarks.barriers.{name}" for name in NAMES}
    write_page(argv, __doc__, "barriers.md", HEAD, modules)


if __name__ == "__main__":
    main()
