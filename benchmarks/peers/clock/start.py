"""Start a process for each run, stop those that take too long, and read what they say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[3]
#: seconds after which a process is stopped
LIMIT = 300
#: seconds for what is found when the clock has stopped
GRACE = 180
#: characters of an error that are kept
LENGTH = 70


def environment() -> dict[str, str]:
    """The environment, with this checkout and without JAX's cache of compiled programs."""
    kept = {key: value for key, value in os.environ.items() if "COMPILATION_CACHE" not in key}
    return kept | {"JAX_ENABLE_COMPILATION_CACHE": "false", "PYTHONPATH": str(ROOT)}


def run(method: str, posterior: str, seed: int, data: Path, *draws: int) -> dict[str, Any]:
    """The figures of one run, or under `failed` why there are none."""
    script = "benchmarks.peers.clock.process"
    arguments = [method, posterior, str(seed), str(data), *map(str, draws)]
    # Output goes to files, since a pipe that nobody reads would stop the process; packages write
    # files of their own (jaxns its log) to the folder where it runs.
    with (
        tempfile.TemporaryFile("w+") as out,
        tempfile.TemporaryFile("w+") as err,
        tempfile.TemporaryDirectory() as folder,
    ):
        began = time.time()
        process = subprocess.Popen(
            [sys.executable, "-m", script, *arguments],
            stdout=out,
            stderr=err,
            cwd=folder,
            env=environment(),
        )
        ended = _wait(process, LIMIT) or (bool(_lines(out)) and _wait(process, GRACE))
        if not ended:
            process.kill()
            process.wait()
        found = _lines(out)
        if not found:
            return {"failed": _error(err) if ended else f"> {LIMIT} s"}
        first = found[0]
        result = {"seconds": first["at"] - began, **{k: first[k] for k in ("masses", "peak")}}
        return result | (found[1] if len(found) > 1 else {"evaluations": None, "errors": None})


def _wait(process: subprocess.Popen, seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def _text(file: IO[str]) -> str:
    """All that was written; the place of the file is that of the process, and stays."""
    number = file.fileno()
    return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")


def _lines(out: IO[str]) -> list[dict[str, Any]]:
    """The lines of JSON among what was printed."""
    starts = '{"masses"', '{"evaluations"'
    return [json.loads(line) for line in _text(out).splitlines() if line.startswith(starts)]


def _error(err: IO[str]) -> str:
    """The first words of the error that ended a process."""
    lines = [line.strip() for line in _text(err).splitlines() if line and line[0] != " "]
    errors = [line for line in lines if "Error" in line.split(":")[0]]
    return (errors or lines or ["no output"])[-1][:LENGTH]
