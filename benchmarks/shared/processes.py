"""Work in a separate process, and the memory that a process takes."""

from __future__ import annotations

import resource
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")


def alone(function: Callable[..., Result], *arguments: Any) -> Result:
    """The result of a function that runs in a separate process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


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
