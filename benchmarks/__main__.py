"""Run the benchmarks and write their page of the docs: `python -m benchmarks [name ...]`."""

from __future__ import annotations

import argparse
import platform
import re
from pathlib import Path

import jax
import numpyro

from benchmarks import (
    coverage,
    defaults,
    diagnose,
    family,
    mixture,
    nine_modes,
    sensitivity,
    step_cost,
    subsampling,
)

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
BENCHMARKS = {
    "mixture": mixture,
    "nine_modes": nine_modes,
    "family": family,
    "defaults": defaults,
    "sensitivity": sensitivity,
    "subsampling": subsampling,
    "coverage": coverage,
    "diagnose": diagnose,
    "step_cost": step_cost,
}


def sections_of(page: str) -> dict[str, str]:
    """The sections that the page has so far, by the names of their benchmarks."""
    return dict(re.findall(r"<!-- (\w+) -->\n(.*?)(?=<!-- |\Z)", page, flags=re.DOTALL))


def main() -> None:
    """Write docs/benchmarks.md, each section as soon as it is there, and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="all if none is named")
    names = parser.parse_args().names or list(BENCHMARKS)
    machine = (
        f"jax {jax.__version__}, numpyro {numpyro.__version__}, Python "
        f"{platform.python_version()}, {jax.devices()[0].platform}"
    )
    for name in names:
        section = f"{BENCHMARKS[name].main().rstrip()}\n\nMade with {machine}.\n\n"
        print(section, flush=True)
        # Read anew each time: another run may have written a section meanwhile.
        sections = sections_of(PAGE.read_text()) if PAGE.exists() else {}
        sections[name] = section
        parts = [f"<!-- {n} -->\n{sections[n]}" for n in BENCHMARKS if n in sections]
        PAGE.write_text("# Benchmarks\n\nMade by `make benchmark`.\n\n" + "".join(parts))


if __name__ == "__main__":
    main()
