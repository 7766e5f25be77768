"""Run all benchmarks and write their page of the docs."""

from __future__ import annotations

import platform
from pathlib import Path

import jax
import numpyro

from benchmarks import mixture, nine_modes, step_cost

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def main() -> None:
    """Write docs/benchmarks.md and print it."""
    text = (
        "# Benchmarks\n\nMade by `make benchmark`: "
        f"jax {jax.__version__}, numpyro {numpyro.__version__}, Python "
        f"{platform.python_version()}, {jax.devices()[0].platform}.\n\n"
    )
    for benchmark in (mixture, nine_modes, step_cost):
        text += benchmark.main() + "\n"
        print(text[-2000:], flush=True)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
