"""The nine modes of section D.3: total variation of the mode masses, and SGLD and blackjax."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

import numpyro_contour
from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.posteriors import of_nine
from benchmarks.shared.tables import kish_of, markdown_table, total_variation
from numpyro_contour import EnergyPartition, robbins_monro
from numpyro_contour.examples import nine_modes

STEPS = 200_000
CHAINS = 32
LOWER = -7.0
GAIN = robbins_monro(10, 0.8, 100, maximum=0.003)


def ours(name: str, steps: int, step_size: float, **arguments: object) -> tuple:
    """Draws and weights at the paper's settings: 100 bins of width 0.25, noise variance 0.1."""
    if name.startswith("Contour"):
        partition = EnergyPartition(LOWER, LOWER + 25.0, 100)
        arguments |= {"partition": partition, "gain": GAIN, "collect_theta": False}
    if name.startswith("Cyclical"):
        arguments |= {"cycle_length": steps // 20}
    kernel = getattr(numpyro_contour, name)(
        potential_fn=nine_modes.potential,
        energy=nine_modes.noisy_energy(0.1),
        step_size=step_size,
        num_steps=100,
        **arguments,
    )
    mcmc = runs.run(kernel, 0, steps // 100, CHAINS, init_params=jnp.zeros((CHAINS, 2)))
    return runs.draws_of(mcmc)


class Row(NamedTuple):
    """A line of the table."""

    name: str
    step_size: float
    gradients: int
    variation: float
    pooled: float
    kish: float

    def cells(self) -> list[str]:
        """As text."""
        return [
            self.name,
            f"{self.step_size:g}",
            str(self.gradients),
            f"{self.variation:.3f}",
            f"{self.pooled:.3f}",
            f"{self.kish:.2f}",
        ]


def row(name: str, step_size: float, x: np.ndarray, weights: np.ndarray, gradients: int = 1) -> Row:
    """The measurements of a run."""
    exact = nine_modes.exact_masses().ravel()
    chains = of_nine(x, weights)
    return Row(
        name,
        step_size,
        gradients,
        total_variation(chains, exact).mean(),
        total_variation(chains.mean(0), exact),
        kish_of(weights),
    )


def blackjax_csgld(steps: int, step_size: float) -> tuple:
    """Draws and weights of blackjax's contour SGLD at the same settings.

    Its update is equation (15) of the paper, whose fixed point is mass**(1 / zeta). The weight
    that fits its drift is still theta(J)**zeta.
    """
    import blackjax

    def noisy(key_data: jax.Array, scale: float, shape: tuple) -> jax.Array:
        return scale * random.normal(random.wrap_key_data(key_data), shape)

    def log_density(x: jax.Array, key_data: jax.Array) -> jax.Array:
        return -nine_modes.potential(x) + noisy(key_data, 0.1**0.5, ())

    def gradient(x: jax.Array, key_data: jax.Array) -> jax.Array:
        return -jax.grad(nine_modes.potential)(x) + noisy(key_data, 0.1**0.5, (2,))

    sampler = blackjax.csgld(
        log_density,
        gradient,
        zeta=0.75,
        num_partitions=101,  # its partition 0 is never used
        energy_gap=0.25,
        min_energy=LOWER - 0.25,
    )

    @jax.jit
    @jax.vmap
    def chain(key: jax.Array) -> tuple:
        def body(state: tuple, inputs: tuple) -> tuple:
            key, k = inputs
            key_step, key_noise = random.split(key)
            batch = random.key_data(key_noise)
            new = sampler.step(key_step, state, batch, step_size, GAIN(k), 1.0)
            weight = state.energy_pdf[new.energy_idx] ** 0.75
            return new, (new.position, weight)

        state = sampler.init(jnp.zeros(2))
        keys = random.split(key, steps), jnp.arange(1, steps + 1)
        x, w = jax.lax.scan(body, state, keys)[1]
        return x[::10], w[::10]

    x, weights = chain(random.split(random.key(0), CHAINS))
    return np.asarray(x), np.asarray(weights)


#: Step sizes of the kernels, the paper's first.
STEP_SIZES = {
    "SGLD": (0.001, 0.01, 0.02, 0.04),
    "SGHMC": (0.001, 0.005, 0.01, 0.02),
    "SGNHT": (0.001, 0.005, 0.01, 0.02),
    "CyclicalSGLD": (0.005, 0.02, 0.04, 0.08),
    "CyclicalSGHMC": (0.005, 0.01, 0.02, 0.04),
    "ReplicaExchangeSGLD": (0.001, 0.01, 0.02, 0.04),
    "ReplicaExchangeSGHMC": (0.001, 0.005, 0.01, 0.02),
    "ContourSGLD": (0.001, 0.005, 0.01, 0.02, 0.04),
    "ContourSGHMC": (0.001, 0.005, 0.01, 0.02),
    "ContourSGNHT": (0.001, 0.005, 0.01, 0.02),
}


def main(experiment: Experiment) -> str:
    """The section of the page."""
    steps = experiment.choose(STEPS, 2000)
    published, best = [], []
    for name in experiment.choose(STEP_SIZES, ("ContourSGLD",)):
        step_sizes = experiment.choose(STEP_SIZES[name], STEP_SIZES[name][:2])
        gradients = runs.KERNELS[name]
        rows = [row(name, eps, *ours(name, steps, eps), gradients) for eps in step_sizes]
        published.append(rows[0])
        best.append(min(rows, key=lambda row: row.variation))
    # With the independent noise of the paper's steps and replicas.
    for name in experiment.choose(("SGLD", "ReplicaExchangeSGLD", "ContourSGLD"), ()):
        found = ours(name, steps, 0.001, noise="independent")
        published.append(row(f'{name}, noise="independent"', 0.001, *found, runs.KERNELS[name]))
    published.append(row("blackjax.csgld", 0.001, *blackjax_csgld(steps, 0.001)))
    header = ["kernel", "step size", "gradients a step", "TV a chain", "TV pooled", "Kish share"]
    return (
        "## Nine modes in two dimensions (section D.3)\n\n"
        f"All {CHAINS} chains start in the middle and run for {steps:,} steps. The noise of energy "
        "and gradient has variance 0.1. The partition has 100 bins of width 0.25, zeta is 0.75, "
        "the hot replica has temperature 3, and the cyclical kernels run 20 cycles. TV is the "
        "total variation distance between the nine mode masses and the exact ones, averaged over "
        "single chains and for the pooled chains.\n\nAt the paper's step sizes:\n\n"
        + markdown_table(header, [row.cells() for row in published])
        + "\nAt the best of four or five step sizes for each kernel:\n\n"
        + markdown_table(header, [row.cells() for row in best])
    )
