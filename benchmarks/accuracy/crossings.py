"""Crossings between modes with a poor partition or with noisy energies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from numpyro.infer import MCMC

from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import crossings, markdown_table, mean_and_error
from benchmarks.shared.targets import spread_starts, two_normals
from numpyro_contour import ContourSGLD, EnergyPartition
from numpyro_contour.examples.faults import narrow_modes, with_noise
from numpyro_contour.examples.faults import two_modes as plane

ten_dimensions = two_normals(10)


class Length(NamedTuple):
    """The number of chains, and the number of draws of ten steps in each."""

    chains: int = 32
    warmup: int = 1000
    draws: int = 5000


#: The partitions in two dimensions: their ends and the width of their bins, in nats.
LOWER, UPPER, WIDTH = 0.0, 20.0, 0.25


def started(
    length: Length,
    potential: Callable,
    dimensions: int,
    lower: float,
    upper: float,
    width: float,
    **given: Any,
) -> MCMC:
    """Run chains from both modes, with draws that are ten steps apart."""
    partition = EnergyPartition(lower, upper, max(3, round((upper - lower) / width)))
    kernel = ContourSGLD(
        potential_fn=potential,
        step_size=0.2,
        num_steps=10,
        draw="last",
        partition=partition,
        **given,
    )
    start = spread_starts(-1.5, 1.5, dimensions)(length.chains)
    return runs.run(kernel, length.warmup, length.draws, length.chains, init_params=start)


def run(length: Length, potential: Callable, dimensions: int, *edges: float, **given: Any) -> tuple:
    """Crossings of each chain between its draws, and the energies of the draws."""
    mcmc = started(length, potential, dimensions, *edges, **given)
    x = mcmc.get_samples(group_by_chain=True)
    energies = np.asarray(jax.vmap(jax.vmap(potential))(x))
    first = np.asarray(x[..., 0] if dimensions == 2 else x.sum(-1)) > 0
    return crossings(first), energies


def in_the_plane(length: Length, settings: int | None) -> list[list[str]]:
    """Rows: the two modes of `numpyro_contour.examples.faults`, 4 nats between them."""
    _, energies = run(length, plane, 2, LOWER, UPPER, WIDTH, zeta=0.0)
    typical = float(np.median(energies))
    changes: dict[str, dict[str, float]] = {"0 to 20 nats, bins of 0.25": {}}
    for above in (1.7, 3.6, 6.6):
        text = f"begins {above} nats above typical energies"
        changes[text] = {"lower": typical + above}
    for upper in (4.5, 4.0, 3.0):
        changes[f"ends at {upper:g} nats"] = {"upper": upper}
    for width in (1.0, 2.5, 6.0):
        changes[f"bins of {width:g} nats"] = {"width": width}
    rows = []
    for name, changed in list(changes.items())[:settings]:
        edges = {"lower": LOWER, "upper": UPPER, "width": WIDTH} | changed
        found, energies = run(length, plane, 2, *edges.values())
        rows.append([name, told(found), f"{(energies > edges['upper']).mean():.1%}"])
    found, _ = run(length, plane, 2, LOWER, UPPER, WIDTH, zeta=0.0)
    rows.append(["no flattening", told(found), ""])
    return rows


def told(found: np.ndarray) -> str:
    """The mean number of crossings and its error, as text."""
    return mean_and_error(found, 0, 1)


def noisy(length: Length, noises: tuple[float, ...]) -> list[list[str]]:
    """Rows: the two modes of one dimension in the same module, 12 nats between them."""
    rows = []
    for noise in noises:
        row = [f"{noise:g} nats"]
        for width in (0.25, 1.0):
            given = {"energy": with_noise(narrow_modes, noise)} if noise else {}
            found, error = with_weights(length, width, **given)
            row += [told(found), f"{error:.2f}"]
        rows.append(row)
    return rows


def with_weights(length: Length, width: float, **given: Any) -> tuple[np.ndarray, float]:
    """Crossings between the two modes, and the error of a chain's mass of one of them."""
    mcmc = started(length, narrow_modes, 1, 0.0, 30.0, width, **given)
    x, weights = runs.draws_of(mcmc)
    right = x[..., 0] > 0
    mass = (weights * right).mean(1)
    return crossings(right), float(np.sqrt(((mass - 0.6) ** 2).mean()))


def in_ten_dimensions(length: Length, widths: tuple[float, ...]) -> list[list[str]]:
    """Rows: the two modes of the defaults' benchmark, 11 nats between them."""
    _, energies = run(length, ten_dimensions, 10, 0.0, 40.0, 0.5, zeta=0.0)
    sd = float(np.mean([np.std(chain) for chain in energies]))
    rows = []
    for bins in widths:
        found, _ = run(length, ten_dimensions, 10, 0.0, 45.0, bins * sd)
        rows.append([f"bins of {bins:g} standard deviations of the energy", told(found)])
    return rows


def main(experiment: Experiment) -> str:
    """The section of the page."""
    choose = experiment.choose
    length = choose(Length(), Length(2, 20, 50))
    widths = choose((0.5, 1.0, 2.0, 4.5, 6.5), (1.0,))
    noises = choose((0.0, 1.0, 3.0, 6.0, 12.0, 30.0), (3.0,))
    tables = [
        markdown_table(
            ["partition", "crossings", "draws above it"], in_the_plane(length, choose(None, 1))
        ),
        markdown_table(["partition", "crossings"], in_ten_dimensions(length, widths)),
        markdown_table(
            [
                "noise",
                "crossings, bins of 0.25 nats",
                "error a chain",
                "crossings, bins of 1 nat",
                "error a chain, bins of 1 nat",
            ],
            noisy(length, noises),
        ),
    ]
    return (
        "## What the partition and the noise do to crossings\n\n"
        "The tables give crossings per chain between two unit normals, for "
        f"{length.chains} chains of {length.draws * 10:,} steps with step size 0.2, observed every "
        "tenth step. In two dimensions, with a barrier of 4 nats, when the energy partition "
        f"changes:\n\n{tables[0]}\nIn ten dimensions, with a barrier of 11 nats and bins from 0 to "
        f"45 nats, when the width of the bins changes:\n\n{tables[1]}\nIn one dimension, with a "
        "barrier of 12 nats and bins from 0 to 30 nats, when noise is added to the energies. The "
        "error of a chain is the root mean square error of the mass of the mode whose mass is "
        f"0.6:\n\n{tables[2]}"
    )
