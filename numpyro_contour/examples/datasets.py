"""The bundled data sets. `data/README.md` gives their sources."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from numpyro_contour import checks

#: the columns of each set that are targets; the first is the default
TARGETS = {
    "concrete": ("strength",),
    "energy": ("heating_load", "cooling_load"),
    "yacht": ("resistance",),
    "wine_red": ("quality",),
}
#: names of all files
FILES = (*TARGETS, "flights", "galaxies", "gauss_mix", "sunspots_monthly")


class Dataset(NamedTuple):
    """A regression data set in its own units."""

    #: inputs, (rows, features)
    X: np.ndarray
    #: target, (rows,)
    y: np.ndarray
    #: names of the columns of X
    feature_names: tuple[str, ...]
    #: name of the target
    target: str


class Split(NamedTuple):
    """Training and held-out rows, standardised by the mean and sd of the training rows."""

    #: inputs of the training rows, (rows, features)
    X_train: np.ndarray
    #: target of the training rows, (rows,)
    y_train: np.ndarray
    #: inputs of the held-out rows
    X_test: np.ndarray
    #: target of the held-out rows
    y_test: np.ndarray
    #: mean of the target over the training rows, in its own units
    y_mean: float
    #: sd of the target over the training rows, in its own units
    y_sd: float


def read_columns(name: str) -> dict[str, np.ndarray]:
    """The columns of a bundled file by name, (rows,) each, in float64.

    Args:
        name: "concrete", "energy", "flights", "galaxies", "gauss_mix", "sunspots_monthly",
            "wine_red" or "yacht".

    Returns:
        The columns.

    Raises:
        ValueError: there is no such file.

    Example:
        >>> from numpyro_contour.examples.datasets import read_columns
        >>> velocities = read_columns("galaxies")["velocity_km_s"]
        >>> velocities.shape, float(velocities.max())
        ((82,), 34279.0)
    """
    file = resources.files("numpyro_contour.examples") / "data"
    with (file / f"{checks.one_of('name', name, FILES)}.csv").open(encoding="utf-8") as lines:
        names = next(lines).strip().split(",")
        table = np.loadtxt(lines, delimiter=",", dtype=np.float64, ndmin=2)
    return dict(zip(names, table.T))


def load(name: str, target: str | None = None) -> Dataset:
    """A bundled regression set.

    Args:
        name: "concrete", "energy", "yacht" or "wine_red".
        target: None (default) for the set's first target; "cooling_load" is the second of "energy".

    Returns:
        The `Dataset`, in float64. No target is among the inputs.

    Raises:
        ValueError: there is no such set or target.

    Example:
        >>> from numpyro_contour.examples.datasets import load
        >>> concrete = load("concrete")
        >>> concrete.X.shape, concrete.target, round(float(concrete.y.max()), 1)
        ((1030, 8), 'strength', 82.6)
    """
    targets = TARGETS[checks.one_of("name", name, tuple(TARGETS))]
    target = targets[0] if target is None else checks.one_of("target", target, targets)
    columns = read_columns(name)
    inputs = [label for label in columns if label not in targets]
    return Dataset(
        X=np.stack([columns[label] for label in inputs], axis=1),
        y=columns[target],
        feature_names=tuple(inputs),
        target=target,
    )


def split_and_standardise(dataset: Dataset, seed: int, held_out: float = 0.1) -> Split:
    r"""Hold out random rows, and standardise all rows by the training rows alone.

    .. math:: \tilde x = (x - \bar x_{train}) / s_{train}

    An input that is constant over the training rows becomes 0 there.

    Args:
        dataset: from `load`.
        seed: seed of the random split, at least 0.
        held_out: share of the rows to hold out, above 0 and below 1. Defaults to 0.1.

    Returns:
        The `Split`; `y * y_sd + y_mean` is the target in its own units.

    Raises:
        ValueError: an argument is out of its range, or leaves no row on one side.

    Example:
        >>> from numpyro_contour.examples.datasets import load, split_and_standardise
        >>> split = split_and_standardise(load("concrete"), seed=0)
        >>> split.X_train.shape, split.X_test.shape, abs(float(split.y_train.mean())) < 1e-9
        ((927, 8), (103, 8), True)
    """
    seed = checks.integer("seed", seed, at_least=0)
    rows = len(dataset.y)
    count = round(checks.number("held_out", held_out) * rows)
    if not 0 < count < rows:
        raise checks.fail(
            "held_out", held_out, f"a share that leaves some of {rows} rows on either side"
        )
    shuffled = np.random.default_rng(seed).permutation(rows)
    test, train = shuffled[:count], shuffled[count:]
    centre, scale = dataset.X[train].mean(axis=0), dataset.X[train].std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    y_mean, y_sd = float(dataset.y[train].mean()), float(dataset.y[train].std())
    return Split(
        X_train=(dataset.X[train] - centre) / scale,
        y_train=(dataset.y[train] - y_mean) / y_sd,
        X_test=(dataset.X[test] - centre) / scale,
        y_test=(dataset.y[test] - y_mean) / y_sd,
        y_mean=y_mean,
        y_sd=y_sd,
    )


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
