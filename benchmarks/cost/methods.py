"""Contour SGLD, a bare loop of gradients and blackjax on one model, by the number of steps."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import random
from numpyro.infer import MCMC

from benchmarks.shared.timing import by_steps
from numpyro_contour import SGLD, ContourSGLD, EnergyPartition, robbins_monro
from numpyro_contour.models.model_potential import ModelPotential

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
        # The data are arguments of the compiled loop, not constants in it.
        return replace(self.potential, model_args=data).at(position, {"rows": rows})

    def bare(self) -> Callable[[int], None]:
        """Descent on gathered minibatches by `jax.value_and_grad` and nothing else."""

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
        """A kernel through NumPyro's own driver, which collects draws."""
        arguments = {"partition": self.partition} if kernel_class is ContourSGLD else {}
        kernel = kernel_class(
            self.model,
            step_size=self.step_size,
            minibatch_size=self.minibatch,
            num_steps=STEPS_A_DRAW,
            **arguments,
        )
        return by_steps(kernel, STEPS_A_DRAW, *self.data, run={"init_params": self.start})
