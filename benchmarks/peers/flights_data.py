"""Three million flights in the United States, fetched once and checked."""

from __future__ import annotations

import hashlib
import os
import tarfile
import urllib.request
from pathlib import Path

import numpy as np

URL = "https://registry.npmjs.org/vega-datasets/-/vega-datasets-3.2.1.tgz"
SHA256 = "6f72fda460a9863fae5fcb32f85bcd49e1761fdea6dc6cf9f4962472881cc5a3"
MEMBER = "package/data/flights-3m.parquet"
#: a flight is late with more than so many minutes
LATE = 15
COLUMNS = 13


def cache_folder() -> Path:
    """Where fetched data are kept: NUMPYRO_CONTOUR_DATA, or a folder of the user's cache."""
    default = Path.home() / ".cache" / "numpyro_contour"
    return Path(os.environ.get("NUMPYRO_CONTOUR_DATA", default))


def fetch() -> Path:
    """The file of flights, from the archive of vega-datasets if it is not there yet."""
    path = cache_folder() / "flights-3m.parquet"
    if path.exists():
        return path
    with urllib.request.urlopen(URL, timeout=60) as answer:
        archive = answer.read()
    found = hashlib.sha256(archive).hexdigest()
    if found != SHA256:
        raise ValueError(f"The archive {URL} has the SHA-256 {found} in place of {SHA256}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    packed = path.with_suffix(".tgz")
    packed.write_bytes(archive)
    with tarfile.open(packed) as members:
        member = members.extractfile(MEMBER)
        assert member is not None
        path.write_bytes(member.read())
    packed.unlink()
    return path


def design(minutes: np.ndarray, weekday: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Columns of the regression, (rows, 13).

    Args:
        minutes: minute of the day.
        weekday: 0 for Monday.
        distance: miles.
    """
    angle = 2 * np.pi * minutes / 1440
    far = np.log(np.maximum(distance, 1.0) / 700.0)
    days = [(weekday == day).astype(float) for day in range(1, 7)]
    waves = [np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)]
    return np.stack([np.ones_like(far), far, far**2, *waves, *days], axis=1).astype(np.float32)


def flights() -> tuple[np.ndarray, np.ndarray]:
    """Inputs and whether each flight was late."""
    import pandas as pd

    table = pd.read_parquet(fetch(), columns=["date", "delay", "distance"])
    date = table["date"].dt
    minutes = (60 * date.hour + date.minute).to_numpy(float)
    x = design(minutes, date.weekday.to_numpy(), table["distance"].to_numpy(float))
    return x, (table["delay"].to_numpy() > LATE).astype(np.int32)


def simulated(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the same kind that need no network."""
    rng = np.random.default_rng(0)
    x = design(
        rng.uniform(300, 1440, rows), rng.integers(0, 7, rows), np.exp(rng.normal(6.3, 0.6, rows))
    )
    slopes = np.r_[-1.5, rng.normal(0, 0.3, COLUMNS - 1)]
    return x, (rng.uniform(size=rows) < 1 / (1 + np.exp(-x @ slopes))).astype(np.int32)
