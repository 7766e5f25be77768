"""Rows read on a host thread before they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

import numpy as np

from numpyro_contour.models.disk.stored_array import StoredArray

# One thread reads for all runs of a process. Only NumPy runs in it: JAX may be waiting for it.
_THREAD = ThreadPoolExecutor(1, "numpyro_contour rows")
# Rows that are kept at most before somebody asks for them, as one lot: more than one where chains
# run on several devices.
_MOST_LOTS = 4
# Row numbers by which a lot is found: to hash all of them would take as long as to read the rows.
_NAMED_BY = 16


class ReadAhead:
    """Reads rows of several arrays, and begins with those that will be asked for next.

    What it returns depends on the first argument only: if it was told wrongly what comes next, it
    reads anew.

    Args:
        arrays: the arrays.
        places: for each of them, which of the lists of row numbers is for it.
    """

    def __init__(self, arrays: Sequence[StoredArray], places: Sequence[int]):
        self._arrays, self._places = arrays, places
        #: lots by their first row numbers: all of them, and the rows to come
        self._lots: dict[bytes, tuple[list[np.ndarray], Future]] = {}
        self._lock = Lock()
        #: how often rows were there before they were asked for
        self.hits = 0

    def __call__(self, now: Sequence[Any], then: Sequence[Any]) -> list[np.ndarray]:
        """Rows of each array.

        Args:
            now: lists of row numbers, of any shape.
            then: those of the next call, as far as is known; () for none.
        """
        now, then = [np.asarray(x) for x in now], [np.asarray(x) for x in then]
        with self._lock:
            numbers, lot = self._lots.pop(_name(now), ((), None))
            if then:
                # A copy: the buffers are JAX's, and end with this call.
                later = [x.copy() for x in then]
                self._lots[_name(later)] = later, _THREAD.submit(self._read, later)
                while len(self._lots) > _MOST_LOTS:
                    self._lots.pop(next(iter(self._lots)))[1].cancel()
        if lot is None or not all(map(np.array_equal, numbers, now)):
            return self._read(now)
        self.hits += 1
        return lot.result()

    def _read(self, numbers: Sequence[np.ndarray]) -> list[np.ndarray]:
        return [array.rows(numbers[place]) for array, place in zip(self._arrays, self._places)]


def _name(numbers: Sequence[np.ndarray]) -> bytes:
    return b"".join(x.reshape(-1)[:_NAMED_BY].tobytes() for x in numbers)
