"""Archives of published packages, and the folder where what is made of them is kept."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np


def cache_folder() -> Path:
    """Where fetched data are kept: NUMPYRO_CONTOUR_DATA, or a folder of the user's cache."""
    default = Path.home() / ".cache" / "numpyro_contour"
    return Path(os.environ.get("NUMPYRO_CONTOUR_DATA", default))


def download(url: str, sha256: str) -> bytes:
    """An archive, checked.

    Raises:
        ValueError: it is not the expected one.
        OSError: there is no network.
    """
    with urllib.request.urlopen(url, timeout=60) as answer:
        archive = answer.read()
    found = hashlib.sha256(archive).hexdigest()
    if found != sha256:
        raise ValueError(f"The archive {url} has the SHA-256 {found} in place of {sha256}.")
    return archive


def keep(path: Path, **arrays: Any) -> None:
    """Write arrays to a file for `numpy.load`, which is complete as soon as it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The file has another name until it is complete, so an interrupted run leaves no partial file.
    part = path.with_name(f"{os.getpid()}-{path.name}")
    np.savez_compressed(part, **arrays)
    part.replace(path)
