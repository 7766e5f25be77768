"""Several processes, of several hosts, and one of them at a time that writes to a store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
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


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the store for as long as this lasts; a process that dies lets go of it.

    Raises:
        RuntimeError: another process holds it.
    """
    try:
        import fcntl
    except ImportError:  # Windows has no such locks
        fcntl = None  # type: ignore[assignment]
    if fcntl is None or not writes():
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RuntimeError(
                f"Another process writes to the store {str(path)!r}: wait until it has ended."
            ) from error
        yield
