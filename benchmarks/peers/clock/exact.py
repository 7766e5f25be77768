"""The data of the posteriors, and the exact masses of their modes."""

from __future__ import annotations

from functools import cache

import numpy as np

from benchmarks.cost.first_run import case
from benchmarks.mode_jumping.models import Case, cases
from benchmarks.peers.clock import posteriors
from benchmarks.peers.clock.posteriors import Data
from benchmarks.peers.targets import targets
from benchmarks.shared.models import amplitude_by_grid, amplitude_data
from numpyro_contour.examples.datasets import read_columns


@cache
def _named(start: str) -> Case:
    return next(one for one in cases() if one.name.startswith(start))


def data_of(name: str) -> Data:
    """The arrays of a posterior's data."""
    start = name.split()[0].rstrip(",")
    if start == "README's":
        return (np.asarray(amplitude_data(posteriors.AMPLITUDE_NOISE)),)
    if start == "mixture":
        return case("mixture of 100 rows")[1]
    if start == "galaxies":
        return (read_columns("galaxies")["velocity_km_s"] / 1000.0,)
    if start == "four":
        return tuple(map(np.asarray, _named("aliases").args))
    if start == "sensor":
        return tuple(map(np.asarray, _named("positions").args))
    return ()


@cache
def masses_of(name: str) -> np.ndarray:
    """The exact masses of the modes."""
    posterior = posteriors.POSTERIORS[name]
    start = name.split()[0]
    if start == "README's":
        right, _ = amplitude_by_grid(data_of(name)[0], posteriors.AMPLITUDE_NOISE)
        return np.array([1 - right, right])
    if start == "nine":
        return next(target for target in targets() if target.name == name).truth.masses
    if start == "two":
        return np.array([1 - posteriors.RIGHT, posteriors.RIGHT])
    if start == "sensor":
        # Sensors are independent of each other.
        above = [mass for mass, _ in _named("positions").truth().values()]
        sides = np.arange(posterior.modes)[:, None] >> np.arange(posteriors.SENSORS) & 1
        return np.where(sides, above, 1 - np.array(above)).prod(1)
    # Labels, and periods under a flat prior, may be exchanged.
    return np.full(posterior.modes, 1 / posterior.modes)
