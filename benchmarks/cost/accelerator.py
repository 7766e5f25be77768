"""A step on a GPU and on a processor, beside a bare loop of gradients on the same device.

Figures are kept by device in `docs/accelerators`, so that the section shows every device on which
`python -m benchmarks cost.accelerator` was run. `--only` measures the models with these prefixes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import random

from benchmarks.cost.methods import logistic, network
from benchmarks.networks import step as on_images
from benchmarks.networks.model import WEIGHT_DECAY, Classifier, start
from benchmarks.networks.resnet import WIDTH, ResNet
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.runs import quiet
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import seconds_of
from numpyro_contour import SGHMC, SGLD, ContourSGHMC, ContourSGLD, EnergyPartition
from numpyro_contour.models.model_potential import ModelPotential

ROUNDS = 7
BARE = "bare loop"
#: far below any that would move a chain from its start
STEP_SIZE = 1e-9
DEPTH, IMAGES, OF_IMAGES, ON_IMAGES = 20, 10_000, 256, 8
Methods = dict[str, Callable[[], Any]]


class Size(NamedTuple):
    """A model, its minibatches, numbers of chains, and the steps that are timed at a time."""

    name: str
    make: Callable[[], tuple[Callable, tuple]]
    minibatch: int
    chains: tuple[int, ...]
    steps: int


SIZES = (
    Size(
        "logistic, N = 1,000,000, d = 50", lambda: logistic(1_000_000, 50), 1000, (1, 16, 256), 50
    ),
    Size("network, d = 1,201", lambda: network(100_000, 10, 100), 1000, (1, 16, 256), 50),
)
QUICK = (Size("logistic, N = 400, d = 2", lambda: logistic(400, 2), 20, (1, 2), 2),)


def bare(size: Size, model: Callable, data: tuple, begin: dict) -> Callable[[], Any]:
    """Descents on minibatches, by `jax.value_and_grad` and nothing else, of all chains at once."""
    potential = ModelPotential.of(model, data, {}, size.minibatch)

    @jax.jit
    def loop(begin: dict, keys: jax.Array, data: tuple) -> tuple:
        at = replace(potential, model_args=data).at

        def body(carry: tuple, _: None) -> tuple:
            key, position = carry
            key, key_rows = random.split(key)
            rows = random.randint(key_rows, (size.minibatch,), 0, len(data[0]))
            energy, slope = jax.value_and_grad(at)(position, {"rows": rows})
            position = jax.tree.map(lambda x, g: x - STEP_SIZE * g, position, slope)
            return (key, position), energy

        chain = lambda key, position: jax.lax.scan(body, (key, position), length=size.steps)
        return jax.vmap(chain)(keys, begin)

    chains = len(jax.tree.leaves(begin)[0])
    return lambda: loop(begin, random.split(random.key(1), chains), data)


def on_rows(size: Size, chains: int) -> Methods:
    """The methods on a model of rows: each call makes `size.steps` steps of all chains."""
    model, data = size.make()
    given = {"step_size": STEP_SIZE, "minibatch_size": size.minibatch, "num_steps": size.steps}
    found: Methods = {}
    for name, kernel in {
        "ContourSGLD": ContourSGLD(model, partition=EnergyPartition(0.0, 1e6, 128), **given),
        "SGLD": SGLD(model, **given),
    }.items():
        with quiet():
            first = kernel.init(random.split(random.key(0), chains), 0, None, data, {})
        draw = jax.jit(lambda state, data, kernel=kernel: kernel.sample(state, data, {}))
        if not found:
            found[BARE] = bare(size, model, data, first.z)
        found[name] = lambda draw=draw, first=first: draw(first, data)
    return found


def images(number: int, minibatch: int, depth: int, width: int, steps: int) -> Methods:
    """The methods on a residual network."""
    pixels = random.normal(random.key(0), (number, 32, 32, 3))
    labels = random.randint(random.key(1), (number,), 0, 10)
    network = ResNet(depth, width)
    model = Classifier(network, minibatch, WEIGHT_DECAY, augmented=False)
    given = {"step_size": STEP_SIZE, "num_steps": steps, "draw": "last"}
    begin = start(network, pixels, random.key(0))
    return {
        BARE: on_images.bare(network, pixels, labels, minibatch, steps),
        "SGHMC": on_images.one_draw(SGHMC(model, **given), pixels, labels, begin),
        "ContourSGHMC": on_images.one_draw(
            ContourSGHMC(model, partition=EnergyPartition(0.0, 1e5, 100), **given),
            *(pixels, labels, begin),
        ),
    }


def microseconds(methods: Methods, steps: int, rounds: int) -> dict[str, list[float]]:
    """By method: microseconds of a step in each round. The methods take turns."""
    for method in methods.values():
        seconds_of(method)  # compiles
    taken: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(rounds):
        for name, method in methods.items():
            taken[name].append(1e6 * seconds_of(method) / steps)
    return taken


def device_name() -> str:
    """The device that JAX computes on."""
    device = jax.devices()[0]
    return f"{os.cpu_count()} cores" if device.platform == "cpu" else device.device_kind


def _place(device: str, folder: Path) -> Path:
    return folder / "accelerators" / f"{re.sub(r'[^a-z0-9]+', '-', device.lower())}.json"


def keep(device: str, found: list[list[Any]], folder: Path) -> None:
    """Write the figures of a device; those of other models stay."""
    path = _place(device, folder)
    before = json.loads(path.read_text())["rows"] if path.exists() else []
    rows = {tuple(row[:3]): row for row in [*before, *found]}
    lines = ",\n".join(json.dumps(row) for row in rows.values())
    path.parent.mkdir(parents=True, exist_ok=True)
    about = f'"device": {json.dumps(device)}, "jax": {json.dumps(jax.__version__)}'
    path.write_text(f'{{{about}, "rows": [\n{lines}\n]}}\n')


def section(folder: Path) -> str:
    """The tables of all devices whose figures are kept."""
    kept = [json.loads(path.read_text()) for path in sorted((folder / "accelerators").glob("*"))]
    devices = [f"{one['device']}, jax {one['jax']}" for one in kept]
    by_place = [{tuple(row[:3]): row[3:] for row in one["rows"]} for one in kept]
    places = dict.fromkeys(place for rows in by_place for place in rows)
    cells = []
    for place in places:
        row = [str(part) for part in place]
        for rows in by_place:
            cost, ratio = rows.get(place, (None, None))
            row += [f"{cost:,.0f}" if cost else "", f"{ratio:.2f}" if ratio else ""]
        cells.append(row)
    heads = [f"{one}: {head}" for one in devices for head in ("us a step", "times bare")]
    return (
        "## A step on a GPU\n\n"
        "A step of all chains, in which each takes a gradient on a minibatch of its own: "
        f"{SIZES[0].minibatch:,} rows, and for the residual network {OF_IMAGES} of {IMAGES:,} "
        f"images of 32 x 32 pixels. That network is the paper's, with {DEPTH} layers, a first "
        f"stage of {WIDTH} channels and batch normalisation; its bare loop is the momentum descent "
        "of optax. The other bare loops are vectorised like the chains. Settings are given, "
        f"methods take turns, and figures are medians of {ROUNDS} rounds; ratios are taken within "
        f"rounds. Compiling is not counted, but what a draw costs beside its {SIZES[0].steps} "
        f"steps is, and on images beside its {ON_IMAGES}.\n\n"
        + markdown_table(["model", "chains", "method", *heads], cells)
    )


def main(experiment: Experiment) -> str:
    """The section of the page."""
    rounds = experiment.choose(ROUNDS, 2)
    rows: list[list[Any]] = []

    def note(name: str, chains: int, methods: Methods, steps: int) -> None:
        taken = microseconds(methods, steps, rounds)
        for method, each in taken.items():
            ratio = float(np.median(np.divide(each, taken[BARE])))
            rows.append([name, chains, method, round(float(np.median(each)), 1), round(ratio, 3)])
            print(rows[-1], flush=True)
        keep(device_name(), rows, experiment.folder)

    for size in experiment.choose(SIZES, QUICK):
        if not size.name.startswith(experiment.only):
            continue
        for chains in size.chains:
            note(size.name, chains, on_rows(size, chains), size.steps)
    number, minibatch, depth, width, steps = experiment.choose(
        (IMAGES, OF_IMAGES, DEPTH, WIDTH, ON_IMAGES), (20, 10, 8, 2, 1)
    )
    name = f"residual network, n = {minibatch}"
    if name.startswith(experiment.only):
        note(name, 1, images(number, minibatch, depth, width, steps), steps)
    return section(experiment.folder)
