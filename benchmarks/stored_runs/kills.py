"""A run that is killed again and again: is it the run that nothing happened to, bit for bit?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import zarr
from numpyro.infer import MCMC

from benchmarks.shared import models
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from numpyro_contour import ContourSGLD, run_stored
from numpyro_contour.runs.stored.store import DRAWS, RunStore

ROOT = Path(__file__).parents[2]
KILLS, QUICK_KILLS = 20, 2
# The full run takes about a minute without compiling; segments of half a second.
STEPS, QUICK_STEPS = 40_000, 100
WARMUP, SAMPLES, SEGMENT = 60, 120, 2
NOISE = 3.5


@dataclass(frozen=True)
class Killed:
    """When a process was killed."""

    #: seconds since its first segment began
    after: float
    #: draws of the warm-up, and kept draws, in the store at that time
    warmup: int
    kept: int
    #: whether files were half written
    writing: bool


def sample(path: str, steps: int) -> None:
    """The run, from wherever it is."""
    mcmc = MCMC(
        ContourSGLD(models.amplitude, num_steps=steps),
        num_warmup=WARMUP,
        num_samples=SAMPLES,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    y = models.amplitude_data(NOISE)
    run_stored(mcmc, path, jax.random.key(0), y, NOISE, segment_draws=SEGMENT)


def process(path: Path, steps: int, cache: Path) -> subprocess.Popen:
    """A process of its own that makes the run."""
    code = "import sys; from benchmarks.stored_runs.kills import sample; "
    code += "sample(sys.argv[1], int(sys.argv[2]))"
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    command = [sys.executable, "-W", "ignore", "-c", code, str(path), str(steps)]
    return subprocess.Popen(command, cwd=ROOT, env=environment)


def killed(path: Path, steps: int, cache: Path, seconds: float) -> Killed | None:
    """Kill a process so long after its first segment; None where the run was over before."""
    began = progress_of(path)
    victim = process(path, steps, cache)
    while progress_of(path) == began and victim.poll() is None:
        time.sleep(0.01)
    time.sleep(seconds)
    if victim.poll() is not None:
        return None
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    warmup, kept = progress_of(path)[1:]
    return Killed(seconds, warmup, kept, bool(list(path.rglob("*.partial"))))


def progress_of(path: Path) -> tuple[int, int, int]:
    """Segments, draws of the warm-up and kept draws in a store."""
    if RunStore.is_new(path):
        return 0, 0, 0
    return RunStore.open(path).progress[:3]


def arrays_of(path: Path) -> dict[str, Any]:
    """All draws of a store by name."""
    root = zarr.open_group(path, mode="r")
    return {f"{group}/{name}": x[:] for group in DRAWS for name, x in root[group].arrays()}


def main(experiment: Experiment) -> str:
    """The section of the page."""
    number, steps = experiment.choose((KILLS, STEPS), (QUICK_KILLS, QUICK_STEPS))
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        whole, broken, cache = (Path(folder) / name for name in ("whole", "broken", "cache"))
        process(whole, steps, cache).wait()
        begun = RunStore.open(whole).progress.seconds
        found = []
        while len(found) < number:
            # Each of them makes a part of the run, so that the last is killed before it is over.
            outcome = killed(broken, steps, cache, rng.uniform(0, 1.3 * begun / number))
            if outcome is None:
                break
            found.append(outcome)
        process(broken, steps, cache).wait()
        one, other = arrays_of(whole), arrays_of(broken)
        same = [name for name in one if np.array_equal(one[name], other[name], equal_nan=True)]
    lost = sorted(set(one) - set(same))
    return (
        "## A run that is killed\n\n"
        f"A run of {WARMUP} draws of warm-up and {SAMPLES} draws of 4 chains, in segments of "
        f"{SEGMENT} draws, took {begun:.0f} seconds. Another one like it was killed "
        f"{len(found)} times by SIGKILL, each time as many seconds after its next segment as the "
        "table has, and then went on to its end. "
        f"{len(same)} of {len(one)} arrays in the store are bit-identical to those of the first"
        + (f"; not so are {', '.join(lost)}" if lost else "")
        + ".\n\n"
        + markdown_table(
            ["seconds", "draws of warm-up there", "kept draws there", "a file was half written"],
            [
                [f"{k.after:.2f}", str(k.warmup), str(k.kept), "yes" if k.writing else "no"]
                for k in found
            ],
        )
    )
