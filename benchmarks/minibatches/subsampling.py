"""Posteriors from minibatches, compared with NUTS and exact answers; only `num_steps` is given."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random
from numpyro.infer import MCMC

from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.models import logistic, logistic_data, poisson, poisson_data
from benchmarks.shared.posteriors import by_nuts, errors, two_draws
from benchmarks.shared.processes import alone, peak_bytes
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import seconds_of
from numpyro_contour import ContourSGLD, EnergyPartition
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.examples import mixture
from numpyro_contour.models.all_rows import FullEnergy, Reference
from numpyro_contour.runs.energies_over_all_rows import full_energies
from numpyro_contour.runs.finished_run import FinishedRun

CHAINS = 16
WARMUP, STEPS = 10_000, 30_000
GROUPS, MEMBERS = 50, 1000


def nested(x: jax.Array, y: jax.Array) -> None:
    """A hierarchy of lines, with both plates subsampled."""
    level = numpyro.sample("level", dist.Normal(0, 2))
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    effect = numpyro.sample("effect", dist.Normal(level, spread).expand([GROUPS]).to_event(1))
    with (
        numpyro.plate("groups", GROUPS, subsample_size=25, dim=-2) as group,
        numpyro.plate("members", MEMBERS, subsample_size=50, dim=-1) as member,
    ):
        mean = effect[group][:, None] + slope * x[group][:, member]
        numpyro.sample("y", dist.Normal(mean, noise), obs=y[group][:, member])


def nested_data() -> tuple:
    """50 groups of 1,000 rows."""
    keys = random.split(random.key(7), 3)
    x = random.normal(keys[0], (GROUPS, MEMBERS))
    effect = 1 + 0.7 * random.normal(keys[1], (GROUPS, 1))
    return x, effect + 0.5 * x + random.normal(keys[2], x.shape)


# ------------------------------------------------------------------------------ truths


def by_laplace(x: jax.Array, y: jax.Array) -> dict[str, np.ndarray]:
    """Mean and sd of a logistic regression with enough rows to be normal, in double precision.

    They are returned as two draws: the mean plus and minus the sd.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    beta = np.zeros(x.shape[1])
    for _ in range(20):
        p = 1 / (1 + np.exp(-x @ beta))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.eye(len(beta)) / 100
        beta -= np.linalg.solve(hessian, x.T @ (p - y) + beta / 100)
    sd = np.sqrt(np.diag(np.linalg.inv(hessian)))
    return two_draws(beta, sd, "beta")


# ------------------------------------------------------------------------------ regressions


def run(
    length: int,
    model: Callable,
    data: tuple,
    num_steps: int,
    chains: int = CHAINS,
    energy: str | None = None,
) -> MCMC:
    """A run with only the steps of a draw given, `length` times shorter than `STEPS`."""
    draws = length * num_steps
    kernel = ContourSGLD(model, num_steps=num_steps, energy=energy)
    return runs.run(kernel, WARMUP // draws, STEPS // draws, chains, *data)


class Row(NamedTuple):
    """A target of the table."""

    name: str
    model: Callable
    data: Callable[[], tuple]
    truth: Callable[[tuple], dict[str, np.ndarray]]
    num_steps: int = 10
    energy: str | None = None


def rows() -> list[Row]:
    """The table's regressions."""
    many, few = 1_000_000, 10_000
    nuts = lambda model: lambda data: by_nuts(ContourSGLD(model).model, data, 500, 2500, 2)
    small = (logistic, lambda: logistic_data(few), nuts(logistic))
    large = (logistic, lambda: logistic_data(many), lambda data: by_laplace(*data))
    return [
        Row("logistic, 10,000 rows", *small),
        Row('the same, `energy="minibatch"`', *small, energy="minibatch"),
        Row("logistic, 1,000,000 rows", *large, num_steps=200),
        Row("Poisson, 50,000 rows", poisson, lambda: poisson_data(50_000), nuts(poisson)),
        Row("two nested plates, 50,000 rows", nested, nested_data, nuts(nested)),
    ]


def regressions(targets: list[Row], length: int) -> str:
    """The table of regressions."""
    table = []
    for row in targets:
        data = row.data()
        begin = time.perf_counter()
        mcmc = run(length, row.model, data, row.num_steps, energy=row.energy)
        seconds = time.perf_counter() - begin
        begin = time.perf_counter()
        found = errors(*runs.draws_of(mcmc), row.truth(data))
        noise = full_energies(FinishedRun.of(mcmc)).noise
        width = np.asarray(mcmc.last_state.partition.width, np.float64)[:, None]
        tuning = mcmc.last_state.warmup.tuning
        share = jnp.exp(tuning.step_size.log_average)[:, None] * (
            tuning.preconditioner * tuning.gradient_noise
        )
        table.append(
            [
                row.name,
                ", ".join(f"{name} {value:.3f}" for name, value in found.items()),
                f"{np.median(noise):.3g} ({np.median(noise / width):.2g})",
                f"{100 * float(share.max() / 2):.1f} %",
                f"{np.asarray(mcmc.last_state.step_size).mean():.2f}",
                f"{seconds:.0f} + {time.perf_counter() - begin:.0f}",
            ]
        )
        print(*table[-1], sep=" | ", flush=True)
    header = [
        *("target", "figures", "noise of the energy, nats (bins)"),
        *("gradient noise / noise of a step", "step size", "seconds, run + weights and truth"),
    ]
    return markdown_table(header, table)


# ------------------------------------------------------------------------------ noisy mixtures


def noisy(sigma: Callable) -> Callable:
    """The mixture's potential with noise of standard deviation `sigma(x)`."""

    def energy(key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        xi = random.normal(key)
        return jax.value_and_grad(lambda x: mixture.potential(x) + xi * sigma(x))(x)

    return energy


def mixtures(length: int, number: int | None) -> str:
    """Mode mass and variances within modes under noise, by the run's weights and by full ones."""
    partition = EnergyPartition(1.0, 21.0, 40)
    targets: list[tuple[str, Callable, EnergyPartition | None]] = [
        (f"{bins} bins of 0.5 nats", lambda x, bins=bins: 0.5 * bins, partition)
        for bins in (0.3, 1.0, 3.0)
    ]
    targets += [(f"{nats} nats", lambda x, nats=nats: nats, None) for nats in (0.3, 1.0, 3.0)]
    targets += [
        ("1 nat left, 3 nats right", lambda x: 1 + 2 * jax.nn.sigmoid(2 * (x + 1)), None),
        ("3 nats left, 1 nat right", lambda x: 3 - 2 * jax.nn.sigmoid(2 * (x + 1)), None),
    ]
    table = []
    for name, sigma, given in targets[:number]:
        kernel = ContourSGLD(
            potential_fn=mixture.potential,
            energy=noisy(sigma),
            num_steps=10,
            partition=given,
            collect_theta=False,
        )
        start = jnp.linspace(-8, 6, CHAINS)
        mcmc = runs.run(kernel, 2000 // length, 20_000 // length, CHAINS, init_params=start)
        figures = []
        for energy in (None, "estimate"):
            x, w = runs.draws_of(mcmc, energy=energy)
            x = x.astype(np.float64)
            right = x > mixture.DIVIDE
            mass = (w * right).mean(1)
            within = [
                (w * side * (x - centre) ** 2).sum() / (w * side).sum()
                for side, centre in ((~right, -6), (right, 4))
            ]
            error = mass.std() / np.sqrt(CHAINS)
            figures.append(f"{mass.mean():.3f} +- {error:.3f}, {within[0]:.3f}, {within[1]:.3f}")
        table.append([name, *figures])
        print(*table[-1], sep=" | ", flush=True)
    header = [
        "noise of the energy",
        "weights at the full energy",
        "by the noisy energy (the paper)",
    ]
    return markdown_table(header, table)


# ------------------------------------------------------------------------------ ten million rows


def on_the_fly(size: int) -> None:
    """A normal mean; rows are computed from their numbers."""
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    with numpyro.plate("rows", size, subsample_size=1000) as rows:
        numpyro.sample("y", dist.Normal(mean, 1), obs=row(rows))


def row(number: jax.Array) -> jax.Array:
    """A number around 0.7 for each row, by Knuth's multiplicative hash."""
    return 0.7 + 3.4 * ((number.astype(jnp.uint32) * jnp.uint32(2654435761) >> 8) / 2.0**24 - 0.5)


def ten_million(size: int, length: int) -> str:
    """Words for the error of the mean in posterior sds, the ratio of sds and the peak memory."""
    mcmc = run(length, on_the_fly, (size,), num_steps=300 // length, chains=4)
    number = np.arange(size, dtype=np.uint32)
    y = 0.7 + 3.4 * ((number * np.uint32(2654435761) >> 8) / 2.0**24 - 0.5)
    exact, sd = y.sum() / (size + 0.01), 1 / np.sqrt(size)
    samples, w = runs.draws_of(mcmc)
    x = samples["mean"].astype(np.float64)
    means = (w * x).mean(1)
    spread = np.sqrt((w * (x - exact) ** 2).mean())
    peak = peak_bytes() / 2**30
    return (
        "the means of single chains are wrong by "
        f"{np.sqrt(((means - exact) ** 2).mean()) / sd:.3f} posterior sds (pooled "
        f"{abs(means.mean() - exact) / sd:.3f}), the sd ratio is {spread / sd:.3f}, and peak "
        f"memory is {peak:.2f} GiB, which includes making the data once for the exact answer"
    )


# ------------------------------------------------------------------------------ cost


def cost(sizes: tuple[int, ...]) -> str:
    """Microseconds per step and per weight of a kept draw, for each estimator."""
    table = []
    for size in sizes:
        data = logistic_data(size, columns=10)
        for energy in ("minibatch", "control_variate", "full"):
            step, weight = _costs(data, energy)
            weight_text = "none needed" if energy == "full" else f"{weight:,.0f}"
            table.append([f"{size:,}", energy, f"{step:,.0f}", weight_text])
            print(*table[-1], sep=" | ", flush=True)
    header = ["rows", "`energy`", "us a step", "us per weight of a kept draw"]
    return markdown_table(header, table)


def _costs(data: tuple, energy: str) -> tuple[float, float]:
    """Microseconds per step of one chain after its warm-up, and per weight of one draw."""
    steps = 1 if energy == "full" else 100
    kernel = ContourSGLD(logistic, energy=energy, num_steps=steps, collect_theta=False)
    mcmc = MCMC(kernel, num_warmup=20, num_samples=1, progress_bar=False, jit_model_args=True)
    mcmc.warmup(random.key(0), *data)
    state = mcmc.post_warmup_state

    @jax.jit
    def draws(number: int, state: Any, data: tuple) -> Any:
        return jax.lax.fori_loop(0, number, lambda _, s: kernel.sample(s, data, {}), state)

    few, many = (1, 4) if energy == "full" else (20, 120)
    seconds = _median_seconds(lambda: draws(many, state, data)) - _median_seconds(
        lambda: draws(few, state, data)
    )
    reference, anchors = None, state.warmup.anchors
    if anchors:
        first = jax.tree.map(lambda x: x[0], anchors.slots)
        reference = Reference(first.position, first.weight, anchors.order)
    _, positions = kernel.energies(state.z, data, {}).full_data.sharing(reference)

    @jax.jit
    def energies(flat: jax.Array, data: tuple) -> FullEnergy:
        shared, _ = kernel.energies(state.z, data, {}).full_data.sharing(reference)
        return jax.vmap(shared.at, (0, None))(flat, reference)

    flat = jnp.broadcast_to(ravel(state.z), (positions, data[0].shape[1]))
    weight = 0.0 if energy == "full" else _median_seconds(lambda: energies(flat, data))
    return 1e6 * seconds / (many - few) / steps, 1e6 * weight / positions


def _median_seconds(function: Callable[[], Any], rounds: int = 5) -> float:
    seconds_of(function)
    return float(np.median([seconds_of(function) for _ in range(rounds)]))


def main(experiment: Experiment) -> str:
    """The section of the page."""
    # How many times shorter the runs are.
    length = experiment.choose(1, 25)
    size = experiment.choose(10_000_000, 20_000)
    words = alone(ten_million, size, length)
    print(words, flush=True)
    targets = experiment.choose(rows(), rows()[1:2])
    sizes = experiment.choose((10_000, 100_000, 1_000_000, 10_000_000), (10_000,))
    return (
        "## Subsampled likelihoods\n\n"
        f"`ContourSGLD` is given no argument except `num_steps`. All {CHAINS} chains run for "
        f"{STEPS:,} steps after {WARMUP:,} steps of warm-up. Errors of means are in posterior "
        "standard deviations, relative to NUTS (at 1,000,000 rows, to the normal "
        "approximation).\n\n"
        + regressions(targets, length)
        + "\nThe mixture 0.4 N(-6, 1) + 0.6 N(4, 1) with noise added to its energies. Each cell "
        "gives the mass of the right mode (exact: 0.6) and the variances within the left and the "
        "right mode (exact: 1).\n\n"
        + mixtures(length, experiment.choose(None, 1))
        + f"\nA conjugate normal model with {size:,} rows, which are made as they are needed: "
        f"{words}.\n\nThe cost of a step and of a weight, for logistic regression on ten columns "
        "with minibatches of 200:\n\n" + cost(sizes)
    )
