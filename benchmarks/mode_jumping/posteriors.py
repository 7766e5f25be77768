"""`ModeJumping` on the posteriors of this page, beside what is kept of the other samplers."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro.diagnostics
from jax import random

from benchmarks.mode_jumping.kept import Kept
from benchmarks.mode_jumping.measure import CHAINS, DRAWS, WARMUP, Ran, more_draws, run
from benchmarks.peers.methods import CHAINS as THEIR_CHAINS
from benchmarks.peers.methods import masses_of
from benchmarks.peers.results import kept_of
from benchmarks.peers.target import Target
from benchmarks.peers.targets import targets
from benchmarks.shared.processes import alone
from benchmarks.shared.tables import markdown_table, total_variation

RUNS = 3
#: the samplers that it stands beside
OTHERS = "ContourSGLD", "NUTS, 4 chains", "nested slice sampling", "tempered SMC"
TENTH = 0.1
#: modes of less mass are not asked for effective draws
LEAST = 0.02


def errors(target: Target, ran: Ran) -> dict[str, float]:
    """The errors of a run."""
    x = np.asarray(ran.mcmc.get_samples(group_by_chain=True), np.float64)
    truth = target.truth
    masses = masses_of(target, x, np.ones(x.shape[:2]))
    z = (x.mean((0, 1)) - truth.means) / truth.sds
    return {
        "variation": float(total_variation(masses.mean(0), truth.masses)),
        "of chains": float(total_variation(masses, truth.masses).mean()),
        "mean": float(np.sqrt((z**2).mean())),
        "gradients": ran.gradients,
    }


def effective(target: Target, ran: Ran) -> float:
    """Effective draws of the coordinate or the mode mass that has the fewest."""
    x = np.asarray(ran.mcmc.get_samples(group_by_chain=True), np.float64)
    judged = np.flatnonzero((target.truth.masses >= LEAST) & (target.truth.masses < 1))
    inside = (target.mode(x)[..., None] == judged).astype(float)
    values = np.concatenate([x, inside], -1)
    return float(np.min(numpyro.diagnostics.effective_sample_size(values)))


def measure(number: int, seed: int, began: float, quick: bool) -> dict[str, Any]:
    """One run in a process that is its own: as a user types it, and then for longer."""
    target = targets()[number]
    warmup, draws = (100, 100) if quick else (WARMUP, DRAWS)
    start = target.starts(random.key(100 + seed), CHAINS)
    ran = run(
        *(True, draws, seed),
        init_params=start,
        warmup=warmup,
        potential_fn=target.potential,
    )
    found = {"seconds": time.time() - began} | errors(target, ran)
    known = next(iter(ran.mcmc.sampler._found.values()))
    found |= {"effective": effective(target, ran), "modes": len(known)}
    found["of search"] = known.gradients
    each = ran.of_draws / draws
    for name, share in () if quick else (("tenth", TENTH), ("equal", 1.0)):
        budget = share * target.gradients * THEIR_CHAINS
        count = round((budget - ran.of_search - ran.of_warmup) / each)
        # Fewer than a tenth of the draws say nothing.
        jax.clear_caches()
        found[name] = errors(target, more_draws(ran, count, seed)) if count > draws / 10 else None
    return found


def fill(kept: Kept, quick: bool) -> None:
    """Measure the posteriors that are wanted."""
    for number, target in enumerate(targets()[:1] if quick else targets()):
        if kept.wants(target.name):
            found = [alone(measure, number, n, time.time(), quick) for n in range(RUNS)]
            kept.put(target.name, _together(found[:1] if quick else found))


def _together(found: list[Any]) -> Any:
    """Means over runs, of seconds the median."""
    if isinstance(found[0], dict):
        together = {name: _together([one[name] for one in found]) for name in found[0]}
        if "seconds" in together:
            together["seconds"] = statistics.median(one["seconds"] for one in found)
        return together
    return None if None in found else float(np.mean(found))


# ------------------------------------------------------------------------------ text


def _error(row: dict[str, float] | None, has_modes: bool) -> str:
    if row is None:
        return ""
    return f"{row['variation' if has_modes else 'mean']:.4f}"


def _others(target: Target, folder: Path) -> dict[str, tuple[float, float]]:
    """Error and seconds of the other samplers."""
    results = kept_of(target, folder)
    found = {}
    for name in OTHERS if results is not None else ():
        if name in results.found:
            one = results.found[name].equal_gradients
            values = one.variation if len(target.truth.masses) > 1 else one.mean_error
            found[name] = float(np.mean(values)), one.seconds + one.compiling
    return found


def text(rows: dict[str, dict[str, Any]], folder: Path) -> str:
    """The text and its table."""
    header = ["posterior", "modes found", "effective draws", "1,000 gradients", "seconds"]
    header += ["error", "of a chain", "a tenth", "as many", *OTHERS]
    lines, wins = [], {"tenth": 0, "equal": 0}
    for target in targets():
        if target.name not in rows:
            continue
        row, has_modes = rows[target.name], len(target.truth.masses) > 1
        others = _others(target, folder)
        for share in wins:
            field = "variation" if has_modes else "mean"
            mine = np.inf if row.get(share) is None else row[share][field]
            wins[share] += mine <= min((e for e, _ in others.values()), default=np.inf)
        lines.append(
            [
                target.name,
                f"{row['modes']:.0f}",
                f"{row['effective']:,.0f}",
                f"{row['gradients'] / 1000:,.0f}",
                f"{row['seconds']:.1f}",
                _error(row, has_modes),
                f"{row['of chains']:.3f}" if has_modes else "",
                *(_error(row.get(share), has_modes) for share in wins),
                *(
                    f"{others[name][0]:.4f} ({others[name][1]:.0f} s)" if name in others else ""
                    for name in OTHERS
                ),
            ]
        )
    return (
        f"### On the posteriors of this page\n\nRuns of {CHAINS} vectorised chains of {WARMUP} "
        f"draws of warm-up and {DRAWS} draws, with the defaults, each in a new process. Figures "
        f"are of {RUNS} runs: means of errors, medians of seconds. Seconds are those of the whole "
        "process with imports, compiling and the search. Gradients are all that four chains take, "
        "with the search, the warm-up and all tries. The error is the total variation of the mode "
        "masses, and that of the means (root mean square, in posterior sds) where there is one "
        "mode; effective draws are those of the coordinate or mode mass that has the fewest. "
        "Then the same runs go on, until they have taken a tenth of the gradients that the other "
        "samplers have taken on this page, and as many. Those are beside them with their seconds, "
        "without imports (see [above](#peers-on-posteriors-of-known-answers); a run of "
        f"`ContourSGLD` has {THEIR_CHAINS} chains).\n\n"
        + markdown_table(header, lines)
        + f"\nWith a tenth of the gradients the error is at most that of the best of the others on "
        f"{wins['tenth']} of {len(lines)} posteriors, with as many on {wins['equal']}.\n"
    )
