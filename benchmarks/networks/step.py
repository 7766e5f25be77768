"""What a step of `SGHMC` on a residual network costs, beside a bare loop of optax."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax, random

from benchmarks.networks.model import WEIGHT_DECAY, Classifier, start
from benchmarks.networks.resnet import ResNet
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import seconds_of
from numpyro_contour import SGHMC, ContourSGHMC, EnergyPartition

ROWS = 2000
WIDTH, DEPTH, MINIBATCH = 4, 20, 256


def bare(
    network: ResNet, images: jax.Array, labels: jax.Array, minibatch: int, steps: int
) -> Callable[[], Any]:
    """Stochastic gradient descent with momentum of optax, in one compiled loop.

    It draws rows as the kernels do, and takes the same gradient: that of the sum over all rows.
    """
    optimiser = optax.sgd(1e-6, momentum=0.9)
    variables = network.init(random.key(0), images[:1])
    scale = len(images) / minibatch

    def loss(params: dict, x: jax.Array, y: jax.Array) -> jax.Array:
        at = {"params": params, "batch_stats": variables["batch_stats"]}
        logits, _ = network.apply(at, x, train=True, mutable=["batch_stats"])
        squares = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))
        rows = optax.softmax_cross_entropy_with_integer_labels(logits, y)
        return scale * rows.sum() + 0.5 * WEIGHT_DECAY * squares

    @jax.jit
    def loop(keys: jax.Array, images: jax.Array, labels: jax.Array) -> dict:
        def step(carry: tuple, key: jax.Array) -> tuple:
            params, state = carry
            rows = random.randint(key, (minibatch,), 0, len(images))
            value, slope = jax.value_and_grad(loss)(params, images[rows], labels[rows])
            updates, state = optimiser.update(slope, state, params)
            return (optax.apply_updates(params, updates), state), value

        params = variables["params"]
        return lax.scan(step, (params, optimiser.init(params)), keys)

    return lambda: loop(random.split(random.key(1), steps), images, labels)


def one_draw(kernel: Any, images: jax.Array, labels: jax.Array, params: Any) -> Callable[[], Any]:
    """The first draw of a kernel, compiled on the data as NumPyro's driver does it."""
    first = kernel.init(random.key(0), 0, params, (images, labels), {})
    draw = jax.jit(lambda state: kernel.sample(state, (images, labels), {}))
    return lambda: draw(first)


def main(experiment: Experiment) -> str:
    """The section of the page."""
    rows, minibatch = experiment.choose((ROWS, MINIBATCH), (20, 10))
    depth, width = experiment.choose((DEPTH, WIDTH), (8, 2))
    steps, rounds = experiment.choose((8, 9), (1, 2))
    images = random.normal(random.key(0), (rows, 32, 32, 3))
    labels = random.randint(random.key(1), (rows,), 0, 10)
    network = ResNet(depth, width)
    model = Classifier(network, minibatch, WEIGHT_DECAY, augmented=False)
    given = {"step_size": 1e-6, "num_steps": steps, "draw": "last"}
    kernels = {
        "SGHMC": SGHMC(model, **given),
        "ContourSGHMC": ContourSGHMC(model, partition=EnergyPartition(0.0, 1e4, 100), **given),
    }
    begin = start(network, images, random.key(0))
    methods = {"optax's sgd, a bare loop": bare(network, images, labels, minibatch, steps)} | {
        name: one_draw(kernel, images, labels, begin) for name, kernel in kernels.items()
    }
    for method in methods.values():
        seconds_of(method)  # compiles
    costs: dict[str, list[tuple[float, float]]] = {name: [] for name in methods}
    for _ in range(rounds):
        for name, method in methods.items():
            began = time.process_time()
            seconds = seconds_of(method)
            costs[name].append((seconds / steps, (time.process_time() - began) / steps))
    taken = {name: np.array(seconds) for name, seconds in costs.items()}
    first = next(iter(taken.values()))
    cells = [
        [
            name,
            f"{1000 * np.median(cost[:, 0]):,.0f}",
            *(f"{ratio:.2f}" for ratio in np.median(cost / first, 0)),
        ]
        for name, cost in taken.items()
    ]
    heads = ["method", "ms a step", "times the bare loop", "in seconds of all cores"]
    return (
        "## A step on a residual network\n\n"
        f"A residual network of {depth} layers and width {width} with batch normalisation, in "
        f"minibatches of {minibatch} of {rows:,} images of 32 x 32 pixels, on "
        f"{jax.default_backend()}. A draw of {steps} steps stands beside as many steps of the bare "
        f"loop. The methods take turns; figures are medians of {rounds} rounds, and ratios are "
        "taken within rounds.\n\n" + markdown_table(heads, cells)
    )
