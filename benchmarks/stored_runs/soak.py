"""A thousand million steps in a store: does anything grow, drift or break?"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax import random
from scipy.stats import norm

from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.processes import alone
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.targets import on_a_grid, two_normals
from numpyro_contour import ContourSGLD, diagnose, expectation, run_stored, to_inference_data
from numpyro_contour.examples import mixture, nine_modes
from numpyro_contour.statistics.arviz_versions import to_datasets

STEPS, QUICK_STEPS = 1_000_000_000, 400_000
CHAINS = 64
STEPS_OF_A_DRAW = 2_000
# Seconds between two looks at the memory.
_LOOK = 2.0


@dataclass(frozen=True)
class Target:
    """A density, a set of it and the exact mass of the set."""

    potential: Callable
    size: int
    inside: Callable
    mass: Callable[[], float]


def middle(x: Any) -> Any:
    """Whether draws are in the middle one of nine modes."""
    return (abs(x) < nine_modes.MODE_GRID[2] / 2).all(-1)


def middle_mass() -> float:
    """The mass of the middle mode, by integration on a grid."""
    line = np.linspace(-4.0, 4.0, 801)
    grid, shares = on_a_grid(nine_modes.potential, [line, line])
    return float(shares @ middle(grid))


def positive_mass() -> float:
    """The mass of a positive first coordinate, which the two modes overlap in."""
    inside = norm.cdf(4.7 / np.sqrt(20))
    return float(0.6 * inside + 0.4 * (1 - inside))


TARGETS = {
    "mixture, 1-d": Target(
        lambda x: mixture.potential(x[0]), 1, lambda x: x[..., 0] > mixture.DIVIDE, lambda: 0.6
    ),
    "nine modes, 2-d": Target(nine_modes.potential, 2, middle, middle_mass),
    "two modes, 20-d": Target(two_normals(20), 20, lambda x: x[..., 0] > 0, positive_mass),
}


@dataclass(frozen=True)
class Soaked:
    """What was found of a long run."""

    seconds: float
    #: resident memory in bytes over time, and the seconds of the looks
    memory: tuple[np.ndarray, np.ndarray]
    #: bytes of the store
    stored: int
    mean: float
    mcse: float
    #: draws that are not finite
    lost: int
    #: the largest distance of a chain's total probability from 1
    off: float
    faults: str


def soak(name: str, steps: int) -> Soaked:
    """A long run of a target, in this process."""
    target = TARGETS[name]
    draws = max(50, steps // (CHAINS * STEPS_OF_A_DRAW))
    per_draw = max(1, steps // (CHAINS * draws))
    kernel = ContourSGLD(potential_fn=target.potential, num_steps=per_draw)
    mcmc = runs.driver(kernel, min(500, draws), draws, CHAINS)
    start = random.uniform(random.key(1), (CHAINS, target.size), minval=-2.0, maxval=2.0)
    looks: list[tuple[float, int]] = []
    over = threading.Event()
    watcher = threading.Thread(target=_look, args=(looks, over))
    with tempfile.TemporaryDirectory() as folder, runs.quiet():
        path = Path(folder) / "run.zarr"
        begin = time.perf_counter()
        watcher.start()
        run_stored(mcmc, path, jax.random.key(0), init_params=jnp.asarray(start))
        over.set()
        watcher.join()
        seconds = time.perf_counter() - begin
        found = expectation(path, lambda d: target.inside(d["z"].values))
        groups = to_datasets(to_inference_data(path))
        draws_of = groups["weighted_posterior"]["z"].values
        theta = groups["energy_partition"]["theta"].values
        return Soaked(
            seconds=seconds,
            memory=tuple(np.array(x) for x in zip(*looks)),
            stored=sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
            mean=float(found.mean),
            mcse=float(found.mcse),
            lost=int((~np.isfinite(draws_of)).sum()),
            off=float(abs(theta.sum(-1) - 1).max()),
            faults=", ".join(fault.check for fault in diagnose(path).faults) or "none",
        )


def _look(looks: list, over: threading.Event) -> None:
    """Note the resident memory of this process until it is over."""
    page = 4096
    begin = time.perf_counter()
    while not over.wait(_LOOK):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        looks.append((time.perf_counter() - begin, pages * page))


def picture(found: dict[str, Soaked]) -> Any:
    """Resident memory over the time of each run."""
    figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
    for name, one in found.items():
        ax.plot(one.memory[0], one.memory[1] / 2**20, label=name)
    ax.set(xlabel="seconds", ylabel="resident memory, MB", ylim=(0, None))
    ax.legend(frameon=False)
    return figure


def main(experiment: Experiment) -> str:
    """The section of the page."""
    steps = experiment.choose(STEPS, QUICK_STEPS)
    each = steps // len(TARGETS)
    found = {name: alone(soak, name, each) for name in TARGETS}
    saved = experiment.save(picture(found), "soak", "Resident memory over time, flat")
    rows = []
    for name, one in found.items():
        exact = TARGETS[name].mass()
        # Compiling and the warm-up are over by then.
        late = one.memory[1][len(one.memory[1]) // 3 :] / 2**20
        rows.append(
            [
                name,
                f"{one.seconds:.0f}",
                f"{one.mean:.4f} ± {one.mcse:.4f}",
                f"{exact:.4f}",
                str(one.lost),
                f"{one.off:.1e}",
                f"{late[0]:.0f}, {late[-1]:.0f}, {late.max():.0f}",
                f"{one.stored / 2**20:.0f}",
                one.faults,
            ]
        )
    heads = ["posterior", "seconds", "mass", "exact", "draws lost", "theta off", "memory, MB"]
    return (
        "## A long soak\n\n"
        f"{steps:,} steps of {CHAINS} chains of ContourSGLD with nothing given except `num_steps`, "
        "in float32 and in stores. Memory is that of the process after a third of the time, at the "
        "end, and at most after that third. Theta is off by the largest distance of a chain's "
        "total probability from 1. The mass is that of the larger mode, of the mode in the middle, "
        "and of a positive first coordinate, which the two modes overlap in.\n\n"
        f"{saved}\n" + markdown_table([*heads, "store, MB", "faults"], rows)
    )
