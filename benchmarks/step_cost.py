"""What a step costs: ratios to a bare loop of value and gradient, and to blackjax, in one run.

The cost of a step is the slope of the time over the length of the run, so that set-up is not in it;
the methods take turns, and medians over the rounds are compared.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random
from numpyro.infer import MCMC

from benchmarks.tables import markdown_table
from numpyro_contour import SGLD, ContourSGLD, EnergyPartition, robbins_monro
from numpyro_contour.models.model_potential import ModelPotential

ROUNDS = 9
STEPS_A_DRAW = 1000


def logistic(rows: int, columns: int) -> tuple[Callable, tuple]:
    """Logistic regression and its data."""

    def model(x: jax.Array, y: jax.Array) -> None:
        w = numpyro.sample("w", dist.Normal(0, 1).expand([columns]).to_event(1))
        with numpyro.plate("rows", rows) as idx:
            numpyro.sample("y", dist.Bernoulli(logits=x[idx] @ w), obs=y[idx])

    x = random.normal(random.key(0), (rows, columns))
    y = random.bernoulli(random.key(1), jax.nn.sigmoid(x[:, 0])).astype(jnp.int32)
    return model, (x, y)


def network(rows: int, columns: int, hidden: int) -> tuple[Callable, tuple]:
    """A regression network of one hidden layer, and its data."""

    def model(x: jax.Array, y: jax.Array) -> None:
        w1 = numpyro.sample("w1", dist.Normal(0, 1).expand([columns, hidden]).to_event(2))
        b1 = numpyro.sample("b1", dist.Normal(0, 1).expand([hidden]).to_event(1))
        w2 = numpyro.sample("w2", dist.Normal(0, 0.1).expand([hidden]).to_event(1))
        with numpyro.plate("rows", rows) as idx:
            mean = jnp.tanh(x[idx] @ w1 + b1) @ w2
            numpyro.sample("y", dist.Normal(mean, 0.5), obs=y[idx])

    x = random.normal(random.key(0), (rows, columns))
    return model, (x, jnp.sin(x[:, 0]))


class Case:
    """The methods under comparison on one model, as functions of the number of steps."""

    def __init__(
        self, model: Callable, data: tuple, minibatch: int, step_size: float, bins: int = 128
    ):
        self.model, self.data, self.minibatch = model, data, minibatch
        self.step_size = step_size
        self.rows = data[0].shape[0]
        self.potential = ModelPotential.of(model, data, {}, minibatch)
        start = MCMC(
            SGLD(model, step_size=step_size, minibatch_size=minibatch), num_warmup=0, num_samples=1
        )
        with contextlib.redirect_stderr(io.StringIO()):
            start.run(random.key(0), *data)
        self.start = jax.tree.map(lambda x: x[0], start.get_samples())
        energy = float(start.last_state.potential_energy_estimate)
        self.partition = EnergyPartition(0.2 * energy, 1.5 * energy, bins)

    def _estimate(self, position: dict, rows: jax.Array, data: tuple) -> jax.Array:
        # The data as arguments of the compiled loop, not constants in it.
        return replace(self.potential, model_args=data).at(position, {"rows": rows})

    def bare(self) -> Callable[[int], None]:
        """Descent on gathered minibatches by `jax.value_and_grad`, nothing else."""

        def loop(steps: int, data: tuple) -> tuple:
            def body(carry: tuple, _: None) -> tuple:
                key, position = carry
                key, key_rows = random.split(key)
                rows = random.randint(key_rows, (self.minibatch,), 0, self.rows)
                energy, gradient = jax.value_and_grad(self._estimate)(position, rows, data)
                position = jax.tree.map(lambda x, g: x - self.step_size * g, position, gradient)
                return (key, position), energy

            return jax.lax.scan(body, (random.key(0), self.start), length=steps)

        compiled = jax.jit(loop, static_argnums=0)
        return lambda steps: jax.block_until_ready(compiled(steps, self.data))

    def blackjax(self) -> Callable[[int], None]:
        """`blackjax.csgld`, without the 1e-8 of guidance on energies that both would need."""
        import blackjax

        def loop(steps: int, data: tuple) -> tuple:
            negative = lambda position, rows: -self._estimate(position, rows, data)
            sampler = blackjax.csgld(
                negative,
                jax.grad(negative),
                zeta=0.75,
                num_partitions=self.partition.num_bins,
                energy_gap=float(self.partition.width),
                min_energy=float(self.partition.lower),
            )
            gain = robbins_monro()

            def body(carry: tuple, k: jax.Array) -> tuple:
                key, state = carry
                key, key_rows, key_step = random.split(key, 3)
                rows = random.randint(key_rows, (self.minibatch,), 0, self.rows)
                state = sampler.step(key_step, state, rows, self.step_size, gain(k), 1.0)
                return (key, state), state.energy_idx

            state = sampler.init(self.start)
            return jax.lax.scan(body, (random.key(0), state), jnp.arange(1, steps + 1))

        compiled = jax.jit(loop, static_argnums=0)
        return lambda steps: jax.block_until_ready(compiled(steps, self.data))

    def kernel(self, kernel_class: type = ContourSGLD) -> Callable[[int], None]:
        """A kernel through NumPyro's own driver, draws collected."""
        arguments = {"partition": self.partition} if kernel_class is ContourSGLD else {}
        kernel = kernel_class(
            self.model,
            step_size=self.step_size,
            minibatch_size=self.minibatch,
            num_steps=STEPS_A_DRAW,
            **arguments,
        )
        runs: dict[int, MCMC] = {}

        def run(steps: int) -> None:
            if steps not in runs:
                # With its progress bar NumPyro keeps the compiled loop between runs.
                draws = steps // STEPS_A_DRAW
                runs[steps] = MCMC(kernel, num_warmup=0, num_samples=draws, progress_bar=True)
            with contextlib.redirect_stderr(io.StringIO()):
                runs[steps].run(random.key(0), *self.data, init_params=self.start)
            jax.block_until_ready(runs[steps].get_samples())

        return run


def step_costs(
    methods: dict[str, Callable[[int], None]], steps: int, rounds: int = ROUNDS
) -> dict[str, np.ndarray]:
    """Microseconds a step of each method in each round: the slope from `steps` to six times it."""
    lengths = (steps, 6 * steps)
    for method in methods.values():
        for length in lengths:
            method(length)
    costs: dict[str, list[float]] = {name: [] for name in methods}
    for _ in range(rounds):
        for name, method in methods.items():
            times = []
            for length in lengths:
                began = time.perf_counter()
                method(length)
                times.append(time.perf_counter() - began)
            costs[name].append(1e6 * (times[1] - times[0]) / (lengths[1] - lengths[0]))
    return {name: np.array(values) for name, values in costs.items()}


def _table(case: Case, steps: int, names: tuple[str, ...]) -> list[list[str]]:
    makers = {
        "bare loop": case.bare,
        "ContourSGLD": case.kernel,
        "SGLD": lambda: case.kernel(SGLD),
        "blackjax.csgld": case.blackjax,
    }
    costs = step_costs({name: makers[name]() for name in names}, steps)
    ours = costs["ContourSGLD"]
    return [
        [
            name,
            f"{np.median(cost):.1f}",
            f"{np.median(cost / costs['bare loop']):.2f}",
            f"{np.median(cost / ours):.2f}",
        ]
        for name, cost in costs.items()
    ]


def second_run() -> str:
    """Seconds until a second and third run of the same MCMC object are over, with one draw."""
    model, data = logistic(100_000, 50)
    kernel = ContourSGLD(
        model, step_size=1e-6, minibatch_size=512, partition=EnergyPartition(2e4, 9e4, 128)
    )
    mcmc = MCMC(kernel, num_warmup=0, num_samples=1, progress_bar=True)
    times = []
    for seed in range(5):
        began = time.perf_counter()
        with contextlib.redirect_stderr(io.StringIO()):
            mcmc.run(random.key(seed), *data)
        jax.block_until_ready(mcmc.get_samples())
        times.append(time.perf_counter() - began)
    return (
        f"A run of one draw, logistic regression at N = 100,000: first {times[0]:.2f} s, later "
        f"ones {np.median(times[1:]):.2f} s (median of {len(times) - 1}).\n"
    )


def main() -> str:
    """The tables, as text."""
    warnings.simplefilter("ignore")
    everyone = ("bare loop", "ContourSGLD", "SGLD", "blackjax.csgld")
    header = ["method", "us a step", "times the bare loop", "times ContourSGLD"]
    text = (
        "## Cost of a step\n\nThe bare loop draws rows with `random.randint`, gathers them and "
        f"takes value and gradient. Medians of {ROUNDS} interleaved rounds.\n\n"
    )
    cases = {
        "Logistic regression, N = 100,000, d = 50, n = 512": (
            Case(*logistic(100_000, 50), minibatch=512, step_size=1e-6),
            2000,
        ),
        "Logistic regression, N = 10,000, d = 10, n = 64": (
            Case(*logistic(10_000, 10), minibatch=64, step_size=1e-5),
            10_000,
        ),
        "Network of 100 hidden units, N = 10,000, d = 10, n = 1,000": (
            Case(*network(10_000, 10, 100), minibatch=1000, step_size=1e-6),
            1000,
        ),
    }
    for name, (case, steps) in cases.items():
        text += f"### {name}\n\n" + markdown_table(header, _table(case, steps, everyone)) + "\n"

    sizes = (10_000, 100_000, 1_000_000)
    growing = {
        size: Case(*logistic(size, 10), minibatch=64, step_size=0.1 / size) for size in sizes
    }
    costs = step_costs(
        {
            f"{name} {size}": getattr(case, method)()
            for size, case in growing.items()
            for name, method in (("bare", "bare"), ("ours", "kernel"))
        },
        5000,
    )
    rows = [
        [
            f"{size:,}",
            f"{np.median(costs[f'ours {size}']):.1f}",
            f"{np.median(costs[f'ours {size}'] / costs['ours 10000']):.2f}",
            f"{np.median(costs[f'bare {size}'] / costs['bare 10000']):.2f}",
        ]
        for size in sizes
    ]
    text += "### Rows of data, d = 10, n = 64\n\n" + markdown_table(
        ["N", "ContourSGLD, us a step", "times N = 10,000", "bare loop, times N = 10,000"], rows
    )
    text += (
        "\nWhat grows is the reading of 64 rows from an array that no cache holds, 0.1 us a row, "
        "which the bare loop pays as well; a model of more work a row hides it.\n"
    )
    return text + "\n### A second run\n\n" + second_run()


if __name__ == "__main__":
    print(main())
