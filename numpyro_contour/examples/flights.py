"""Three million flights in the United States: fetched once, checked, and kept in a small file.

A random sample of 10,000 of them is shipped, so that examples run without a network.
"""

from __future__ import annotations

import importlib.util
import io
import tarfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from numpyro_contour import checks
from numpyro_contour.examples.datasets import cache_folder, download, keep, read_columns

URL = "https://registry.npmjs.org/vega-datasets/-/vega-datasets-3.2.1.tgz"
SHA256 = "6f72fda460a9863fae5fcb32f85bcd49e1761fdea6dc6cf9f4962472881cc5a3"
MEMBER = "package/data/flights-3m.parquet"
#: number of rows in the archive, and in the sample that is shipped
ROWS, SAMPLE_ROWS = 3_000_000, 10_000
#: a flight is late if it arrives more than this many minutes after its time
LATE = 15
#: columns of the regression
COLUMNS = (
    "intercept",
    "log distance",
    "log distance squared",
    "sin 24 h",
    "cos 24 h",
    "sin 12 h",
    "cos 12 h",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
)


class Flights(NamedTuple):
    """Flights from January to June 2001, integers, (rows,) each."""

    #: minute of the day, local time, at which the flight departed
    minute: np.ndarray
    #: day of the year of its departure, 1 for January 1st, a Monday
    day: np.ndarray
    #: distance in miles
    distance: np.ndarray
    #: how many minutes after its time the flight arrived, negative if early
    delay: np.ndarray

    @property
    def weekday(self) -> np.ndarray:
        """0 for Monday."""
        return (self.day.astype(int) - 1) % 7

    @property
    def late(self) -> np.ndarray:
        """1 where the flight arrived more than 15 minutes late, else 0."""
        return (self.delay > LATE).astype(np.int32)


def fetch() -> Path:
    """The compact file of all flights, made from the archive of vega-datasets if it does not exist.

    Returns:
        Its path in `cache_folder()`. The file has 14 MB and holds the arrays of `Flights`, for
        `numpy.load`.

    Raises:
        ImportError: pandas has no library to read Parquet.
        ValueError: the archive is not the expected one.
        OSError: there is no network.
    """
    path = cache_folder() / "flights-3m.npz"
    if path.exists():
        return path
    if importlib.util.find_spec("pyarrow") is None:
        raise ImportError(
            "The archive of flights is in Parquet, which takes pyarrow: `pip install pyarrow`. "
            f"Up to {SAMPLE_ROWS:,} rows are shipped and need neither it nor a network."
        )
    archive = download(URL, SHA256)
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        member = members.extractfile(MEMBER)
        assert member is not None
        flights = from_parquet(member.read())
    keep(path, **flights._asdict())
    return path


def from_parquet(file: bytes) -> Flights:
    """The columns that are used, from a Parquet file of vega-datasets."""
    import pandas as pd

    table = pd.read_parquet(io.BytesIO(file), columns=["date", "delay", "distance"])
    date = table["date"].dt
    return Flights(
        minute=(60 * date.hour + date.minute).to_numpy(np.int16),
        day=date.day_of_year.to_numpy(np.int16),
        distance=table["distance"].to_numpy(np.int16),
        delay=table["delay"].to_numpy(np.int16),
    )


def load(num_rows: int | None = None, seed: int = 0) -> Flights:
    """Flights in the United States from January to June 2001, in random order.

    Args:
        num_rows: number of flights. Up to 10,000 are taken from the sample that is shipped; more
            are taken from the archive, which is fetched the first time. None (default) for all
            3,000,000.
        seed: seed of the choice. Defaults to 0.

    Returns:
        The `Flights`.

    Raises:
        ValueError: there are fewer rows; also as in `fetch`.

    Example:
        >>> from numpyro_contour.examples.flights import load
        >>> flights = load(5000)
        >>> len(flights.delay), int(flights.minute.max()) < 1440
        (5000, True)
    """
    num_rows = ROWS if num_rows is None else checks.integer("num_rows", num_rows, at_least=1)
    if num_rows <= SAMPLE_ROWS:
        columns = list(read_columns("flights").values())
    else:
        with np.load(fetch()) as arrays:
            columns = [arrays[name] for name in Flights._fields]
    rows = len(columns[0])
    if num_rows > rows:
        raise checks.fail("num_rows", num_rows, f"at most {rows}")
    chosen = np.random.default_rng(seed).permutation(rows)[:num_rows]
    return Flights(*(column[chosen].astype(np.int16) for column in columns))


def design(minute: np.ndarray, weekday: np.ndarray, distance: np.ndarray) -> np.ndarray:
    r"""Columns of the regression.

    .. math:: 1,\; l,\; l^2,\; \sin\phi,\; \cos\phi,\; \sin 2\phi,\; \cos 2\phi,\;
              [\text{Tuesday}], \dots, [\text{Sunday}]; \quad
              l = \log(\text{distance} / 700),\; \phi = 2\pi\, \text{minute} / 1440

    Args:
        minute: minute of the day, (rows,).
        weekday: day of the week, 0 for Monday, (rows,).
        distance: distance in miles, (rows,).

    Returns:
        A float32 array, (rows, 13), with the names `COLUMNS`.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.examples.flights import design
        >>> design(np.array([0]), np.array([1]), np.array([700])).tolist()
        [[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]
    """
    angle = 2 * np.pi * np.asarray(minute, float) / 1440
    far = np.log(np.maximum(distance, 1.0) / 700.0)
    days = [(weekday == day).astype(float) for day in range(1, 7)]
    waves = [np.sin(angle), np.cos(angle), np.sin(2 * angle), np.cos(2 * angle)]
    return np.stack([np.ones_like(far), far, far**2, *waves, *days], axis=1).astype(np.float32)


def regression(flights: Flights) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and target of a logistic regression of late arrivals.

    Args:
        flights: the flights.

    Returns:
        `(x, y)`: the inputs of `design`, (rows, 13), and 1 where a flight was late, (rows,).

    Example:
        >>> from numpyro_contour.examples.flights import load, regression
        >>> x, y = regression(load(5000))
        >>> x.shape, y.shape
        ((5000, 13), (5000,))
    """
    return design(flights.minute, flights.weekday, flights.distance), flights.late


def normal_approximation(
    x: np.ndarray, y: np.ndarray, prior_sd: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""The mode of a logistic regression, and the standard deviations of a normal at the mode.

    .. math:: \beta \sim N(0, s^2 I), \quad y_i \sim \text{Bernoulli}(1 / (1 + e^{-x_i^\top \beta}))

    It is found by Newton's method in float64. With very many rows the posterior is normal, up to
    differences that no draws could show (Bernstein and von Mises).

    Args:
        x: inputs, (rows, columns).
        y: 0 or 1, (rows,).
        prior_sd: s > 0.

    Returns:
        `(mode, sd)`: the mode and the standard deviations, (columns,) each.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.examples.flights import normal_approximation
        >>> mode, sd = normal_approximation(np.ones((100, 1)), np.arange(100) % 2, prior_sd=10.0)
        >>> mode.round(6).tolist(), sd.round(2).tolist()
        ([0.0], [0.2])
    """
    beta = np.zeros(x.shape[1])
    for _ in range(30):
        gradient, hessian = -beta / prior_sd**2, np.eye(len(beta)) / prior_sd**2
        for part in range(0, len(y), 200_000):
            rows = x[part : part + 200_000].astype(np.float64)
            p = 1 / (1 + np.exp(-rows @ beta))
            gradient += rows.T @ (y[part : part + 200_000] - p)
            hessian += (rows * (p * (1 - p))[:, None]).T @ rows
        step = np.linalg.solve(hessian, gradient)
        beta += step
        if np.abs(step).max() < 1e-10:
            break
    return beta, np.sqrt(np.diag(np.linalg.inv(hessian)))
