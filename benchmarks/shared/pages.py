"""Pages of the docs, to which each benchmark writes one section."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path

import jax
import numpyro

DOCS = Path(__file__).parents[2] / "docs"


def made_with() -> str:
    """A sentence with the machine and the versions."""
    device = jax.devices()[0]
    return (
        f"Made with jax {jax.__version__}, numpyro {numpyro.__version__}, Python "
        f"{platform.python_version()}, {device.platform}, {os.cpu_count()} cores."
    )


def sections_of(page: str) -> dict[str, str]:
    """The sections that the page has so far, by the names of their benchmarks."""
    return dict(re.findall(r"<!-- (\w+) -->\n(.*?)(?=<!-- |\Z)", page, flags=re.DOTALL))


def write_section(page: Path, head: str, order: Iterable[str], name: str, text: str) -> str:
    """Put a section in its place on a page, and return it as written."""
    section = f"{text.rstrip()}\n\n{made_with()}\n\n"
    # The page is read again each time, since another run may have written a section meanwhile.
    sections = sections_of(page.read_text()) if page.exists() else {}
    sections[name] = section
    parts = [f"<!-- {n} -->\n{sections[n]}" for n in order if n in sections]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(head + "".join(parts))
    return section
