"""The posteriors: priors, likelihoods of NumPy or of JAX, and modes.

This module imports neither JAX nor this package, since the methods that need none of them are not
to wait for them. A likelihood takes the array module of its arguments, `numpy` or `jax.numpy`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.peers.clock.priors import HalfNormal, Normal, Prior, Uniform

Data = tuple[Any, ...]


@dataclass(frozen=True)
class Posterior:
    """A posterior whose modes have known masses."""

    name: str
    priors: tuple[Prior, ...]
    #: `(x, data, module) -> log likelihoods`, positions (..., size), without a constant
    log_likelihood: Callable[[Any, Data, Any], Any]
    #: a function from positions (..., size) to the number of their mode, from 0
    mode: Callable[[np.ndarray], np.ndarray]
    modes: int
    #: what it is, for the page
    about: str

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return len(self.priors)

    def masses(self, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The masses of the modes by draws (..., size) and their weights (...)."""
        found = np.bincount(self.mode(x).ravel(), weights.ravel(), minlength=self.modes)
        return found / found.sum()


def _log_of_sum(first: Any, second: Any, xp: Any) -> Any:
    """The log of a sum of two exponentials; `numpy.logaddexp` is several times slower."""
    return xp.maximum(first, second) + xp.log1p(xp.exp(-xp.abs(first - second)))


# ------------------------------------------------------------------------------ README's model

AMPLITUDE_NOISE = 3.5


def _amplitude(x: Any, data: Data, xp: Any) -> Any:
    return -0.5 * (((data[0] - x**2) / AMPLITUDE_NOISE) ** 2).sum(-1)


# ------------------------------------------------------------------------------ nine modes

#: sd of the wide normal prior of posteriors that are given by their densities
WIDE = 10.0


def _nine_modes(x: Any, data: Data, xp: Any) -> Any:
    square = (x**2).sum(-1)
    waves = xp.cos(1.2 * math.pi * x).sum(-1)
    energy = (square - 10 * waves) / 3 + xp.maximum(square - 7, 0)
    # The likelihood divides the prior out.
    return 0.5 * square / WIDE**2 - energy


def _nearest_of_nine(x: np.ndarray) -> np.ndarray:
    cells = np.searchsorted([-5 / 6, 5 / 6], x)
    return 3 * cells[..., 0] + cells[..., 1]


# ------------------------------------------------------------------------------ mixture


def _mixture(x: Any, data: Data, xp: Any) -> Any:
    """Two normals: the share of the first, both means, both standard deviations."""
    share, first, second, sd, other_sd = (x[..., i, None] for i in range(5))
    of_first = xp.log(share) - xp.log(sd) - 0.5 * ((data[0] - first) / sd) ** 2
    of_second = xp.log1p(-share) - xp.log(other_sd) - 0.5 * ((data[0] - second) / other_sd) ** 2
    return _log_of_sum(of_first, of_second, xp).sum(-1)


# ------------------------------------------------------------------------------ two modes

TWO_MODES = 20
_STEP = 4.7 / math.sqrt(TWO_MODES)
RIGHT = 0.6


def _two_modes(x: Any, data: Data, xp: Any) -> Any:
    left = math.log(1 - RIGHT) - 0.5 * ((x + _STEP) ** 2).sum(-1)
    right = math.log(RIGHT) - 0.5 * ((x - _STEP) ** 2).sum(-1)
    return _log_of_sum(left, right, xp) + 0.5 * (x**2).sum(-1) / WIDE**2


# ------------------------------------------------------------------------------ galaxies


def _galaxies(x: Any, data: Data, xp: Any) -> Any:
    """Three normals: means 20 + 5 x, log standard deviations x / 2, shares softmax(x / 2)."""
    mean, log_sd = 20.0 + 5.0 * x[..., :3], 0.5 * x[..., 3:6]
    log_share = 0.5 * x[..., 6:]
    log_share = log_share - xp.log(xp.exp(log_share).sum(-1))[..., None]
    z = (data[0] - mean[..., None]) / xp.exp(log_sd)[..., None]
    each = (log_share - log_sd)[..., None] - 0.5 * z**2
    largest = each.max(-2)
    summed = xp.exp(each - largest[..., None, :]).sum(-2)
    return (largest + xp.log(summed)).sum(-1)


def _order_of_three(x: np.ndarray) -> np.ndarray:
    order = np.argsort(x[..., :3], -1)
    return 2 * order[..., 0] + (order[..., 1] > order[..., 2])


# ------------------------------------------------------------------------------ four periods

PERIODS = 4
RANGE_AMPLITUDE, RANGE_NOISE = 1.2, 0.3


def _four_periods(x: Any, data: Data, xp: Any) -> Any:
    phases, y = data
    signal = RANGE_AMPLITUDE * xp.cos(2 * math.pi * (x - phases))
    return -0.5 * (((y - signal) / RANGE_NOISE) ** 2).sum(-1)


# ------------------------------------------------------------------------------ sensors

SENSORS = 4
SENSOR_NOISE = 0.08
#: the prior of both coordinates of each position
PLACE = Normal(0.0, 0.6), Normal(0.1, 0.6)


def _sensors(x: Any, data: Data, xp: Any) -> Any:
    """Distances to (-1, 0) and (1, 0); x has the two coordinates of each sensor in turn."""
    along, across = x[..., 0::2, None], x[..., 1::2, None]
    away = xp.sqrt((along - xp.asarray([-1.0, 1.0])) ** 2 + across**2)
    return -0.5 * (((data[0] - away) / SENSOR_NOISE) ** 2).sum((-1, -2))


def _sides(x: np.ndarray) -> np.ndarray:
    return (x[..., 1::2] > 0) @ (1 << np.arange(SENSORS))


_ALL = (
    Posterior(
        "README's model, 1-d",
        (Normal(0.3, 1.0),),
        _amplitude,
        lambda x: (x[..., 0] > 0).astype(int),
        2,
        "the model of README, with its 40 rows",
    ),
    Posterior(
        "nine modes, 2-d",
        (Normal(0.0, WIDE),) * 2,
        _nine_modes,
        _nearest_of_nine,
        9,
        "the nine modes of CSGLD's paper",
    ),
    Posterior(
        "mixture, 5-d",
        (Uniform(0.0, 1.0), *(Normal(0.0, 3.0),) * 2, *(HalfNormal(2.0),) * 2),
        _mixture,
        lambda x: (x[..., 1] < x[..., 2]).astype(int),
        2,
        "two normals with unknown share, means and standard deviations, for 100 rows (the mixture "
        "of [the first answer](cost.md#the-first-answer)), with two labellings",
    ),
    Posterior(
        "two modes, 20-d",
        (Normal(0.0, WIDE),) * TWO_MODES,
        _two_modes,
        lambda x: (x.sum(-1) > 0).astype(int),
        2,
        "two unit normals 9.4 apart",
    ),
    Posterior(
        "galaxies, 9-d",
        (Normal(0.0, 1.0),) * 9,
        _galaxies,
        _order_of_three,
        6,
        "three normals for 82 velocities of galaxies, with six labellings",
    ),
    Posterior(
        "four periods, 1-d",
        (Uniform(0.0, PERIODS),),
        _four_periods,
        lambda x: np.clip(np.floor(x[..., 0]), 0, PERIODS - 1).astype(int),
        PERIODS,
        "the distance that a range finder measures up to whole periods, of which the prior allows "
        "four, with known amplitude and noise",
    ),
    Posterior(
        "sensor positions, 8-d",
        PLACE * SENSORS,
        _sensors,
        _sides,
        2**SENSORS,
        "the positions of four sensors from distances to two places: each may be mirrored, which "
        "makes 16 modes",
    ),
)
POSTERIORS = {posterior.name: posterior for posterior in _ALL}
