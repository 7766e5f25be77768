"""Jumps between modes that the warm-up finds, beside the same kernels without jumps.

`python -m benchmarks peers.known_modes --only START ...` measures only the posteriors whose names
have these prefixes, and rewrites the section with the lines that are kept of the others.
"""

from __future__ import annotations

import json
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import jax
import numpy as np

from benchmarks.peers.methods import CHAINS, RUNS, Method, Outcome, score
from benchmarks.peers.ours import drawn_by, sample
from benchmarks.peers.target import Target
from benchmarks.peers.targets import targets
from benchmarks.peers.text import error
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from numpyro_contour.modes.found_modes import slots

KERNEL = "ContourSGLD"
#: kernels that are also run on some posteriors, by the beginnings of their names
OTHERS = {
    "ContourSGHMC": ("mixture", "two modes, 20-d", "LogGamma"),
    "SGLD": ("mixture", "two modes, 20-d", "LogGamma"),
}
#: gradients of a chain in the quick form: the warm-up searches for modes once
QUICK = 10_000


@dataclass(frozen=True)
class Jumped:
    """A kernel's runs with and without jumps, and what the former knew."""

    with_jumps: Outcome
    without: Outcome
    #: number of modes that chains knew
    modes: int
    #: tries to jump of all chains, and those that were accepted
    tried: int
    made: int


def measure(number: int, kernel: str, gradients: int | None = None) -> Jumped:
    """The runs of a kernel on a target, with as many gradients as it has unless told."""
    target = targets()[number]
    target.truth  # noqa: B018 - computed here to keep it out of the time
    gradients = target.gradients if gradients is None else gradients
    outcomes = []
    modes, tried, made = 0, 0, 0
    for jumps in (None, False):
        begin = time.perf_counter()
        mcmc = sample(kernel, target, gradients, jumps=jumps)
        seconds = time.perf_counter() - begin
        method = Method(kernel, None)
        outcomes.append(score(target, method, drawn_by(mcmc, gradients), seconds, 0.0))
        warmup = mcmc.last_state.warmup
        if jumps is None:
            # All chains have the modes in common.
            modes = int(np.asarray(warmup.modes.modes.known).sum())
            counts = jax.tree.map(lambda n: int(np.asarray(n).sum()), warmup.jumps)
            tried, made = counts.tried, counts.made
    return Jumped(*outcomes, modes, tried, made)


def row(target: Target, kernel: str, found: Jumped) -> list[str]:
    """The line of a kernel on a target."""
    first, second = found.with_jumps, found.without
    masses = [
        f"{first.chain_variation.mean():.3f}",
        f"{second.chain_variation.mean():.3f}",
        error(first.variation),
        error(second.variation),
    ]
    return [
        target.name,
        f"`{kernel}`",
        f"{target.gradients // 1000:,}",
        f"{found.modes}",
        f"{found.made / found.tried:.2f}" if found.tried else "no tries",
        *(masses if len(target.truth.masses) > 1 else [""] * 4),
        error(first.mean_error),
        error(second.mean_error),
    ]


def jobs() -> list[tuple[int, str]]:
    """The numbers of targets and the kernels that are run on them."""
    names = [target.name for target in targets()]
    found = [(number, KERNEL) for number in range(len(names))]
    for kernel, starts in OTHERS.items():
        found += [(n, kernel) for n, name in enumerate(names) if name.startswith(starts)]
    return found


def section(rows: list[list[str]]) -> str:
    """The text around the table."""
    header = ["posterior", "kernel", "1,000 gradients a chain", "modes known", "accepted"]
    header += [f"TV{of}, {how}" for of in (" of single chains", "") for how in ("jumps", "none")]
    header += ["error of means, jumps", "none"]
    return (
        "## Jumps between modes that are known\n\n"
        "Runs are like those of the section before, with nothing given except "
        f"`num_steps`: {RUNS} runs of {CHAINS} chains, which are made together and so know the "
        f"same modes, {slots(1)} at most ({slots(50)} in more than 20 coordinates). In the columns "
        "of 'none' stand the same kernels with "
        "`jumps=False`, which take as many gradients, all of them in steps. Modes known are those "
        "that the warm-up has found; one mode means that there are no jumps. Accepted is the share "
        "of the tries of all chains. The number of many wells that are on the right takes 17 "
        "values, on 65,536 modes. LogGamma and the egg-box are posteriors on a cube with a uniform "
        "prior, whose coordinates are the standard normal distribution function of those that are "
        "drawn.\n\n" + markdown_table(header, rows)
    )


def kept_in(folder: Path) -> dict[str, list[str]]:
    """The lines that were kept, by posterior and kernel."""
    place = folder / "peers" / "known-modes.json"
    return json.loads(place.read_text()) if place.exists() else {}


def keep(target: Target, kernel: str, line: list[str], folder: Path) -> None:
    """Add a line to those that are kept, or put it in place of the old one."""
    lines = kept_in(folder) | {f"{target.name}: {kernel}": line}
    place = folder / "peers" / "known-modes.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    order = [f"{targets()[number].name}: {name}" for number, name in jobs()]
    rows = (f"{json.dumps(k)}: {json.dumps(lines[k])}" for k in order if k in lines)
    place.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def main(experiment: Experiment) -> str:
    """The section of the page."""
    if experiment.quick:
        return section([row(targets()[0], KERNEL, measure(0, KERNEL, QUICK))])
    # The programs that a process has compiled are freed with it.
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        for number, kernel in jobs():
            target = targets()[number]
            if target.name.startswith(experiment.only):
                found = pool.submit(measure, number, kernel).result()
                keep(target, kernel, row(target, kernel, found), experiment.folder)
                print(*row(target, kernel, found), sep=" | ", flush=True)
    return section(list(kept_in(experiment.folder).values()))
