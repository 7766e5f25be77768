"""What a method returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class After:
    """What is found when the clock has stopped."""

    #: evaluations of the density or of its gradient
    evaluations: float | None = None
    #: standard errors of the masses of the modes, if the package gives any
    errors: np.ndarray | None = None


@dataclass(frozen=True)
class Drawn:
    """The draws of a run."""

    #: positions, (draws, size) or (chains, draws, size)
    x: np.ndarray
    #: their weights, (draws,) or (chains, draws)
    weights: np.ndarray
    #: finds the rest, which is not part of what is measured
    after: Callable[[], After]
