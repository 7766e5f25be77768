"""Several processes, of several hosts, that make one stored run: the first of them writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils


def writes() -> bool:
    """Whether this process writes the store."""
    return jax.process_index() == 0


def of_the_first(value: float) -> float:
    """The value of the process that writes: decisions by the time must be the same in all."""
    if jax.process_count() == 1:
        return value
    return float(multihost_utils.broadcast_one_to_all(np.float32(value)))


def by_the_first(function: Callable, *arguments: Any) -> None:
    """Let the process that writes do something, while the others wait.

    Raises:
        RuntimeError: in the other processes, where it failed; there it has the error itself.
    """
    if jax.process_count() == 1:
        function(*arguments)
        return
    error = None
    if writes():
        try:
            function(*arguments)
        except Exception as found:  # the others are told first
            error = found
    failed = of_the_first(error is not None)
    if error is not None:
        raise error
    if failed:
        raise RuntimeError("The first process could not write the store: its error says why.")


def placed_like(value: Any, like: Any) -> jax.Array:
    """An array of NumPy on the devices of another one, which may be those of several hosts."""
    if getattr(like, "committed", False) or not getattr(like, "is_fully_addressable", True):
        return jax.make_array_from_callback(value.shape, like.sharding, lambda index: value[index])
    return jax.numpy.asarray(value)
