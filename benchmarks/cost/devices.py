"""Chains and rows on several devices: whether answers change, and what is sent in a step."""

from __future__ import annotations

import math
import re
import time
import warnings
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import random
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from numpyro.infer import MCMC

from benchmarks.cost.methods import logistic
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.processes import on_devices, on_hosts
from benchmarks.shared.tables import markdown_table
from numpyro_contour import ContourSGLD, EnergyPartition, weighted_samples

CHAINS, DEVICES = 4, 4
#: layouts: (devices of chains, devices of rows)
LAYOUTS = ((1, 1), (4, 1), (1, 4), (2, 2))
ENERGIES = ("minibatch", "full")
_SENDING = "all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter"
#: bytes of a number by XLA's name of its type
_BYTES = {"f32": 4, "s32": 4, "u32": 4, "f64": 8, "pred": 1}


class Sizes(NamedTuple):
    """The logistic regression and its run."""

    rows: int = 20_000
    columns: int = 10
    minibatch: int = 500
    #: steps of a draw
    steps: int = 20
    draws: int = 20
    #: draws from which the time of a step is taken
    timed: int = 10

    def __str__(self) -> str:
        return f"N = {self.rows:,}, d = {self.columns}, n = {self.minibatch:,}"


QUICK = Sizes(rows=400, columns=2, minibatch=20, steps=2, draws=3, timed=1)


class Measured(NamedTuple):
    """A layout's answers and costs."""

    draws: np.ndarray
    log_weights: np.ndarray
    #: bytes of what a device sends in collective operations of a step
    sent: int
    microseconds: float


def sent_bytes(text: str) -> int:
    """The bytes of the results of all collective operations in a compiled program."""
    total = 0
    for results in re.findall(rf" = (.*?) (?:{_SENDING})(?:-start)?\(", text):
        for kind, shape in re.findall(r"(\w+)\[([\d,]*)\]", results):
            total += _BYTES[kind] * math.prod(int(n) for n in shape.split(",") if n)
    return total


def measured(chains: int, rows: int, energy: str, sizes: Sizes) -> Measured:
    """A run on a mesh of so many devices of this process, or of all that are joined."""
    devices = jax.devices()[: chains * rows]
    mesh = jax.make_mesh(
        (chains, rows), ("chains", "rows"), axis_types=(AxisType.Auto,) * 2, devices=devices
    )
    of_chains, of_rows = (NamedSharding(mesh, PartitionSpec(axis)) for axis in mesh.axis_names)
    model, data = logistic(sizes.rows, sizes.columns)
    data = jax.device_put(jax.tree.map(np.asarray, data), of_rows)
    keys = jax.jit(random.split, static_argnums=1, out_shardings=of_chains)(random.key(0), CHAINS)
    kernel = ContourSGLD(
        model,
        step_size=0.1 / sizes.rows,
        partition=EnergyPartition(0.3 * sizes.rows, 0.7 * sizes.rows, 64),
        num_steps=sizes.steps,
        minibatch_size=sizes.minibatch,
        energy=energy,
    )
    mcmc = MCMC(
        kernel,
        num_warmup=2,
        num_samples=sizes.draws,
        num_chains=CHAINS,
        chain_method="vectorized",
        jit_model_args=True,
        progress_bar=False,
    )
    mcmc.run(keys, *data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a run so short is no good one
        samples, log_weights = weighted_samples(mcmc)
    draw = jax.jit(lambda state, data: kernel.sample(state, data, {}))
    compiled = draw.lower(mcmc.last_state, data).compile()
    draws = np.concatenate([np.ravel(x) for x in jax.tree.leaves(samples)])
    microseconds = _microseconds(compiled, mcmc.last_state, data, sizes)
    return Measured(draws, log_weights, sent_bytes(compiled.as_text()), microseconds)


def _microseconds(draw: Any, state: Any, data: tuple, sizes: Sizes) -> float:
    seconds = []
    for _ in range(sizes.timed):
        began = time.perf_counter()
        state = jax.block_until_ready(draw(state, data))
        seconds.append(time.perf_counter() - began)
    return 1e6 * float(np.median(seconds)) / sizes.steps


def row(name: str, energy: str, found: Measured, expected: Measured) -> list[str]:
    """A line of the table."""
    apart = np.abs(found.draws - expected.draws).max()
    weights = np.abs(found.log_weights - expected.log_weights).max()
    cells = ["0" if x == 0 else f"{x:.0e}" for x in (apart, weights)]
    return [f'"{energy}"', name, *cells, f"{found.sent:,}", f"{found.microseconds:,.0f}"]


def main(experiment: Experiment) -> str:
    """The section of the page."""
    sizes = experiment.choose(Sizes(), QUICK)
    rows = []
    for energy in experiment.choose(ENERGIES, ENERGIES[:1]):
        found = {
            f"{chains} x {by_rows}": on_devices(DEVICES, measured, chains, by_rows, energy, sizes)
            for chains, by_rows in experiment.choose(LAYOUTS, ((1, 1), (2, 2)))
        }
        hosts = on_hosts(2, DEVICES // 2, measured, 2, 2, energy, sizes)
        assert all(np.array_equal(host.draws, hosts[0].draws) for host in hosts)
        found["2 x 2, two processes"] = hosts[0]
        rows += [row(name, energy, one, found["1 x 1"]) for name, one in found.items()]
    header = [
        *("`energy`", "devices of chains x of rows", "draws differ by", "log weights differ by"),
        *("bytes sent in a step", "us a step"),
    ]
    return (
        f"## Several devices\n\n`ContourSGLD` runs on a logistic regression at {sizes}, with "
        f"{CHAINS} chains and step size and partition given, as on [Devices and "
        "hosts](devices.md). Differences are the largest from one device, of "
        f"{sizes.draws} draws of {sizes.steps} steps. Bytes are those of the results of all "
        "collective operations of a step, on each device, read from the compiled program. The "
        "devices are virtual and share the cores of one machine, so that the time of a step shows "
        "what it costs to share work, and no gain.\n\n" + markdown_table(header, rows)
    )
