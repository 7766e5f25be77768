"""Ways of choosing draws in proportion to their weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def systematic(rng: np.random.Generator, weights: np.ndarray, number: int) -> np.ndarray:
    """One uniform number for all: each draw is taken floor or ceil of its expected times."""
    return _inverse(weights, number, rng.random() + np.arange(number))


def stratified(rng: np.random.Generator, weights: np.ndarray, number: int) -> np.ndarray:
    """One uniform number in each of as many strata of equal probability."""
    return _inverse(weights, number, rng.random(number) + np.arange(number))


def multinomial(rng: np.random.Generator, weights: np.ndarray, number: int) -> np.ndarray:
    """Independent choices in proportion to weight."""
    return _inverse(weights, number, np.sort(rng.random(number)) * number)


def residual(rng: np.random.Generator, weights: np.ndarray, number: int) -> np.ndarray:
    """The whole parts of the expected times, and independent choices by what is left."""
    expected = weights * (number / weights.sum())
    # Rounding must not take a copy from a draw that is expected a whole number of times.
    copies = np.floor(expected + 1e-9).astype(int)
    left = np.maximum(expected - copies, 0.0)
    rest = number - copies.sum()
    if rest > 0:
        copies += np.bincount(multinomial(rng, left, rest), minlength=len(weights))
    return np.repeat(np.arange(len(weights)), copies)


def _inverse(weights: np.ndarray, number: int, places: np.ndarray) -> np.ndarray:
    """The draws whose share of the total weight covers `places`, out of `number`."""
    reached = np.cumsum(weights)
    chosen = np.searchsorted(reached, places * (reached[-1] / number), side="right")
    return np.minimum(chosen, np.flatnonzero(weights)[-1])


METHODS: dict[str, Callable[[np.random.Generator, np.ndarray, int], np.ndarray]] = {
    "systematic": systematic,
    "stratified": stratified,
    "multinomial": multinomial,
    "residual": residual,
}
