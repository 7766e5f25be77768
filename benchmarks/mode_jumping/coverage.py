"""A hundred runs on each of some posteriors: are they right, and do errors and verdicts say so?"""

from __future__ import annotations

import math
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import NUTS

from benchmarks.mode_jumping.kept import Kept
from benchmarks.mode_jumping.measure import CHAINS, DRAWS, WARMUP
from benchmarks.peers.coverage import Scored, cell, covered, right, score, variation_by_chance
from benchmarks.peers.target import Target, grid_truth
from benchmarks.peers.targets import galaxy_mode, targets
from benchmarks.shared import runs
from benchmarks.shared.tables import markdown_table
from numpyro_contour import ModeJumping, diagnose

REPLICATES = 100
#: runs after which compiled programs are forgotten: each run adds some
FORGOTTEN = 15
NAMES = "galaxies, 9-d", "egg-box, 2-d", "nine modes, 2-d", "two modes, 20-d", "two shells, 2-d"


@cache
def three_components() -> Target:
    """The means of three exchangeable normals of scale 1, for 45 rows."""
    rng = np.random.default_rng(4)
    y = jnp.asarray(np.repeat([-3.0, 0.0, 3.0], 15) + rng.standard_normal(45))

    def log_likelihood(mu: jax.Array) -> jax.Array:
        each = -0.5 * (y[:, None] - mu) ** 2 - 0.5 * math.log(2 * math.pi)
        return jnp.sum(jax.nn.logsumexp(each, axis=1) - math.log(3))

    line = np.linspace(-6.0, 6.0, 97)
    truth = lambda: grid_truth(target.potential, [line] * 3, galaxy_mode, 6)
    target = Target("three components, 3-d", 3, log_likelihood, galaxy_mode, truth, 0, scale=5.0)
    return target


def chosen() -> tuple[Target, ...]:
    """The posteriors."""
    known = {target.name: target for target in targets()}
    return (*(known[name] for name in NAMES), three_components())


def _scored(target: Target, mcmc: Any) -> tuple[Scored, list[Scored]]:
    """What a run says, and what its chains say one by one."""
    x = np.asarray(mcmc.get_samples(group_by_chain=True), np.float64)
    equal = np.zeros(x.shape[:2])
    single = [score(target, x[[c]], equal[[c]]) for c in range(CHAINS)]
    return score(target, x, equal), single


def measure(number: int, replicates: int, warmup: int, draws: int, cache: str) -> dict[str, Any]:
    """The figures of a posterior."""
    jax.config.update("jax_compilation_cache_dir", cache)
    target = chosen()[number]
    pooled, flat, trusted, faults, seconds = [], [], [], [], []
    for n, key in enumerate(random.split(random.key(3), replicates)):
        if n % FORGOTTEN == FORGOTTEN - 1:
            jax.clear_caches()
        key_run, key_start = random.split(key)
        begin = time.perf_counter()
        # A kernel of its own: each run searches.
        kernel = ModeJumping(NUTS(potential_fn=target.potential))
        mcmc = runs.driver(kernel, warmup, draws, CHAINS)
        with runs.quiet():
            mcmc.run(key_run, init_params=target.starts(key_start, CHAINS))
            seconds.append(time.perf_counter() - begin)
            report = diagnose(mcmc)
        run, single = _scored(target, mcmc)
        pooled.append(run)
        flat += single
        trusted.append(report.trusted)
        faults.append(report.faults[0].check if report.faults else "none")
    errors = {
        name: [float(getattr(one, name)) for one in pooled]
        for name in ("mean_error", "sd_error", "variation")
    }
    by_chance = variation_by_chance(target.truth.masses, CHAINS * draws)
    is_right, ok = right(errors, by_chance), np.array(trusted)
    names, counts = np.unique([f for f, t in zip(faults, ok) if not t], return_counts=True)
    return {
        "masses": covered([one.masses for one in pooled]),
        "means": covered([one.means for one in pooled]),
        "masses of chains": covered([one.masses for one in flat]),
        "means of chains": covered([one.means for one in flat]),
        "verdicts": [
            *(int((is_right & ok).sum()), int((is_right & ~ok).sum())),
            *(int((~is_right & ok).sum()), int((~is_right & ~ok).sum())),
        ],
        "faults": {str(name): int(count) for name, count in zip(names, counts)},
        **{name: float(np.median(values)) for name, values in errors.items()},
        "seconds": float(np.median(seconds)),
    }


def fill(kept: Kept, quick: bool) -> None:
    """Measure the posteriors that are wanted."""
    with tempfile.TemporaryDirectory() as folder:
        if quick:
            kept.put(chosen()[-1].name, measure(len(NAMES), 2, 100, 100, folder))
            return
        with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
            for number, target in enumerate(chosen()):
                if kept.wants(target.name):
                    figures = REPLICATES, WARMUP, DRAWS, folder
                    kept.put(target.name, pool.submit(measure, number, *figures).result())


def text(rows: dict[str, dict[str, Any]]) -> str:
    """The text and its tables."""
    kinds = "masses", "means", "masses of chains", "means of chains"
    intervals = [[name, *(cell(row[kind]) for kind in kinds)] for name, row in rows.items()]
    verdicts = [
        [
            name,
            *map(str, row["verdicts"]),
            ", ".join(f"{fault} {count}" for fault, count in row["faults"].items()) or "none",
            *(f"{row[field]:.3f}" for field in ("mean_error", "sd_error", "variation")),
            f"{row['seconds']:.1f}",
        ]
        for name, row in rows.items()
    ]
    total = np.sum([row["verdicts"] for row in rows.values()], axis=0)
    return (
        f"### Are its errors and verdicts right?\n\n{REPLICATES} runs on each posterior, each with "
        f"a search, starts and a warm-up of its own: {CHAINS} chains of {WARMUP} draws of warm-up "
        f"and {DRAWS} draws. Intervals of 95 % and verdicts are counted as in [Are the reported "
        f"errors right?](#are-the-reported-errors-right) Of {total[:2].sum()} correct runs "
        f"{total[1]} are flagged, and of {total[2:].sum()} wrong ones {total[3]}.\n\n"
        + markdown_table(["posterior", *kinds], intervals)
        + "\n"
        + markdown_table(
            [
                *("posterior", "correct, not flagged", "correct, flagged"),
                *("wrong, not flagged", "wrong, flagged"),
                *("first faults", "mean", "sd", "TV", "seconds of a run"),
            ],
            verdicts,
        )
    )
