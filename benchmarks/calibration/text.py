"""What the ranks say: a table of p-values, and one of the quantities that are off."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from benchmarks.calibration.envelopes import SIMULATED, VALUES, p_of_model, p_value
from benchmarks.calibration.exact import KNOWN, exact_shares
from benchmarks.calibration.figure import overview
from benchmarks.calibration.ranks import AMONG, CHAINS, Ranks
from benchmarks.calibration.runs import (
    AS_THEY_ARE,
    BROKEN,
    IGNORED,
    MENDED,
    RUNS,
    TOO_LARGE,
    WITHOUT_WEIGHTS,
)
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table, mean_and_error

ByQuantity = dict[str, list[int]]

#: least number of faultless runs whose ranks are looked at on their own
ENOUGH = 30
#: below this a p-value is said to be off
LIMIT = 0.05
HEADER = [
    *("model", "quantities", "data sets", "least p", "p of the model", "runs called bad"),
    *("p without them", "p with weights ignored", "seconds a run"),
]


#: what was found out about models that are off
REASONS = {
    "horseshoe": "What is off comes from data sets in which a scale from the tail of a Cauchy "
    "distribution makes values of hundreds or thousands of times the noise. Runs of "
    "this length do not find slopes of that size, and the draws have too much noise and energy. "
    "With four times the steps the ranks stay inside. `diagnose` calls every run bad in both "
    "cases, most by length or warm-up.",
    "funnel": "Chains seldom go down the neck, and draws of v are too large: most of all in the "
    "runs that `diagnose` calls bad, by length and warm-up, and far less in the others (last "
    "table). Four times the steps take away less than half of it.",
}


def section(experiment: Experiment, found: dict[str, Ranks]) -> str:
    """What was found, by model."""
    models = {name: found[name].weighted for name in AS_THEY_ARE if name in found}
    mended = {name: found[name].weighted for name in MENDED if name in found}
    broken = {WITHOUT_WEIGHTS: found[IGNORED].unweighted}
    broken |= {name: found[name].weighted for name in BROKEN if name in found}
    plt.switch_backend("Agg")
    figure = experiment.save(
        overview(models | mended | broken),
        "calibration",
        "How far the ranks of all quantities are from uniform, by model, over envelopes of 95 %",
    )
    plt.close("all")
    each = [p_value(ranks) for of_model in models.values() for ranks in of_model.values()]
    wrong = [name for name, ranks in models.items() if p_of_model(ranks) < LIMIT]
    unweighted = sum(
        p_of_model(found[name].unweighted) < LIMIT for name in models if name not in wrong
    )
    reasons = "".join(f"- *{name}*: {REASONS[name]}\n" for name in wrong if name in REASONS)
    caught = [name for name, ranks in broken.items() if p_of_model(ranks) < LIMIT]
    return f"""## Simulation-based calibration

A model's prior draws parameters, and these make data. Where draws from the posterior of the data
are right, the prior's draw is as likely to have any rank among them as any other (Talts et al.
2018). Each model (`benchmarks/calibration/models.py`) has {_sizes(found)} such data sets, and each
of them a run of `ContourSGLD` with {CHAINS} chains, with nothing given but `num_steps`, which is 50
or 100 (and `minibatch_size` in the logistic regression). After 80 or 100 draws of warm-up there are
120 or 200 draws a chain. Rows that say so were run with other settings, on the same data sets.
`resample` takes {AMONG} draws of equal weight from all chains, every fifth to eighth on the
average, so that they are nearly independent. One of the quantities is *energy*, minus the log of
the joint density of parameters and data, which tells of errors that ranks of the parameters do not
see (Modrák et al. 2023).

The figure shows the distribution function of the ranks minus that of uniform ones. The grey
envelopes are ArviZ's: a quantity stays inside everywhere with probability 95 %, if its ranks are
uniform (Säilynoja, Bürkner and Vehtari 2022). Those that leave it have a colour and a name. A
p-value says how often uniform ranks stray as far, from {SIMULATED:,} simulated sets. That of a
model is the least of its quantities times their number.

{figure}
Of {len(each)} quantities of {len(models)} models {sum(p < LIMIT for p in each)} are outside, where
chance alone would leave {LIMIT * len(each):.0f}. {_of_wrong(wrong)} With the weights ignored
{unweighted} more would be off. {len(caught)} of the {len(broken)} runs that are broken on
purpose are off (the weights ignored, or the step size {TOO_LARGE:g} times as large as the one
found). The latter needs a posterior that is not normal, for which moves with averaged noise are
exact at every stable step size.

{table(found)}
A run is called bad by `diagnose` without the checks for which programs are compiled anew for each
data set (variances, gradient, curvature, bridges between modes). The column after it has the
ranks of the other runs, if they are at least {ENOUGH}. Whether a run is called bad depends on the
data and the draws but not on the prior's draw, so that these have to be nearly uniform too.
Seconds are of a busy machine, without compiling.

{reasons}
These quantities are outside on their own. The mean rank is above 0.5 where draws are too small, and
the spread of the ranks, over that of uniform ones, is above 1 where they are too narrow.

{off(models | mended | broken)}
Some posteriors are known by integration. This is how far the ranks / 100 are from the probability
below the prior's draw in the exact posterior of the same data, in the mean over data sets, which
leaves chance in the prior's draws out. Draws are too large where it is below 0.

{beside_exact(found)}"""


def _of_wrong(wrong: list[str]) -> str:
    """Which models are off by their p-value."""
    if not wrong:
        return "No model is off."
    return f"Models whose p-value is below {LIMIT:g}: {', '.join(wrong)}."


def _sizes(found: dict[str, Ranks]) -> str:
    return " or ".join(sorted({str(len(ranks.faults)) for ranks in found.values()}))


def table(found: dict[str, Ranks]) -> str:
    """A row for each model."""
    return markdown_table(HEADER, [row(name, ranks) for name, ranks in found.items()])


def row(name: str, ranks: Ranks) -> list[str]:
    """The cells of a model."""
    each = {quantity: p_value(found) for quantity, found in ranks.weighted.items()}
    least = min(each, key=lambda quantity: each[quantity])
    bad = sum(map(bool, ranks.faults))
    faultless = ranks.of_faultless()
    enough = bad and len(ranks.faults) - bad >= ENOUGH
    return [
        name,
        str(len(each)),
        str(len(ranks.faults)),
        f"{shown(each[least])} ({least})",
        shown(p_of_model(ranks.weighted)),
        str(bad),
        shown(p_of_model(faultless)) if enough else "",
        shown(p_of_model(ranks.unweighted)),
        f"{np.median(ranks.seconds):.1f}",
    ]


def shown(p: float) -> str:
    """A p-value, with three digits after the point as far as the simulated sets tell them."""
    return f"{p:.3f}" if p >= 10 / SIMULATED else "< 0.001"


def off(found: dict[str, ByQuantity]) -> str:
    """A row for each quantity whose own p-value is below the limit."""
    rows = [
        [name, quantity, shown(p_value(ranks)), f"{mean_of(ranks):.3f}", f"{spread_of(ranks):.2f}"]
        for name, of_model in found.items()
        for quantity, ranks in of_model.items()
        if p_value(ranks) < LIMIT
    ]
    header = ["model", "quantity", "p", "mean rank / 100", "spread of ranks"]
    return markdown_table(header, rows) if rows else "None is.\n"


def beside_exact(found: dict[str, Ranks]) -> str:
    """How far ranks are from those in the exact posteriors of the same data, in the mean."""
    rows = []
    for name, ranks in found.items():
        model = RUNS[name].of_model
        if model in KNOWN and name not in BROKEN:
            quantity = KNOWN[model].quantity
            exact = exact_shares(model, len(ranks.faults))
            away = (np.array(ranks.weighted[quantity]) + 0.5) / VALUES - exact
            bad = np.array(list(map(bool, ranks.faults)))
            p = p_value(np.minimum(VALUES * exact, AMONG).astype(int))
            rows.append([name, quantity, shown(p), *map(_mean, (away, away[~bad], away[bad]))])
    header = ["model", "quantity", "p of exact ranks", "all runs", "faultless", "called bad"]
    return markdown_table(header, rows)


def _mean(values: np.ndarray) -> str:
    return mean_and_error(values) if len(values) > 1 else ""


def mean_of(ranks: list[int]) -> float:
    """The mean of the ranks as shares, 0.5 if they are uniform, less if draws are too large."""
    return float(np.mean(ranks) + 0.5) / VALUES


def spread_of(ranks: list[int]) -> float:
    """The sd of the ranks over that of uniform ones: above 1 if draws are too narrow."""
    return float(np.std(ranks) / np.sqrt((VALUES**2 - 1) / 12))
