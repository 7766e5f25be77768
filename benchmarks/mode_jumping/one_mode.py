"""Posteriors with one mode: is `ModeJumping` any worse than the NUTS inside it?"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import numpyro.diagnostics
from jax import random

from benchmarks.mode_jumping.kept import Kept
from benchmarks.mode_jumping.measure import CHAINS, DRAWS, WARMUP, run
from benchmarks.posteriordb.models import MODELS, Posterior
from benchmarks.shared.processes import alone
from benchmarks.shared.tables import markdown_table
from numpyro_contour import diagnose

PAIRS = 3
#: classes of Inference Gym
GYM = {
    "banana": "Banana",
    "funnel": "NealsFunnel",
    "eight schools, 10-d": "EightSchools",
    "Brownian motion": "BrownianMotionUnknownScalesMissingMiddleObservations",
    "Lorenz bridge, 90-d": "ConvectionLorenzBridge",
}


def _of_gym(name: str) -> tuple[Callable, int]:
    """Potential energy of an unconstrained position, and its size."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import inference_gym.using_jax as gym

    whole = getattr(gym.targets, GYM[name])()
    target = gym.targets.VectorModel(whole, flatten_sample_transformations=True)
    bijector = target.default_event_space_bijector

    def potential(z: jax.Array) -> jax.Array:
        jacobian = bijector.forward_log_det_jacobian(z, event_ndims=1)
        return -(target.unnormalized_log_prob(bijector(z)) + jacobian)

    return potential, int(target.event_shape[0])


def measure(name: str, jumps: bool, seed: int, draws: int) -> dict[str, Any]:
    """A run in a process that is its own."""
    if name in GYM:
        potential, size = _of_gym(name)
        start = random.uniform(random.key(1 + seed), (CHAINS, size), minval=-2.0, maxval=2.0)
        how = {"init_params": start, "potential_fn": potential}
    else:
        posterior = Posterior.of(name)
        how = {"kwargs": posterior.data, "model": posterior.model}
    begin = time.perf_counter()
    ran = run(jumps, draws, seed, warmup=draws, **how)
    seconds = time.perf_counter() - begin
    samples = ran.mcmc.get_samples(group_by_chain=True)
    values = np.asarray(samples if name in GYM else posterior.values(samples), np.float64)
    found: dict[str, Any] = {
        "seconds": seconds,
        "effective": float(np.min(numpyro.diagnostics.effective_sample_size(values))),
        "gradients": ran.gradients,
        "draws": values,
    }
    if name not in GYM:
        exact, scale = np.transpose(list(posterior.reference.values()))
        found["error"] = float(np.abs((values.mean((0, 1)) - exact) / scale).max())
    if jumps:
        known = ran.mcmc.sampler.modes_of(**how.get("kwargs", {}))
        found |= {"modes": len(known), "search": known.seconds["search"]}
        found["of search"], found["verdict"] = known.gradients, diagnose(ran.mcmc).headline
    return found


def fill(kept: Kept, quick: bool) -> None:
    """Measure the posteriors that are wanted, in turns with and without jumps."""
    names = (*MODELS, *GYM)
    for name in names[:1] if quick else names:
        if not kept.wants(name):
            continue
        found: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
        for pair in range(1 if quick else PAIRS):
            for jumps in (True, False)[:: 1 if pair % 2 else -1]:
                found[jumps].append(alone(measure, name, jumps, pair, 20 if quick else DRAWS))
        both = list(zip(found[True], found[False]))
        # Of NUTS alone, and with jumps.
        median = {
            field: [
                statistics.median(one[field] for one in found[jumps]) for jumps in (False, True)
            ]
            for field in found[False][0]
            if field != "draws"
        }
        a_second = [
            (ours["effective"] / ours["seconds"]) / (theirs["effective"] / theirs["seconds"])
            for ours, theirs in both
        ]
        row: dict[str, Any] = {
            "same": all(np.array_equal(a["draws"], b["draws"]) for a, b in both),
            "a second": statistics.median(a_second),
            "faultless": sum(one["verdict"].startswith("No fault") for one in found[True]),
        }
        for field in ("modes", "search", "of search"):
            row[field] = statistics.median(one[field] for one in found[True])
        kept.put(name, row | median)


def text(rows: dict[str, dict[str, Any]]) -> str:
    """The text and its table."""
    lines = [
        [
            name,
            f"{row['modes']:.0f}",
            "yes" if row["same"] else "no",
            f"{row['of search']:,.0f}",
            f"{row['search']:.2f}",
            *(f"{value:.1f}" for value in row["seconds"]),
            *(f"{value:,.0f}" for value in row["effective"]),
            f"{row['a second']:.2f}",
            " / ".join(f"{value:.3f}" for value in row["error"]) if "error" in row else "",
            f"{row['faultless']} of {PAIRS}",
        ]
        for name, row in ((name, rows[name]) for name in (*MODELS, *GYM) if name in rows)
    ]
    return (
        "### Where there is one mode\n\nThe posteriors of posteriordb that come with the package, "
        f"and five of Inference Gym: {CHAINS} chains of {WARMUP} + {DRAWS} draws of NUTS, alone "
        f"and with `ModeJumping` around it, in {PAIRS} pairs of processes with seeds of their own. "
        "`The same` says whether all draws of both are the same to the last bit. Seconds are those "
        "of a run with its compiling; effective draws a second are medians of ratios. The error is "
        "the largest of a mean, in sds of the reference.\n\n"
        + markdown_table(
            [
                *("posterior", "modes found", "the same", "gradients of the search", "its seconds"),
                *("NUTS, s", "ModeJumping, s", "effective draws of NUTS", "of ModeJumping"),
                *("a second, ratio", "errors", "no fault found"),
            ],
            lines,
        )
    )
