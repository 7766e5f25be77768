"""Mixtures as users write them: do chains come to all labellings of the components?"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table, total_variation
from numpyro_contour import ContourSGLD, diagnose
from numpyro_contour.examples.datasets import read_columns
from numpyro_contour.kernels import all_chains

CHAINS, SEEDS, STEPS = 4, 3, 50
DRAWS = 1000
ROWS = 200


def normals(y: np.ndarray, components: int) -> None:
    """Normals of scale 1 whose means and weights are not known."""
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(components)))
    means = numpyro.sample("means", dist.Normal(0, 5).expand([components]))
    each = dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(means, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", each, obs=y)


def galaxies(y: np.ndarray, components: int) -> None:
    """Normals whose scales are not known either, for velocities in 1,000 km/s."""
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(components)))
    means = numpyro.sample("means", dist.Normal(20, 5).expand([components]))
    scales = numpyro.sample("scales", dist.LogNormal(0.5, 0.5).expand([components]))
    each = dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(means, scales))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", each, obs=y)


def made_up(components: int) -> np.ndarray:
    """Rows of as many normals, four scales apart."""
    rng = np.random.default_rng(0)
    centres = 4.0 * (np.arange(components) - (components - 1) / 2)
    y = centres[rng.integers(0, components, ROWS)] + rng.standard_normal(ROWS)
    return y.astype(np.float32)


def cases() -> dict[str, tuple[Callable, np.ndarray, int]]:
    """Models, their rows, and the number of their components, by name."""
    velocities = (read_columns("galaxies")["velocity_km_s"] / 1000.0).astype(np.float32)
    found = {f"{n} normals": (normals, made_up(n), n) for n in (2, 3, 4)}
    return found | {"galaxies, 3 normals": (galaxies, velocities, 3)}


@contextmanager
def labels_as_they_are() -> Iterator[None]:
    """Descents that do not begin with other labels."""
    with mock.patch.object(all_chains, "relabelling_of", return_value=None):
        yield


def shares(x: Any, weights: np.ndarray, components: int) -> np.ndarray:
    """The share of each labelling in each chain, (chains, labellings)."""
    order = np.argsort(np.asarray(x["means"]), -1)
    found = [
        (weights * (order == np.array(one)).all(-1)).sum(1) / weights.sum(1)
        for one in itertools.permutations(range(components))
    ]
    return np.stack(found, -1)


def row(name: str, they_are: bool, seeds: int, draws: int) -> list[str]:
    """The line of a model."""
    model, y, components = cases()[name]
    mcmc = runs.driver(ContourSGLD(model, num_steps=STEPS), draws // 2, draws, CHAINS)
    whole, single, faultless, known = [], [], 0, []
    jax.clear_caches()
    with labels_as_they_are() if they_are else nullcontext():
        for seed in range(seeds):
            with runs.quiet():
                mcmc.run(jax.random.key(seed), y, components)
                faultless += diagnose(mcmc).trusted
            found = shares(*runs.draws_of(mcmc), components)
            equal = np.full(found.shape[-1], 1 / found.shape[-1])
            whole.append(float(total_variation(found.mean(0), equal)))
            single.append(float(np.mean(total_variation(found, equal))))
            known.append(int(np.asarray(mcmc.last_state.warmup.modes.modes.known).sum()))
    return [
        name,
        f"{len(equal)}",
        "no" if they_are else "yes",
        ", ".join(map(str, known)),
        f"{np.mean(whole):.3f} ({max(whole):.3f})",
        f"{np.mean(single):.3f}",
        f"{faultless} of {seeds}",
    ]


def main(experiment: Experiment) -> str:
    """The section of the page."""
    seeds, draws = experiment.choose((SEEDS, DRAWS), (1, 60))
    names = experiment.choose(list(cases()), ["2 normals"])
    rows = [row(name, they_are, seeds, draws) for name in names for they_are in (True, False)]
    return (
        "## Labels of mixtures\n\n"
        "Mixtures whose components can be exchanged, with weights from a Dirichlet, run by "
        f"`ContourSGLD` with nothing given except `num_steps={STEPS}`: {CHAINS} chains, "
        f"{draws // 2} draws of warm-up and {draws:,} draws, {seeds} seeds. All labellings have "
        "the same mass. The table gives the total variation between it and the shares of the "
        "labellings, for runs (mean, and the largest) and for single chains (mean), without and "
        "with descents of the warm-up that begin with other labels.\n\n"
        + markdown_table(
            [
                *("mixture", "labellings", "other labels", "modes known"),
                *("TV of runs", "TV of chains", "faultless"),
            ],
            rows,
        )
    )
