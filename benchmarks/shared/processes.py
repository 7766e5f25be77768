"""Work in a separate process, and the memory that a process takes."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


def alone(function: Callable[..., Result], *arguments: Any) -> Result:
    """The result of a function that runs in a separate process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


@contextmanager
def private_peak() -> Iterator[Callable[[], int]]:
    """Watch the private memory of this process: its own pages, without those of mapped files.

    Those of files the system takes back where memory is needed. Only Linux tells the two apart.

    Returns:
        A function that returns the peak in bytes, since it began, up to now.
    """
    going, peak = Event(), _private_bytes()

    def watch() -> None:
        nonlocal peak
        while not going.wait(0.01):
            peak = max(peak, _private_bytes())

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield lambda: peak
    finally:
        going.set()
        thread.join()


def _private_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("RssAnon")))


def peak_bytes() -> int:
    """The peak resident memory of this process.

    On Linux, `ru_maxrss` includes memory from before the process became this program, which is the
    peak of the process that started it. The status file has the peak of this program alone.
    """
    status = Path("/proc/self/status")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return 1024 * int(lines["VmHWM"].split()[0])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
