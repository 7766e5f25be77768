"""What a run keeps in memory, and the peak memory of its process."""

from __future__ import annotations

from itertools import product
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.processes import alone, peak_bytes
from benchmarks.shared.tables import markdown_table
from numpyro_contour import ContourSGLD, EnergyPartition
from numpyro_contour.examples import mixture

DRAWS = (1000, 10_000)
BINS = (32, 128, 512)
CHAINS = (1, 16)


def tree_bytes(tree: Any) -> int:
    """The bytes of all arrays of a tree."""
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


def run(draws: int, bins: int, chains: int, collect_theta: bool) -> dict[str, int]:
    """The bytes of a run's draws and of its last state, and this process's peak around it."""
    before = peak_bytes()
    kernel = ContourSGLD(
        potential_fn=mixture.potential,
        step_size=0.1,
        partition=EnergyPartition(1.0, 51.0, bins),
        num_steps=10,
        collect_theta=collect_theta,
    )
    start = jnp.zeros((chains,) if chains > 1 else ())
    mcmc = runs.run(kernel, 0, draws, chains, init_params=start)
    peak = peak_bytes()
    # The draws by chain are NumPyro's own arrays; joined to one axis they would be a copy.
    samples = mcmc.get_samples(group_by_chain=True)
    fields = mcmc.get_extra_fields(group_by_chain=True)
    return {
        "draws": tree_bytes(samples) + tree_bytes(fields),
        "state": tree_bytes(mcmc.last_state),
        "before": before,
        "peak": peak,
    }


def main(experiment: Experiment) -> str:
    """The section of the page."""
    settings = product(
        experiment.choose((True, False), (True,)),
        experiment.choose(BINS, BINS[:1]),
        experiment.choose(CHAINS, CHAINS[-1:]),
        experiment.choose(DRAWS, (100,)),
    )
    rows = []
    for theta, bins, chains, draws in settings:
        found = alone(run, draws, bins, chains, theta)
        rows.append(
            [
                *("yes" if theta else "no", str(bins), str(chains), f"{draws:,}"),
                f"{found['draws'] / (draws * chains):,.0f}",
                f"{found['state'] / chains:,.0f}",
                f"{(found['draws'] + found['state']) / 2**20:,.1f}",
                f"{found['before'] / 2**20:,.0f}",
                f"{(found['peak'] - found['before']) / 2**20:,.0f}",
            ]
        )
    header = [
        *("`collect_theta`", "bins", "chains", "draws"),
        *("bytes a draw", "bytes of a chain's state", "MiB kept"),
        *("peak before the run, MiB", "growth of the peak during the run, MiB"),
    ]
    return (
        "## Memory\n\n`ContourSGLD` runs on the mixture of two Gaussians, with 10 steps per draw "
        "and vectorised chains. A draw is that of one chain, with all fields that are collected "
        "for it. The peak is the largest resident memory of a process that does only this run. "
        "Everything is imported before the run, so the growth during the run comes from compiling "
        "and from draws.\n\n" + markdown_table(header, rows)
    )
