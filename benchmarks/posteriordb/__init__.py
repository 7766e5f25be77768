"""Eight posteriors with reference draws: is every run right, or called bad? docs/benchmarks.md."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpyro.infer import MCMC, NUTS

from benchmarks.posteriordb.models import MODELS, Posterior
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.runs import draws_of, quiet, run
from benchmarks.shared.tables import markdown_table
from numpyro_contour import ContourSGLD, diagnose, to_inference_data
from numpyro_contour.diagnostics import weighted_rhat

NUM_STEPS, WARMUP, DRAWS, CHAINS, SEEDS = 100, 500, 1000, 4, 5
#: what is right: errors of means in posterior standard deviations, ratios of these
_MOST_OFF, _RATIOS = 0.1, (0.9, 1.1)
HEADER = [
    *("posterior", "kernel", "right", "worst mean, sds", "sd ratios", "R-hat"),
    *("wrong but faultless", "right but faulty", "seconds a run"),
]


@dataclass(frozen=True)
class Score:
    """How well a run did."""

    #: largest error of a mean in posterior standard deviations
    error: float
    #: the least and the largest ratio of standard deviations
    ratios: tuple[float, float]
    rhat: float
    faultless: bool
    seconds: float

    @property
    def right(self) -> bool:
        """Whether all means and standard deviations are."""
        low, high = self.ratios
        return self.error <= _MOST_OFF and _RATIOS[0] <= low and high <= _RATIOS[1]


def score(posterior: Posterior, kernel: Any, seed: int, warmup: int, draws: int) -> Score:
    """A run against the reference."""
    began = time.perf_counter()
    mcmc = run(kernel, warmup, draws, CHAINS, seed=seed, **posterior.data)
    if isinstance(kernel, NUTS):
        samples = mcmc.get_samples(group_by_chain=True)
        weights = np.ones((CHAINS, draws))
    else:
        samples, weights = draws_of(mcmc)
    seconds = time.perf_counter() - began
    values, weights = posterior.values(samples), weights[..., None]
    means = (weights * values).mean((0, 1)) / weights.mean()
    sds = np.sqrt((weights * (values - means) ** 2).mean((0, 1)) / weights.mean())
    exact, scale = np.transpose(list(posterior.reference.values()))
    ratios = sds / scale
    return Score(
        float(np.abs((means - exact) / scale).max()),
        (float(ratios.min()), float(ratios.max())),
        float(np.max(weighted_rhat(values, np.log(weights[..., 0])))),
        isinstance(kernel, NUTS) or _faultless(mcmc),
        seconds,
    )


def _faultless(mcmc: MCMC) -> bool:
    with quiet():
        return diagnose(to_inference_data(mcmc)).trusted


def main(experiment: Experiment) -> str:
    """The section of the page."""
    seeds = range(experiment.choose(SEEDS, 1))
    warmup, draws = experiment.choose((WARMUP, DRAWS), (50, 50))
    rows, ours = [], []
    for name in experiment.choose(tuple(MODELS), ("kidiq-kidscore_momiq",)):
        posterior = Posterior.of(name)
        contour = ContourSGLD(posterior.model, num_steps=NUM_STEPS)
        scores = [score(posterior, contour, seed, warmup, draws) for seed in seeds]
        nuts = [score(posterior, NUTS(posterior.model), 0, warmup, draws)]
        ours += scores
        rows += [_row(name, "ContourSGLD", scores), _row("", "NUTS", nuts)]
        print(*rows[-2:], sep="\n", flush=True)
    right = sum(one.right for one in ours)
    hidden = sum(not one.right and one.faultless for one in ours)
    return f"""## Posteriors with reference draws

Eight posteriors of [posteriordb](https://github.com/stan-dev/posteriordb), whose means and standard
deviations come from 10,000 draws of Stan's NUTS. `ContourSGLD` is given nothing except
`num_steps={NUM_STEPS}`, and makes {WARMUP:,} draws of warm-up and {DRAWS:,} draws after it with
{CHAINS} chains and {SEEDS} seeds. One run of NUTS with as many draws stands beside it. A run is
right if no mean is off by more than {_MOST_OFF:g} standard deviations, and every standard deviation
is {_RATIOS[0]:g} to {_RATIOS[1]:g} times that of the reference. The next columns give the largest
error, the range of the ratios and the largest R-hat of all runs. The last ones count the runs that
are wrong though `diagnose` finds no fault, and those that are right though it finds one.

{right} of {len(ours)} runs are right, and {hidden} of those that are wrong are without fault.

{markdown_table(HEADER, rows)}"""


def _row(name: str, kernel: str, scores: list[Score]) -> list[str]:
    ratios = [ratio for one in scores for ratio in one.ratios]
    return [
        name,
        kernel,
        f"{sum(one.right for one in scores)} of {len(scores)}",
        f"{max(one.error for one in scores):.3f}",
        f"{min(ratios):.2f} to {max(ratios):.2f}",
        f"{max(one.rhat for one in scores):.3f}",
        *(
            str(sum(one.faultless != one.right for one in scores if one.right is right))
            if kernel != "NUTS"
            else ""
            for right in (False, True)
        ),
        f"{np.median([one.seconds for one in scores]):.0f}",
    ]
