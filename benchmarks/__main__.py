"""Run the benchmarks and write their page of the docs: `python -m benchmarks [name ...]`."""

from __future__ import annotations

import argparse

from benchmarks import (
    coverage,
    crossings,
    defaults,
    diagnose,
    family,
    mixture,
    modes_of_rows,
    moving_theta,
    nine_modes,
    sensitivity,
    step_cost,
    subsampling,
)
from benchmarks.page import DOCS, write_section

BENCHMARKS = {
    "mixture": mixture,
    "nine_modes": nine_modes,
    "family": family,
    "defaults": defaults,
    "sensitivity": sensitivity,
    "subsampling": subsampling,
    "modes_of_rows": modes_of_rows,
    "crossings": crossings,
    "moving_theta": moving_theta,
    "coverage": coverage,
    "diagnose": diagnose,
    "step_cost": step_cost,
}
HEAD = "# Benchmarks\n\nMade by `make benchmark`.\n\n"


def main() -> None:
    """Write docs/benchmarks.md, each section as soon as it is there, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="all if none is named")
    names = parser.parse_args().names or list(BENCHMARKS)
    for name in names:
        text = BENCHMARKS[name].main()
        page = DOCS / "benchmarks.md"
        print(write_section(page, HEAD, BENCHMARKS, name, text), flush=True)


if __name__ == "__main__":
    main()
