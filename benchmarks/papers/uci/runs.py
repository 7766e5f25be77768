"""The algorithms of Table 1 at the paper's settings, vectorised over seeds and splits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from benchmarks.papers.uci.network import (
    MINIBATCH,
    initial_position,
    minibatch_energy,
    network,
    steps_an_epoch,
)
from benchmarks.papers.uci.published import CONTOUR, DESCENTS, WITH_MOMENTUM, Task
from benchmarks.papers.uci.scores import Scores, average, score, shares
from numpyro_contour import EnergyPartition, robbins_monro
from numpyro_contour.core.diffusions import DRIFT_LIMIT, langevin, underdamped
from numpyro_contour.core.flattening.psi import Flattening
from numpyro_contour.core.samplers.chain import Sampler
from numpyro_contour.core.samplers.contour import contour
from numpyro_contour.core.samplers.plain import plain
from numpyro_contour.core.samplers.window import run_window
from numpyro_contour.examples.datasets import Split, load, split_and_standardise
from numpyro_contour.schedules import Constant

STEP_SIZE = 5e-6
MOMENTUM = 0.9
BIN_WIDTH = 100.0
#: not given in the paper; a network's energies start above the bins' range and end inside it
BINS = 100


class Length(NamedTuple):
    """The lengths of runs."""

    epochs: int
    #: models that are averaged, equally spaced over the second half
    models: int
    seeds: int


class Reading(NamedTuple):
    """A choice where the paper leaves something open."""

    label: str
    #: the algorithms that it changes; all algorithms for the first reading
    changes: tuple[str, ...]
    #: the update of theta: "csgld" is equation (10), "scalable" equation (15)
    random_field: str = "csgld"
    #: "reservoir": a model stands for all of its epochs; "last": only for itself
    draw: str = "reservoir"
    drift_limit: float = math.inf


AS_WRITTEN = Reading("as above", ())
OTHERS = (
    Reading("theta by equation (15)", CONTOUR, random_field="scalable"),
    Reading("each model with the weight of its own minibatch", CONTOUR, draw="last"),
    Reading(
        f"drifts clipped to {DRIFT_LIMIT:g} sd of the noise",
        ("SGLD", "CSGLD", "SGHMC", "CSGHMC"),
        drift_limit=DRIFT_LIMIT,
    ),
)


class Runs(NamedTuple):
    """Final figures of the runs of an algorithm, one for each chain."""

    #: scores of the weighted average of the models of the second half
    scores: Scores
    #: RMSE of the weighted average of the quarter before them
    earlier: np.ndarray
    #: RMSE of the last model on its training rows
    training: np.ndarray
    #: sd of a minibatch's energy at the last model, in nats
    energy_noise: np.ndarray
    #: Kish's share of the models by their weights
    kish: np.ndarray

    def take(self, chains: Any) -> Runs:
        """The figures of some chains."""
        return jax.tree.map(lambda a: a[chains], self)


class Cell(NamedTuple):
    """The runs of an algorithm on a task."""

    fixed: Runs
    random: Runs


def sampler_of(
    flattened: bool,
    momentum: bool,
    temperature: jax.Array,
    zeta: float,
    reading: Reading = AS_WRITTEN,
) -> Sampler:
    """An algorithm of the table; SGD and M-SGD have temperature 0."""
    settings = {"noise": "independent", "drift_limit": reading.drift_limit}
    diffusion = underdamped(MOMENTUM, **settings) if momentum else langevin(**settings)
    step_size = Constant(STEP_SIZE)
    at = lambda count: temperature
    if not flattened:
        return plain(diffusion, step_size, at)
    return contour(
        diffusion,
        step_size,
        at,
        EnergyPartition(0.0, BIN_WIDTH * BINS, BINS),
        robbins_monro(),
        Flattening(zeta, interpolation="backward", one_sided=False, multiplier_bound=None),
        random_field=reading.random_field,
        weight="piecewise",
    )


def runner(
    flattened: bool, momentum: bool, zeta: float, reading: Reading, steps: int, models: int
) -> Callable:
    """The runs of an algorithm, vectorised over chains, as one compiled function.

    It takes keys, temperatures, training inputs, training targets and held-out inputs, each with a
    leading axis of chains. It returns the predictions of twice the requested number of models,
    (chains, 2 * models, rows), their log weights, (chains, 2 * models), and the squared errors of
    the last model on the training rows, (chains, training rows). Each model is one of the steps of
    its part of the run.
    """

    def chain(
        key: jax.Array, temperature: jax.Array, x: jax.Array, y: jax.Array, x_test: jax.Array
    ) -> tuple:
        sampler = sampler_of(flattened, momentum, temperature, zeta, reading)
        energy = minibatch_energy(x, y)
        key_start, key_init, key_run = random.split(key, 3)
        state = sampler.init(key_init, initial_position(key_start, x.shape[-1]), energy)

        def block(state: Any, key: jax.Array) -> tuple[Any, tuple]:
            state, window = run_window(key, state, energy, sampler, steps, reading.draw)
            return state, (network(window.draw.position, x_test), window.log_weight)

        state, (predicted, log_weights) = jax.lax.scan(
            block, state, random.split(key_run, 2 * models)
        )
        return predicted, log_weights, (y - network(state.chain.position, x)) ** 2

    return jax.jit(jax.vmap(chain))


def splits_of(task: Task, seeds: int) -> list[Split]:
    """The splits of seeds 0, 1, ...; the first of them is the fixed split."""
    dataset = load(task.file, task.target)
    return [split_and_standardise(dataset, seed) for seed in range(seeds)]


def runs_of(found: tuple, observed: np.ndarray, temperature: float) -> Runs:
    """The figures that are kept from the output of a function of `runner`."""
    predicted, log_weights, squares = (np.asarray(a, np.float64) for a in found)
    models = log_weights.shape[1] // 2
    late, quarter = slice(models, None), slice(models // 2, models)
    # exp(-U / tau) is a normal likelihood of variance tau.
    noise_sd = np.full(log_weights[:, late].shape, np.sqrt(temperature))
    errors = observed - average(predicted[:, quarter], log_weights[:, quarter])
    return Runs(
        score(predicted[:, late], log_weights[:, late], noise_sd, observed),
        np.sqrt(np.mean(errors**2, axis=1)),
        np.sqrt(squares.mean(1)),
        0.5 * squares.shape[1] * squares.std(1) / np.sqrt(MINIBATCH),
        1 / np.sum(shares(log_weights[:, late]) ** 2, axis=1) / models,
    )


def _repeated(array: Any, times: int) -> jax.Array:
    """An array several times, along its first axis."""
    return jnp.concatenate([jnp.asarray(array)] * times)


def _groups(names: Sequence[str]) -> list[list[str]]:
    """Groups of algorithms that are the same function at two temperatures."""
    kind = lambda name: (name in CONTOUR, name in WITH_MOMENTUM)
    return [
        group
        for wanted in dict.fromkeys(map(kind, names))
        if (group := [name for name in names if kind(name) == wanted])
    ]


def run_task(
    task: Task, length: Length, names: Sequence[str], reading: Reading = AS_WRITTEN
) -> dict[str, Cell]:
    """Some algorithms on the fixed split, with every seed, and on the split of each seed.

    Split 0 with seed 0 belongs to both, and is run once.
    """
    seeds = length.seeds
    splits = splits_of(task, seeds)
    # Seeds 0, 1, ... on the fixed split, then 1, 2, ... on their own splits.
    of_chain = [splits[0]] * seeds + splits[1:]
    own_split = [0, *range(seeds, len(of_chain))]
    keys = jnp.stack([random.key(seed) for seed in [*range(seeds), *range(1, seeds)]])
    x, x_test = (
        np.stack([getattr(split, name) for split in of_chain]).astype(np.float32)
        for name in ("X_train", "X_test")
    )
    # In their own units, minus the mean of the training rows.
    y = np.stack([split.y_train * split.y_sd for split in of_chain]).astype(np.float32)
    observed = np.stack([split.y_test * split.y_sd for split in of_chain])
    temperature, zeta, _ = task.published
    steps = length.epochs * steps_an_epoch(y.shape[1]) // (2 * length.models)

    cells = {}
    for group in _groups(names):
        flattened, momentum = group[0] in CONTOUR, group[0] in WITH_MOMENTUM
        run = runner(flattened, momentum, zeta, reading, steps, length.models)
        temperatures = [0.0 if name in DESCENTS else temperature for name in group]
        found = run(
            _repeated(keys, len(group)),
            jnp.repeat(jnp.asarray(temperatures), len(of_chain)),
            *(_repeated(a, len(group)) for a in (x, y, x_test)),
        )
        for number, name in enumerate(group):
            part = slice(number * len(of_chain), (number + 1) * len(of_chain))
            runs = runs_of(tuple(a[part] for a in found), observed, temperature)
            cells[name] = Cell(runs.take(slice(seeds)), runs.take(own_split))
    return cells
