"""Crossings between modes where the partition, or the noise of the energy, is not right."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import MCMC

from benchmarks.defaults import spread_starts
from benchmarks.defaults import two_modes as ten_dimensions
from benchmarks.tables import markdown_table
from numpyro_contour import ContourSGLD, EnergyPartition, weighted_samples
from numpyro_contour.examples.faults import narrow_modes, with_noise
from numpyro_contour.examples.faults import two_modes as plane

CHAINS = 32
DRAWS = 5000
#: Of the partition in two dimensions that is varied: its ends and the width of its bins, nats.
LOWER, UPPER, WIDTH = 0.0, 20.0, 0.25


def started(
    potential: Callable, dimensions: int, lower: float, upper: float, width: float, **given: Any
) -> MCMC:
    """Chains from both modes, whose draws are ten steps apart."""
    partition = EnergyPartition(lower, upper, max(3, round((upper - lower) / width)))
    kernel = ContourSGLD(
        potential_fn=potential,
        step_size=0.2,
        num_steps=10,
        draw="last",
        partition=partition,
        **given,
    )
    mcmc = MCMC(
        kernel,
        num_warmup=1000,
        num_samples=DRAWS,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    start = jnp.asarray(spread_starts(-1.5, 1.5, dimensions)(CHAINS))
    mcmc.run(random.key(0), init_params=start)
    return mcmc


def run(potential: Callable, dimensions: int, *edges: float, **given: Any) -> tuple:
    """Crossings of each chain between its draws, and the energies of the draws."""
    x = started(potential, dimensions, *edges, **given).get_samples(group_by_chain=True)
    energies = np.asarray(jax.vmap(jax.vmap(potential))(x))
    first = np.asarray(x[..., 0] if dimensions == 2 else x.sum(-1)) > 0
    return (first[:, 1:] != first[:, :-1]).sum(1), energies


def told(crossings: np.ndarray) -> str:
    """The mean over the chains, and its error."""
    return f"{crossings.mean():.0f} +- {crossings.std(ddof=1) / len(crossings) ** 0.5:.1f}"


def in_the_plane() -> list[list[str]]:
    """Rows: the two modes of `numpyro_contour.examples.faults`, 4 nats between them."""
    _, energies = run(plane, 2, LOWER, UPPER, WIDTH, zeta=0.0)
    typical = float(np.median(energies))
    settings: dict[str, dict[str, float]] = {"0 to 20 nats, bins of 0.25": {}}
    for above in (1.7, 3.6, 6.6):
        text = f"begins {above} nats above typical energies"
        settings[text] = {"lower": typical + above}
    for upper in (4.5, 4.0, 3.0):
        settings[f"ends at {upper:g} nats"] = {"upper": upper}
    for width in (1.0, 2.5, 6.0):
        settings[f"bins of {width:g} nats"] = {"width": width}
    rows = []
    for name, changed in settings.items():
        edges = {"lower": LOWER, "upper": UPPER, "width": WIDTH} | changed
        crossings, energies = run(plane, 2, *edges.values())
        rows.append([name, told(crossings), f"{(energies > edges['upper']).mean():.1%}"])
    crossings, _ = run(plane, 2, LOWER, UPPER, WIDTH, zeta=0.0)
    rows.append(["no flattening", told(crossings), ""])
    return rows


def noisy() -> list[list[str]]:
    """Rows: the two modes of one dimension in the same module, 12 nats between them."""
    rows = []
    for noise in (0.0, 1.0, 3.0, 6.0, 12.0, 30.0):
        row = [f"{noise:g} nats"]
        for width in (0.25, 1.0):
            given = {"energy": with_noise(narrow_modes, noise)} if noise else {}
            crossings, error = with_weights(width, **given)
            row += [told(crossings), f"{error:.2f}"]
        rows.append(row)
    return rows


def with_weights(width: float, **given: Any) -> tuple[np.ndarray, float]:
    """Crossings between the two modes, and the error of a chain's mass of one of them."""
    mcmc = started(narrow_modes, 1, 0.0, 30.0, width, **given)
    x, log_weights = weighted_samples(mcmc)
    right = np.asarray(x)[..., 0] > 0
    mass = (np.exp(log_weights) * right).mean(1)
    error = float(np.sqrt(((mass - 0.6) ** 2).mean()))
    return (right[:, 1:] != right[:, :-1]).sum(1), error


def in_ten_dimensions() -> list[list[str]]:
    """Rows: the two modes of the defaults' benchmark, 11 nats between them."""
    _, energies = run(ten_dimensions, 10, 0.0, 40.0, 0.5, zeta=0.0)
    sd = float(np.mean([np.std(chain) for chain in energies]))
    rows = []
    for bins in (0.5, 1.0, 2.0, 4.5, 6.5):
        crossings, _ = run(ten_dimensions, 10, 0.0, 45.0, bins * sd)
        rows.append([f"bins of {bins:g} standard deviations of the energy", told(crossings)])
    return rows


def main() -> str:
    """The tables, as text."""
    with warnings.catch_warnings():
        # That these runs are bad is their purpose.
        warnings.simplefilter("ignore", UserWarning)
        tables = [
            markdown_table(["partition", "crossings", "draws above it"], in_the_plane()),
            markdown_table(["partition", "crossings"], in_ten_dimensions()),
            markdown_table(
                [
                    "noise",
                    "crossings, bins of 0.25 nats",
                    "error a chain",
                    "crossings, bins of 1 nat",
                    "error a chain, bins of 1 nat",
                ],
                noisy(),
            ),
        ]
    return (
        "## What the partition and the noise do to crossings\n\n"
        f"Crossings a chain between two unit normals ({CHAINS} chains of {DRAWS * 10:,} steps of "
        "0.2, seen every tenth step). In two dimensions, with a barrier of 4 nats, as the energy "
        f"partition is changed:\n\n{tables[0]}\nIn ten dimensions, with a barrier of 11 nats "
        f"and bins from 0 to 45 nats:\n\n{tables[1]}\nIn one dimension, with a barrier of 12 "
        "nats and bins from 0 to 30 nats, as noise is added to the energies; the root mean square "
        f"error of a chain's mass of the mode of 0.6:\n\n{tables[2]}"
    )


if __name__ == "__main__":
    print(main())
