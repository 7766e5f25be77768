"""Whether runs that are too short, of one chain or of four, are called faultless when wrong."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax import random

from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.models import amplitude, amplitude_by_grid, amplitude_data
from benchmarks.shared.tables import markdown_table
from numpyro_contour import SGLD, ContourSGLD, diagnose, expectation, to_inference_data
from numpyro_contour.examples import nine_modes
from numpyro_contour.output.equal_weights import weighted_of
from numpyro_contour.statistics.arviz_versions import from_datasets, to_datasets

WARMUP = 500
NOISE = 3.5
SCALES = jnp.array([0.3, 1.0, 3.0])
#: Where the outer columns of the nine modes begin.
COLUMN = nine_modes.MODE_GRID[2] / 2
#: A run is wrong if an answer is off by more than so many of its reported errors.
ERRORS = 3.0
#: Groups that are of all chains of a run together, and tell nothing of some of them.
OF_ALL_CHAINS = ("equipartition", "gradient")

#: A function of the draws by name, and its exact expectation.
Answers = dict[str, tuple[Callable[[xr.Dataset], Any], float]]


class Target(NamedTuple):
    """What is sampled, and with which answers it is compared."""

    kernel: Callable[[int], Any]
    answers: Answers
    data: tuple = ()
    #: dimensions of a potential's position, 0 for a model
    dim: int = 0


def normals(x: jax.Array) -> jax.Array:
    """Three normals with scales from 0.3 to 3."""
    return 0.5 * jnp.sum((x / SCALES) ** 2)


def targets() -> dict[str, Target]:
    """One, two and nine modes."""
    y = amplitude_data(NOISE)
    two: Answers = {"P": (lambda p: p["a"] > 0, amplitude_by_grid(y, NOISE)[0])}
    columns = nine_modes.exact_masses().sum(1)
    nine: Answers = {
        "left": (lambda p: p["z"][..., 0] < -COLUMN, columns[0]),
        "right": (lambda p: p["z"][..., 0] > COLUMN, columns[2]),
    }
    one: Answers = {
        f"mean {i}": (lambda p, i=i: p["z"][..., i], 0.0)  # type: ignore[misc]
        for i in range(3)
    }
    of_potential = lambda kernel, f: lambda steps: kernel(potential_fn=f, num_steps=steps)
    return {
        "two modes": Target(lambda steps: ContourSGLD(amplitude, num_steps=steps), two, (y, NOISE)),
        "two modes, SGLD": Target(lambda steps: SGLD(amplitude, num_steps=steps), two, (y, NOISE)),
        "nine modes": Target(of_potential(ContourSGLD, nine_modes.potential), nine, dim=2),
        "one mode": Target(of_potential(ContourSGLD, normals), one, dim=3),
    }


#: target, draws and steps of a draw
BUDGETS = (
    ("two modes", 1000, 1),
    ("two modes", 1000, 3),
    ("two modes", 1000, 10),
    ("two modes", 5000, 4),
    ("two modes", 1000, 30),
    ("two modes", 1000, 100),
    ("two modes", 1000, 300),
    ("two modes", 1000, 1000),
    ("two modes, SGLD", 1000, 100),
    ("nine modes", 1000, 10),
    ("nine modes", 1000, 100),
    ("nine modes", 1000, 300),
    ("one mode", 1000, 5),
    ("one mode", 1000, 20),
)


def cut(groups: dict[str, xr.Dataset], chains: slice) -> Any:
    """Some of the chains, as a run of their own would be stored."""
    return from_datasets(
        {
            name: group.isel(chain=chains, missing_dims="ignore")
            for name, group in groups.items()
            if name not in OF_ALL_CHAINS
        }
    )


def outcome(idata: Any, answers: Answers) -> tuple[str, str]:
    """Whether a run is right, and what its report says."""
    answer = "right"
    for function, exact in answers.values():
        found = expectation(idata, function)
        mean, error = float(found.mean), float(found.mcse)
        if not np.isfinite(error):
            answer = "no error"
        elif abs(mean - exact) > ERRORS * error:
            answer = "wrong"
            break
    report = diagnose(idata)
    if report.faults:
        return answer, "bad"
    return answer, "faultless" if report.trusted else "one chain"


def counts(
    target: Target, draws: int, steps: int, chains: int, together: int
) -> Counter[tuple[str, str]]:
    """Runs of so many chains `together`, by answer and verdict."""
    start = {}
    if target.dim:
        shape = (chains, target.dim)
        start = {"init_params": random.uniform(random.key(1), shape, minval=-2, maxval=2)}
    mcmc = runs.run(target.kernel(steps), WARMUP, draws, chains, *target.data, **start)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        groups = weighted_of(to_datasets(to_inference_data(mcmc)))
        found = [
            outcome(cut(groups, slice(begin, begin + size)), target.answers)
            for size in (1, together)
            for begin in range(0, chains, size)
        ]
    return Counter({("one", *key): n for key, n in Counter(found[:chains]).items()}) + Counter(
        {("several", *key): n for key, n in Counter(found[chains:]).items()}
    )


def row(name: str, draws: int, steps: int, found: Counter, size: str, verdicts: str) -> list[str]:
    """A line of the table."""
    number = lambda *key: found[(size, *key)]
    total = sum(n for key, n in found.items() if key[0] == size)
    cells = [
        f"{number(answer, 'bad')} / {number(answer, verdicts)}"
        for answer in ("right", "no error", "wrong")
    ]
    return [name, f"{draws * steps:,}", str(total), *cells]


def main(experiment: Experiment) -> str:
    """The section of the page."""
    chains, together = experiment.choose((64, 4), (4, 2))
    known, single, several = targets(), [], []
    for name, draws, steps in experiment.choose(BUDGETS, BUDGETS[:1]):
        found = counts(known[name], draws, steps, chains, together)
        single.append(row(name, draws, steps, found, "one", "one chain"))
        several.append(row(name, draws, steps, found, "several", "faultless"))
        print(*single[-1], "|", *several[-1], flush=True)
    header = ["target", "steps of a chain", "runs", "right", "no error given", "wrong"]
    return (
        "## What one chain can tell\n\n"
        f"Runs of {chains} chains, after {WARMUP} draws of warm-up and with nothing given, are cut "
        "into runs of one chain each. An answer is the probability of a mode, or a mean. It is "
        f"wrong if it is off by more than {ERRORS:g} of its reported errors. In each cell stand "
        "the runs that `diagnose` calls bad / those in which it finds no fault, and says that one "
        "chain cannot show whether others would agree:\n\n"
        + markdown_table(header, single)
        + f"\nThe same runs, {together} chains at a time. In each cell stand the runs that are "
        "called bad / those called faultless:\n\n" + markdown_table(header, several)
    )
