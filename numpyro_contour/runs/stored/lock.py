"""One process at a time writes to a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from numpyro_contour.runs.stored.processes import writes


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
