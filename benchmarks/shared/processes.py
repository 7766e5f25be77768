"""Work in separate processes, also with several devices, and the memory that a process takes."""

from __future__ import annotations

import os
import resource
import socket
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

Result = TypeVar("Result")


def alone(function: Callable[..., Result], *arguments: Any) -> Result:
    """The result of a function that runs in a separate process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def on_devices(devices: int, function: Callable[..., Result], *arguments: Any) -> Result:
    """The result of a function in a separate process with so many virtual devices."""
    with xla_flags(_virtual(devices)):
        return alone(function, *arguments)


def on_hosts(
    hosts: int, devices: int, function: Callable[..., Result], *arguments: Any
) -> list[Result]:
    """The results of a function in processes that are joined, with so many devices each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with xla_flags(_virtual(devices)), ExitStack() as stack:
        pools = [
            stack.enter_context(
                ProcessPoolExecutor(1, get_context("spawn"), _join, (address, hosts, host))
            )
            for host in range(hosts)
        ]
        running = [pool.submit(function, *arguments) for pool in pools]
        results = [one.result() for one in running]
        # Each waits for the others to leave too: they must not be ended one after the other.
        for leaving in [pool.submit(_leave) for pool in pools]:
            leaving.result()
        return results


def _join(address: str, hosts: int, host: int) -> None:
    """Join this process to others, before JAX starts."""
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(address, hosts, host)


def _leave() -> None:
    """Leave the others, before this process ends."""
    import jax

    jax.distributed.shutdown()


def _virtual(devices: int) -> str:
    return f"--xla_force_host_platform_device_count={devices}"


@contextmanager
def xla_flags(flags: str) -> Iterator[None]:
    """Processes that start meanwhile give XLA these flags too."""
    before = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = f"{before or ''} {flags}"
    try:
        yield
    finally:
        if before is None:
            del os.environ["XLA_FLAGS"]
        else:
            os.environ["XLA_FLAGS"] = before


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
