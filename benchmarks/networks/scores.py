"""Scores of probabilities of classes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_BINS = 15


class Scores(NamedTuple):
    """How good probabilities of classes are, for images whose classes are known."""

    #: share of images whose class has the largest probability
    accuracy: float
    #: mean log probability of the class, in nats
    log_likelihood: float
    #: mean distance of confidence from accuracy in bins of equal width
    calibration_error: float
    #: mean entropy of the probabilities, in nats
    entropy: float


def scores(probabilities: np.ndarray, labels: np.ndarray) -> Scores:
    """The scores of probabilities, (rows, classes).

    Args:
        probabilities: of each class, each row adds up to 1.
        labels: the classes, (rows,).

    Source: Guo, Pleiss, Sun and Weinberger (2017), equation (3), for the calibration error.
    """
    chosen = probabilities.argmax(-1)
    right = chosen == labels
    confidence = np.take_along_axis(probabilities, chosen[:, None], -1)[:, 0]
    known = np.take_along_axis(probabilities, labels[:, None], -1)[:, 0]
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(bins, right - confidence, _BINS)
    return Scores(
        float(right.mean()),
        float(np.log(np.maximum(known, 1e-12)).mean()),
        float(np.abs(gaps).sum() / len(labels)),
        float(entropy(probabilities).mean()),
    )


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """The entropy of each row in nats."""
    safe = np.maximum(probabilities, 1e-12)
    return -(probabilities * np.log(safe)).sum(-1)


def agreement(first: np.ndarray, second: np.ndarray) -> tuple[float, float]:
    """The share of rows with the same best class, and the mean total variation distance.

    Source: Izmailov, Vikram, Hoffman and Wilson (2021), section 6.
    """
    same = (first.argmax(-1) == second.argmax(-1)).mean()
    return float(same), float(0.5 * np.abs(first - second).sum(-1).mean())
