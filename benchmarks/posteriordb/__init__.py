"""Eight posteriors with reference draws: is every run right, or called bad? docs/benchmarks.md.

`python -m benchmarks posteriordb --only START ... --methods START ...` runs only the posteriors and
the kernels whose names have these prefixes, and rewrites the section from these and from the kept
scores of the others.
"""

from __future__ import annotations

import jax

from benchmarks.posteriordb.models import MODELS, Posterior
from benchmarks.posteriordb.results import keep, kept_of
from benchmarks.posteriordb.scores import KERNELS, REFERENCE, Length, score
from benchmarks.posteriordb.text import section
from benchmarks.shared.experiment import Experiment

LENGTH, QUICK_LENGTH = Length(500, 1000), Length(50, 50)
#: seeds of each kernel, and of NUTS
SEEDS, NUTS_SEEDS = 5, 1
QUICK = ("kidiq-kidscore_momiq",)
QUICK_KERNELS = ("ContourSGLD", REFERENCE)


def main(experiment: Experiment) -> str:
    """The section of the page."""
    posteriors = experiment.choose(tuple(MODELS), QUICK)
    names = experiment.choose((*KERNELS, REFERENCE), QUICK_KERNELS)
    length = experiment.choose(LENGTH, QUICK_LENGTH)
    for title in posteriors:
        if not title.startswith(experiment.only):
            continue
        posterior = Posterior.of(title)
        for name in names:
            if not name.startswith(experiment.methods):
                continue
            number = experiment.choose(NUTS_SEEDS if name == REFERENCE else SEEDS, 1)
            found = []
            for seed in range(number):
                found.append(score(posterior, name, seed, length))
                print(title, name, found[-1], flush=True)
                # Read again: another process may have kept those of other kernels meanwhile.
                keep(title, kept_of(title, experiment.folder) | {name: found}, experiment.folder)
            # Each run adds compiled programs.
            jax.clear_caches()
    kept = {title: kept_of(title, experiment.folder) for title in posteriors}
    return section({title: scores for title, scores in kept.items() if scores}, length)
