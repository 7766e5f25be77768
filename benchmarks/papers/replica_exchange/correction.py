"""The trade-off of the correction factor and the minibatch size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from matplotlib.figure import Figure

from benchmarks.papers.replica_exchange.target import (
    CHAINS,
    GRADIENT_SD,
    LADDER,
    SEED,
    STEP_SIZE,
    THINNING,
    Case,
    Mixture,
    changes,
    noisy,
)
from benchmarks.shared.tables import Claim, total_variation
from numpyro_contour.core.diffusions import langevin
from numpyro_contour.core.samplers.replica_exchange import replica_exchange
from numpyro_contour.core.samplers.window import run_window
from numpyro_contour.schedules import Constant

#: the variance of the noise falls as 1 / n, and has the script's value at this n
MINIBATCH = 100
NAIVE = math.inf


@dataclass(frozen=True)
class Traded:
    """The results of chains with one correction factor and one minibatch size."""

    minibatch: int
    factor: float
    #: positions, (chains, draws)
    x: np.ndarray
    #: share of swaps made, (chains,)
    rate: np.ndarray
    mixture: Mixture

    def masses(self, draws: int | None = None) -> np.ndarray:
        """The mass of the left mode in the first draws, (chains,)."""
        return (self.x[:, :draws] < self.mixture.divide).mean(-1)

    @property
    def bias(self) -> float:
        """The bias of the left mode's mass over all chains and steps."""
        return float(self.masses().mean() - self.mixture.left_mass)

    def error(self, draws: int | None = None) -> float:
        """The root mean square error of the left mode's mass in one chain."""
        return float(np.sqrt(((self.masses(draws) - self.mixture.left_mass) ** 2).mean()))

    @property
    def variation(self) -> float:
        """The mean total variation of the chains' histograms."""
        mixture = self.mixture
        return float(total_variation(mixture.histogram(self.x), mixture.bins()).mean())

    @property
    def crossings(self) -> float:
        """The number of changes of mode in 1,000 steps."""
        return float(changes(self.x, self.mixture.divide).mean())


def trade(case: Case, minibatches: tuple[int, ...], factor: float, steps: int) -> list[Traded]:
    """Runs with noise of variance proportional to 1 / n, for each n."""
    arguments = {"swap": "naive"} if factor == NAIVE else {"correction_factor": factor}
    ladder = tuple(Constant(tau) for tau in LADDER)
    diffusion = langevin(noise="independent")
    sampler = replica_exchange(diffusion, Constant(STEP_SIZE), ladder, **arguments)

    def chain(key: jax.Array, scale: jax.Array) -> tuple[jax.Array, jax.Array]:
        noise = lambda key: scale * case.noise(key)
        energy = noisy(case.mixture, noise, scale * GRADIENT_SD)
        key_init, key_run = random.split(key)
        state = sampler.init(key_init, jnp.zeros(()), energy)

        def body(state: object, key: jax.Array) -> tuple:
            state, window = run_window(key, state, energy, sampler, THINNING, "last")
            return state, window.draw.position

        state, x = jax.lax.scan(body, state, random.split(key_run, steps // THINNING))
        return x, state.swap_rates[0]

    keys = random.split(random.key(SEED), CHAINS)
    scales = jnp.sqrt(MINIBATCH / jnp.asarray(minibatches, float))
    every = jax.jit(jax.vmap(jax.vmap(chain, (0, None)), (None, 0)))
    x, rates = (np.asarray(found, np.float64) for found in every(keys, scales))
    return [Traded(n, factor, a, rate, case.mixture) for n, a, rate in zip(minibatches, x, rates)]


def name_of(factor: float) -> str:
    """A correction factor in words."""
    return "naive" if factor == NAIVE else f"{factor:g}"


def draws_of_equal_rows(found: list[Traded]) -> dict[int, int]:
    """The number of draws that cost as many rows as all draws with the smallest minibatch."""
    smallest = min(result.minibatch for result in found)
    draws = found[0].x.shape[1]
    return {result.minibatch: draws * smallest // result.minibatch for result in found}


def trade_offs(found: list[Traded]) -> Figure:
    """Swaps, changes of mode and errors by minibatch size, a line for each factor."""
    draws = draws_of_equal_rows(found)
    panels = {
        "share of swaps made": lambda r: r.rate.mean(),
        "changes of mode in 1,000 steps": lambda r: r.crossings,
        "mass of the left mode: bias": lambda r: r.bias,
        "error of a chain, equal steps": lambda r: r.error(),
        "error of a chain, equal rows": lambda r: r.error(draws[r.minibatch]),
    }
    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    factors = sorted({result.factor for result in found})
    for axis, (title, value) in zip(axes, panels.items()):
        for position, factor in enumerate(factors):
            line = [result for result in found if result.factor == factor]
            colour = f"C{position}" if factor != NAIVE else "black"
            axis.plot(
                [result.minibatch for result in line],
                [value(result) for result in line],
                "o-",
                ms=4,
                color=colour,
                label="naive" if factor == NAIVE else f"F = {factor:g}",
            )
        axis.set_xscale("log")
        axis.set(title=title, xlabel="minibatch size n")
        axis.set_xticks(list(draws), labels=[str(n) for n in draws], minor=False)
        axis.minorticks_off()
    axes[2].axhline(0, color="0.7", lw=0.8, zorder=0)
    axes[-1].set_axis_off()
    axes[-1].legend(handles=axes[0].get_lines(), loc="center left", frameon=False)
    return figure


def slope_claims(found: list[Traded]) -> list[Claim]:
    """The claims of the slides about F and n, and whether they hold."""
    by = {(result.minibatch, result.factor): result for result in found}
    sizes = sorted({result.minibatch for result in found})
    factors = sorted({result.factor for result in found})
    low, high = factors[0], factors[-1]
    small, large = sizes[0], sizes[-1]
    draws = draws_of_equal_rows(found)
    best = {n: by[n, low].error(draws[n]) for n in sizes}
    winner = min(best, key=best.get)
    most = max(found, key=lambda result: result.rate.mean())
    least = min(found, key=lambda result: result.error())

    def span(values: list[float], digits: int) -> str:
        return f"{values[0]:.{digits}f} to {values[-1]:.{digits}f}"

    changes_f = [by[small, factor].crossings for factor in factors]
    bias_f = [abs(by[small, factor].bias) for factor in factors]
    changes_n = [by[n, low].crossings for n in sizes]
    span_f = f"from F = {name_of(low)} to {name_of(high)} at n = {small}"
    table = [
        (
            "larger F: larger acceleration",
            f"{span(changes_f, 2)} changes of mode in 1,000 steps {span_f}",
            changes_f[-1] > changes_f[0],
        ),
        (
            "larger F: lower accuracy",
            f"absolute bias of the mass {span(bias_f, 3)} {span_f}",
            bias_f[-1] > bias_f[0],
        ),
        (
            "larger n: larger acceleration",
            f"{span(changes_n, 2)} changes of mode from n = {small} to {large} at F = "
            f"{name_of(low)}",
            changes_n[-1] > changes_n[0],
        ),
        (
            "larger n: slower evaluation, so that the largest is not the best for its cost",
            f"at equal rows and F = {name_of(low)} the smallest error is {best[winner]:.3f} at n = "
            f"{winner}; it is {best[large]:.3f} at n = {large}",
            winner != large,
        ),
        (
            '"More swaps don\'t necessarily lead to better performance"',
            f"error {most.error():.3f} at the most swaps, {most.rate.mean():.3f}; smallest error "
            f"{least.error():.3f} at {least.rate.mean():.3f}",
            most.error() > least.error(),
        ),
    ]
    return table
