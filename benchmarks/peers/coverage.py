"""Whether the errors that runs report are right, and the verdicts, on every target of this page.

`python -m benchmarks peers.coverage --only START ...` measures only the posteriors whose names
have these prefixes, and rewrites the section with the lines that are kept of the others.
"""

from __future__ import annotations

import json
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import random

from benchmarks.accuracy.healthy import MASSES, MEAN, SD
from benchmarks.peers.target import Target
from benchmarks.peers.targets import targets
from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table, standard_error
from numpyro_contour import ContourSGLD, diagnose
from numpyro_contour.diagnostics import weighted_mcse

REPLICATES = 100
CHAINS = 4
WARMUP, DRAWS = 400, 600
#: masses below this are not judged: a mode that a run sees a few times has no normal error
LEAST = 0.02
#: runs after which compiled programs are forgotten: each run adds some, to no end
FORGOTTEN = 15
NOMINAL = 1.96
#: the median of the absolute value of a standard normal
MEDIAN = 0.6745


class Scored(NamedTuple):
    """What one run, or one chain of it, says, and how wrong it is."""

    #: deviations of mode masses and of means in units of the reported errors, NaN where none is
    masses: np.ndarray
    means: np.ndarray
    #: largest error of a mean in posterior sds, largest error of the ratio of a standard
    #: deviation, and total variation of the masses
    mean_error: float
    sd_error: float
    variation: float


def variation_by_chance(masses: np.ndarray, draws: int) -> float:
    """The total variation that so many independent draws have on average."""
    return float(np.sqrt(2 * masses * (1 - masses) / (np.pi * draws)).sum() / 2)


def right(runs: dict[str, list[float]], by_chance: float) -> np.ndarray:
    """Which runs have answers that are near enough."""
    means, sds, masses = (np.array(runs[f]) for f in ("mean_error", "sd_error", "variation"))
    return (means < MEAN) & (sds < SD) & (masses < MASSES + by_chance)


def score(target: Target, x: np.ndarray, log_weights: np.ndarray) -> Scored:
    """Hold draws (chains, draws, size) against the truth."""
    truth = target.truth
    number = len(truth.masses)
    inside = np.clip(target.mode(x), 0, number - 1)[..., None] == np.arange(number)
    weights = np.exp(log_weights - log_weights.max(1, keepdims=True))
    weights /= weights.mean(1, keepdims=True)
    average = lambda values: (weights[..., None] * values).mean((0, 1))
    masses, means = average(inside), average(x)
    sds = np.sqrt(average((x - means) ** 2))
    # The masses of two modes are one figure, and that of a single mode is none.
    judged = np.flatnonzero((truth.masses >= LEAST) & (truth.masses < 1))
    judged = judged[:1] if number == 2 else judged
    with np.errstate(divide="ignore", invalid="ignore"):
        of_masses = (masses - truth.masses)[judged] / weighted_mcse(
            inside[..., judged].astype(float), log_weights
        )
        of_means = (means - truth.means) / weighted_mcse(x, log_weights)
    return Scored(
        of_masses,
        of_means,
        float(np.max(np.abs(means - truth.means) / truth.sds)),
        float(np.max(np.abs(sds / truth.sds - 1))),
        float(np.abs(masses - truth.masses).sum() / 2),
    )


def covered(z: list[np.ndarray]) -> list[float] | None:
    """Of all figures of all runs: share inside 95 % and its error, median, share with an error."""
    each = np.stack(z)
    if not each.size:
        return None
    known = np.isfinite(each)
    # An estimate without an error makes no claim, and is counted apart.
    shares = (np.abs(each) < NOMINAL).sum(1) / np.maximum(known.sum(1), 1)
    shares = shares[known.any(1)]
    if not len(shares):
        return [np.nan, np.nan, np.nan, 0.0]
    typical = np.median(np.abs(each[known])) / MEDIAN
    return [shares.mean(), standard_error(shares), typical, known.mean()]


def measure(number: int, replicates: int, divide: int, cache: str) -> dict[str, Any]:
    """The figures of a target: so many runs, with the target's gradients divided by `divide`."""
    jax.config.update("jax_compilation_cache_dir", cache)
    target = targets()[number]
    kernel = ContourSGLD(
        potential_fn=target.potential, num_steps=target.gradients // (WARMUP + DRAWS)
    )
    mcmc = runs.driver(kernel, WARMUP // divide, DRAWS // divide, CHAINS)
    pooled, single, trusted, faults = [], [], [], []
    for n, key in enumerate(random.split(random.key(3), replicates)):
        if n % FORGOTTEN == FORGOTTEN - 1:
            jax.clear_caches()
        key_run, key_start = random.split(key)
        with runs.quiet():
            mcmc.run(key_run, init_params=target.starts(key_start, CHAINS))
            report = diagnose(mcmc)
        x, weights = runs.draws_of(mcmc)
        x = np.asarray(x, np.float64)
        with np.errstate(divide="ignore"):  # weights of 0
            log_weights = np.log(weights)
        pooled.append(score(target, x, log_weights))
        single.append([score(target, x[[c]], log_weights[[c]]) for c in range(CHAINS)])
        trusted.append(report.trusted)
        faults.append(report.faults[0].check if report.faults else "none")
    flat = [one for chains in single for one in chains]
    found = {"gradients": target.gradients}
    for name, scores in (("run", pooled), ("chain", flat)):
        found[f"masses, {name}"] = covered([one.masses for one in scores])
        found[f"means, {name}"] = covered([one.means for one in scores])
    errors = ("mean_error", "sd_error", "variation")
    found["runs"] = {name: [float(getattr(one, name)) for one in pooled] for name in errors}
    by_chance = variation_by_chance(target.truth.masses, CHAINS * DRAWS // divide)
    is_right, ok = right(found["runs"], by_chance), np.array(trusted)
    found["runs"]["bad"] = [int(not one) for one in ok]
    found["verdicts"] = [int((is_right & ok).sum()), int((is_right & ~ok).sum())]
    found["verdicts"] += [int((~is_right & ok).sum()), int((~is_right & ~ok).sum())]
    names, counts = np.unique([f for f, t in zip(faults, ok) if not t], return_counts=True)
    found["faults"] = {str(n): int(c) for n, c in sorted(zip(names, counts), key=lambda x: -x[1])}
    for name in errors:
        found[name] = float(np.median(found["runs"][name]))
    return found


def kept_in(folder: Path) -> dict[str, dict[str, Any]]:
    """The figures that were kept, by posterior."""
    place = folder / "peers" / "coverage.json"
    return json.loads(place.read_text()) if place.exists() else {}


def keep(target: Target, found: dict[str, Any], folder: Path) -> None:
    """Add the figures of a posterior, or put them in place of the old ones."""
    short = json.loads(json.dumps(found), parse_float=lambda text: float(f"{float(text):.4g}"))
    rows = kept_in(folder) | {target.name: short}
    place = folder / "peers" / "coverage.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in ordered(rows))
    place.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def ordered(rows: dict[str, Any]) -> list[tuple[str, Any]]:
    """The posteriors that have figures, in the order of the page."""
    return [(target.name, rows[target.name]) for target in targets() if target.name in rows]


def cell(figures: list[float] | None) -> str:
    """A share of intervals with its error."""
    if figures is None:
        return ""
    share, error, typical, known = figures
    if not known:
        return "no errors"
    text = f"{share:.1%} ± {error:.1%} ({typical:.2f})"
    return text if known > 0.995 else f"{text}, {known:.0%} with an error"


def passed(rows: dict[str, dict[str, Any]]) -> str:
    """How wrong the wrong runs are that no check has found."""
    wrong, missed, by_mean, by_masses, sds = 0, 0, 0, 0, []
    for target in targets():
        runs = rows.get(target.name, {}).get("runs")
        if runs is None:
            continue
        by_chance = variation_by_chance(target.truth.masses, CHAINS * DRAWS)
        wrong += int((np.array(runs["mean_error"]) >= MEAN).sum())
        passes = ~right(runs, by_chance) & (np.array(runs["bad"]) == 0)
        missed += int(passes.sum())
        means, scales, masses = (
            np.array(runs[field])[passes] for field in ("mean_error", "sd_error", "variation")
        )
        by_mean += int((means >= MEAN).sum())
        by_masses += int((masses >= MASSES + by_chance).sum())
        sds += scales[scales >= SD].tolist()
    text = (
        f" Of the {wrong} runs with a mean off by {MEAN} posterior sds {by_mean or 'none'} "
        "passed as faultless."
    )
    if missed:
        text += (
            f" Of all {missed} wrong runs that did, {len(sds)} have a standard deviation off by "
            f"{SD:.0%} or more (median {np.median(sds or [0]):.0%}, at most "
            f"{max(sds, default=0):.0%}), and {by_masses} wrong masses."
        )
    return text


def section(rows: dict[str, dict[str, Any]]) -> str:
    """The text and the tables."""
    kinds = ("masses, run", "means, run", "masses, chain", "means, chain")
    header = ["posterior", "1,000 gradients a chain"]
    header += ["masses of runs", "means of runs", "masses of chains", "means of chains"]
    table = [
        [name, f"{row['gradients'] / 1000:,.0f}", *(cell(row[kind]) for kind in kinds)]
        for name, row in ordered(rows)
    ]
    verdicts = [
        [
            name,
            *map(str, row["verdicts"]),
            ", ".join(f"{fault} {count}" for fault, count in row["faults"].items()) or "none",
            *(f"{row[field]:.3f}" for field in ("mean_error", "sd_error", "variation")),
        ]
        for name, row in ordered(rows)
    ]
    total = np.sum([row["verdicts"] for row in rows.values()], axis=0)
    near, wrong = total[:2].sum(), total[2:].sum()
    allowed = [name for name, row in ordered(rows) if "runs" in row]
    is_older = (
        f" The runs on {'; '.join(allowed)} are judged so; those on the others are older, and are "
        "judged without that allowance."
        if len(allowed) < len(rows)
        else ""
    )
    return (
        "## Are the reported errors right?\n\n"
        f"On each posterior there are {REPLICATES} runs of `ContourSGLD`, each with starts and a "
        f"warm-up of its own, with nothing given except `num_steps`: {CHAINS} chains of {WARMUP} "
        f"draws of warm-up and {DRAWS} draws, with as many gradients a chain as above. An interval "
        f"is the estimate ± {NOMINAL} of its reported Monte Carlo error. The table gives the share "
        "of intervals that contain the truth, averaged over the figures of a run: the masses of "
        f"the modes (those of {LEAST} or more), and the means of the coordinates. After ± stands "
        "the standard error over the runs; in brackets the median of the deviations in units of "
        "the reported errors, divided by that of a normal: 1 if errors are right. An estimate "
        "without an error, where a chain made no round trip between modes, claims nothing, and is "
        "not counted.\n\n"
        + markdown_table(header, table)
        + "\nThe same runs as `diagnose` sees them. A run is right if no mean is off by "
        f"{MEAN} posterior sds, no standard deviation by {SD:.0%}, and the masses of modes in "
        f"total variation by less than {MASSES} more than as many independent draws would be on "
        f"average ({variation_by_chance(np.full(40, 1 / 40), CHAINS * DRAWS):.3f} where forty "
        f"modes are alike, {variation_by_chance(np.full(2, 1 / 2), CHAINS * DRAWS):.3f} for two). "
        f"Of {near} right runs {total[1]} are called bad, and of {wrong} wrong ones {total[3]}."
        f"{passed(rows)} The last columns are medians over runs: the largest error of a mean, the "
        "largest of a standard deviation as a ratio, and the total variation."
        f"{is_older}\n\n"
        + markdown_table(
            [
                *("posterior", "right, faultless", "right, bad", "wrong, faultless", "wrong, bad"),
                *("first faults", "mean", "sd", "TV"),
            ],
            verdicts,
        )
    )


def main(experiment: Experiment) -> str:
    """The section of the page."""
    with tempfile.TemporaryDirectory() as cache:
        if experiment.quick:
            return section({targets()[0].name: measure(0, 3, 10, cache)})
        # Each target has its own process, whose compiled programs are freed with it.
        with ProcessPoolExecutor(2, get_context("spawn"), max_tasks_per_child=1) as pool:
            wanted = [n for n, t in enumerate(targets()) if t.name.startswith(experiment.only)]
            wanted.sort(key=lambda n: targets()[n].gradients)
            running = {pool.submit(measure, n, REPLICATES, 1, cache): n for n in wanted}
            for run in as_completed(running):
                target = targets()[running[run]]
                keep(target, run.result(), experiment.folder)
                print(target.name, cell(run.result()["means, run"]), flush=True)
    return section(kept_in(experiment.folder))
