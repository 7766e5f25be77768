"""A potential energy as the host sees it: batches of positions, evaluated by one program."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

# Evaluations after which a descent is given up.
_LONGEST = 300


class Places(NamedTuple):
    """Positions and what was found there, in float64 on the host."""

    #: (n, d)
    position: np.ndarray
    #: potential energies in nats, (n,)
    energy: np.ndarray
    #: (n, d)
    gradient: np.ndarray
    #: the diagonal of an inverse Hessian, as far as a descent has learnt it, (n, d)
    inverse_curvature: np.ndarray
    #: whether a descent came to rest, (n,)
    rests: np.ndarray

    def only(self, number: int) -> Places:
        """One of the places, without the first axis."""
        return Places(*(x[number] for x in tuple(self)))


class Landscape:
    """Energies, gradients and descents of any number of positions.

    Args:
        program: `(starts, most_evaluations) -> Ends`, as `descend`, of exactly `lanes` starts.
        size: the number of coordinates d.
        lanes: positions that are evaluated together.

    Attributes:
        size: the number of coordinates d.
        epsilon: the relative rounding error of energies.
        gradients: evaluations of energy and gradient so far.
        seconds: the time that these took.
    """

    def __init__(self, program: Callable, size: int, lanes: int):
        self._program, self._lanes = program, lanes
        self.size = size
        self.gradients, self.seconds = 0, 0.0
        self._dtype = jnp.result_type(float)
        self.epsilon = float(jnp.finfo(self._dtype).eps)

    def descend(self, starts: np.ndarray, most: int = _LONGEST) -> Places:
        """The ends of descents from starts, (n, d)."""
        return self._all(starts, most)

    def at(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Energies, (n,), and gradients, (n, d), at positions, (n, d)."""
        found = self._all(positions, 1)
        return found.energy, found.gradient

    def _all(self, starts: np.ndarray, most: int) -> Places:
        starts = np.asarray(starts, self._dtype).reshape(-1, self.size)
        parts = []
        if not len(starts):
            blank = np.empty((0, self.size))
            return Places(blank, np.empty(0), blank, blank, np.empty(0, bool))
        for first in range(0, len(starts), self._lanes):
            part = starts[first : first + self._lanes]
            # The last part is filled up: another shape would be compiled separately.
            filled = np.concatenate([part, np.repeat(part[:1], self._lanes - len(part), 0)])
            begin = time.perf_counter()
            *found, evaluations = jax.device_get(tuple(self._program(filled, np.int32(most))))
            self.seconds += time.perf_counter() - begin
            self.gradients += len(part) * int(evaluations)
            parts.append([x[: len(part)] for x in found])
        *numbers, rests = [np.concatenate(each) for each in zip(*parts)]
        position, energy, gradient, inverse = (x.astype(np.float64) for x in numbers)
        return Places(position, energy, gradient, inverse, rests)
