"""Whether the gain of theta during the collection of draws moves the answers."""

from __future__ import annotations

from collections.abc import Callable

import jax

from benchmarks.barriers.climbs import Climb, climb
from benchmarks.barriers.gaussians import LENGTH, at_first, two_normals
from benchmarks.barriers.label_switching import data, lower_first, model
from benchmarks.barriers.unequal import PRIOR
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from numpyro_contour import robbins_monro
from numpyro_contour.schedules import Schedule
from numpyro_contour.warmup.stages.climb import NUM_BINS


def fixed(count: jax.Array) -> jax.Array:
    """Theta stays as the warm-up leaves it."""
    return 0.0 * count


GAINS: dict[str, Schedule] = {
    "m / k, the default": robbins_monro(NUM_BINS, 1.0, 0.0, maximum=0.5),
    "half of it": robbins_monro(NUM_BINS / 2, 1.0, 0.0, maximum=0.5),
    "a tenth of it": robbins_monro(NUM_BINS / 10, 1.0, 0.0, maximum=0.5),
    "none": fixed,
}


def main(experiment: Experiment) -> str:
    """The section of the page."""
    short = {"draws": 60, "num_steps": 20}
    gaussians = experiment.choose(LENGTH, short)
    rows = []
    targets: dict[str, Callable[[Schedule], Climb]] = {}
    for height in experiment.choose((40, 100), (40,)):
        potential, mean = two_normals(height, 5)
        targets[f"{height} nats, 5 dimensions, 16 chains"] = _of_gaussian(
            potential, mean, float(height), gaussians
        )
    if not experiment.quick:
        targets["two normals whose labels differ"] = lambda gain: climb(
            lower_first, data(), *PRIOR, model=model, barrier=400.0, gain=gain
        )
    for name, run in targets.items():
        found = {label: run(gain) for label, gain in GAINS.items()}
        base = next(iter(found.values()))
        for label, other in found.items():
            difference = other.mass - base.mass
            error = (other.error**2 + base.error**2) ** 0.5
            rows.append(
                [
                    name,
                    label,
                    f"{other.mass:.3f} ± {other.error:.3f}",
                    "" if other is base else f"{difference:+.3f} ± {error:.3f}",
                    str(int(other.crossings.min())),
                    f"{other.kish.min():.2f}",
                ]
            )
    columns = ["target", "gain", "mass", "difference", "fewest crossings", "lowest Kish share"]
    return (
        "## The gain while draws are collected\n\n"
        "After the warm-up, theta is still updated, with a gain of m / k nats per visit. Here m = "
        f"{NUM_BINS} is the number of bins, and k counts the steps since learning began. Each "
        "chain's draws are weighted by the theta at their own time.\n\n"
        f"{markdown_table(columns, rows)}\n"
    )


def _of_gaussian(
    potential: Callable, mean: jax.Array, barrier: float, length: dict[str, int]
) -> Callable[[Schedule], Climb]:
    return lambda gain: climb(
        at_first,
        potential_fn=potential,
        start=mean,
        barrier=barrier,
        gain=gain,
        chains=16,
        **length,
    )
