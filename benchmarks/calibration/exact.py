"""Ranks in the exact posteriors of the same data, where a parameter's is known by integration."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm

from benchmarks.calibration.models import MODELS
from benchmarks.calibration.ranks import data_sets


class Known(NamedTuple):
    """A quantity whose posterior is known."""

    quantity: str
    #: its value from the prior's draws
    of: Callable
    grid: np.ndarray
    #: from the grid and the data of one data set to log densities on the grid, up to a constant
    log_density: Callable


def _size_of_a(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    either = jnp.logaddexp(norm.logpdf(a, 0.3, 1), norm.logpdf(-a, 0.3, 1))
    return either + norm.logpdf(y[:, None], a**2, 3.5).sum(0)


def _v(v: np.ndarray, y: np.ndarray) -> np.ndarray:
    # The nine values of the funnel are integrated out.
    return norm.logpdf(v, 0, 3) + norm.logpdf(y[:, None], 0, jnp.sqrt(1 + jnp.exp(v))).sum(0)


KNOWN = {
    "sign": Known("size of a", lambda s: jnp.abs(s["a"]), np.linspace(0, 6, 6001), _size_of_a),
    "funnel": Known("v", lambda s: s["v"], np.linspace(-18, 18, 7201), _v),
}


def exact_shares(name: str, number: int) -> np.ndarray:
    """The probability below the prior's draw in the posterior of each data set."""
    known = KNOWN[name]
    drawn, data = data_sets(MODELS[name](), number)
    shares = []
    for value, y in zip(np.asarray(known.of(drawn)), np.asarray(data)):
        log_density = np.asarray(known.log_density(known.grid, y), np.float64)
        below = np.exp(log_density - log_density.max()).cumsum()
        shares.append(np.interp(value, known.grid, below / below[-1]))
    return np.array(shares)
