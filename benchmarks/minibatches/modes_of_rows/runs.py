"""Runs with nothing given except `num_steps`, on minibatches and without noise."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import random
from numpyro.infer import MCMC
from numpyro.infer.util import unconstrain_fn

from benchmarks.minibatches.modes_of_rows.target import Target
from benchmarks.shared.runs import quiet, run
from benchmarks.shared.tables import crossings
from numpyro_contour import ContourSGLD, diagnose, expectation, to_inference_data
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.core.samplers.jumps import MINIBATCHES
from numpyro_contour.modes.way_down import DESCENT_LENGTH
from numpyro_contour.runs.finished_run import FinishedRun

CHAINS = 8
#: the estimators by the order of their expansion; the third expands rows in their data
ESTIMATORS = {0: "minibatch", 1: "first order", 2: "second order", 3: "in the data"}
#: rows from which the weight of a draw takes one more evaluation of each row
_MANY_ROWS = 100_000
#: minibatches from which the noise on top of the barrier is estimated
_MINIBATCHES = 500


@dataclass(frozen=True)
class Used:
    """What the energies of a run were made of."""

    #: the order of the expansion, 0 where there is none
    order: int = 0
    #: anchors in use at the end, and the passes over all rows that placed them
    anchors: int = 0
    passes: int = 0
    #: clusters of an expansion in the data, and their continuous columns
    clusters: int = 0
    columns: int = 0
    #: modes known, tries to jump of all chains, and descents of the warm-up
    modes: int = 0
    tries: int = 0
    descents: int = 0

    @property
    def name(self) -> str:
        """The estimator in words."""
        return ESTIMATORS[self.order] + (f", {self.clusters} clusters" if self.clusters else "")


@dataclass(frozen=True)
class Outcome:
    """What a run on a target gave."""

    #: of each draw, (chains, draws): its energy over all rows and the noise of a step in nats,
    #: and whether it is in the mode whose mass is known
    energy: np.ndarray
    noise: np.ndarray
    inside: np.ndarray
    #: the noise on top of the barrier
    noise_on_top: float
    #: changes of mode between draws, (chains,)
    crossed: np.ndarray
    #: the mass of the mode, of single chains, (chains,), pooled, and its Monte Carlo error
    masses: np.ndarray
    mass: float
    mcse: float
    #: the names of the faults that `diagnose` finds
    faults: tuple[str, ...]
    #: what the energies were made of
    used: Used
    #: evaluations of rows of all chains, and seconds of the run and of its weights
    rows: float
    seconds: float
    mcmc: MCMC

    def error(self, exact: float) -> float:
        """The root mean square error of single chains."""
        return float(np.sqrt(((self.masses - exact) ** 2).mean()))


def on_minibatches(
    target: Target, chains: int = CHAINS, seed: int = 0, jumps: bool | None = False
) -> Outcome:
    """The run on minibatches, by climbs alone unless jumps are allowed."""
    return outcome(target, target.model, target.columns, chains, seed, jumps)


def without_noise(target: Target, chains: int = CHAINS) -> Outcome:
    """The same run with exact energies."""
    return outcome(target, target.without_noise, target.statistics, chains)


def outcome(
    target: Target,
    model: Any,
    data: tuple,
    chains: int,
    seed: int = 0,
    jumps: bool | None = False,
) -> Outcome:
    """Run, and look at the draws."""
    length = target.length
    began = time.perf_counter()
    kernel = ContourSGLD(model, num_steps=length.num_steps, jumps=jumps)
    mcmc = run(kernel, length.warmup, length.draws, chains, *data, seed=seed)
    with quiet():
        idata = to_inference_data(mcmc)
    seconds = time.perf_counter() - began
    draws = {name: np.asarray(x) for name, x in idata["weighted_posterior"].items()}
    inside, stats = target.inside(draws), idata["weighted_sample_stats"]
    weights = np.exp(np.asarray(stats["log_weight"], np.float64))
    noise = stats["energy_noise"] if "energy_noise" in stats else np.zeros(inside.shape)
    pooled = expectation(idata, lambda _: inside)
    used = used_by(mcmc)
    return Outcome(
        -np.asarray(stats["lp"], np.float64),
        np.asarray(noise, np.float64),
        inside,
        noise_on_top(target, mcmc) if model == target.model else 0.0,
        crossings(inside),
        (weights * inside).sum(1) / weights.sum(1),
        float(pooled.mean),
        float(pooled.mcse),
        tuple(fault.check for fault in diagnose(idata).faults),
        used,
        rows_of(target, model, chains, used),
        seconds,
        mcmc,
    )


def noise_on_top(target: Target, mcmc: MCMC) -> float:
    """The scatter of the first chain's energies on top of the barrier."""
    # All chains have the modes in common.
    kernel, warmup = mcmc.sampler, mcmc.last_state.warmup._replace(modes=())
    with numpyro.handlers.seed(rng_seed=0):
        top = unconstrain_fn(target.prior, (), {}, jax.tree.map(jnp.asarray, target.top))
    energy = kernel.energies(top, target.columns, {}).of_chains(warmup)
    of_chain = energy(jax.tree.map(lambda x: x[0], warmup))
    flat = ravel(jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), top))
    keys = random.split(random.key(0), _MINIBATCHES)
    return float(jax.jit(jax.vmap(lambda key: of_chain(key, flat)[0]))(keys).std())


def used_by(mcmc: MCMC) -> Used:
    """What the energies of a run were made of."""
    warmup = mcmc.last_state.warmup
    anchors = warmup.anchors if warmup else ()
    if not anchors:
        return Used()
    in_use = (np.asarray(anchors.slots.weight) > 0).sum(1)
    order = int(np.max(anchors.order)) if in_use.any() else 0
    found = Used(order, int(in_use.max()), int(np.asarray(anchors.passes).sum()))
    if warmup.modes:
        known = int(np.asarray(warmup.modes.modes.known).sum())
        tries = int(np.asarray(warmup.jumps.tried).sum())
        descents = int(np.asarray(warmup.modes.descents))
        found = replace(found, modes=known, tries=tries, descents=descents)
    if order != 3:
        return found
    clusters = FinishedRun.of(mcmc).clusters()
    assert clusters
    return replace(found, clusters=len(clusters.counts), columns=len(clusters.columns))


def rows_of(target: Target, model: Any, chains: int, used: Used) -> float:
    """Evaluations of rows: of all steps, of the passes for anchors, and of the weights."""
    length, rows = target.length, target.rows
    steps = chains * length.steps
    if model == target.without_noise:
        return 1.0 * steps * rows
    # A row is evaluated where the chain is and where its expansion is. A Hessian-vector product
    # counts as one more evaluation, and a Hessian takes as many of them as there are parameters.
    of_second = int(used.order == 2)
    size = sum(np.size(x) for x in target.like.values())
    of_passes = used.passes * rows * (1 + size * of_second)
    # Energies of clusters have a second derivative along each of their columns.
    of_clusters = used.clusters * (1 + used.columns)
    each = (2 if used.order else 1) + of_second
    # A try takes several energies with their noise, a descent many gradients.
    steps += used.descents * DESCENT_LENGTH
    of_steps = steps * (target.minibatch * each + of_clusters)
    of_steps += 2 * MINIBATCHES * used.tries * (target.minibatch * (each + 3) + of_clusters)
    precise = int(rows >= _MANY_ROWS)
    of_weights = chains * length.draws * (rows * (2 + precise + of_second) + of_clusters)
    return 1.0 * of_steps + of_passes + of_weights
