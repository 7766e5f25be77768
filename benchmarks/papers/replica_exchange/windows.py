"""Windows of rounds in which a pair swaps at most once: round trips, and the bias they bring."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from benchmarks.papers.replica_exchange.target import (
    CHAINS,
    GRADIENT_SD,
    SEED,
    STEP_SIZE,
    THINNING,
    Case,
    noisy,
)
from benchmarks.shared.tables import markdown_table, mean_and_error
from numpyro_contour.core.diffusions import langevin
from numpyro_contour.core.samplers.replica_exchange import replica_exchange
from numpyro_contour.core.samplers.window import run_window
from numpyro_contour.diagnostics import optimal_round_trip_rate
from numpyro_contour.schedules import Constant

#: temperatures from 1 to 10 at equal ratios
REPLICAS = 8
#: how many times the variance of the case the noise has, which makes swaps rare
NOISIER = 16.0


@dataclass(frozen=True)
class Windowed:
    """The results of chains with one width of windows."""

    window: int
    #: whether energies are noisy
    has_noise: bool
    #: share of the offered swaps that each pair made, (chains, R - 1)
    rates: np.ndarray
    #: round trips of all replicas in 1,000 rounds, (chains,)
    trips: np.ndarray
    #: the mass of the left mode, (chains,)
    masses: np.ndarray

    @property
    def cells(self) -> list[str]:
        """A line of the table."""
        rejected = 1 - self.rates.mean(0)
        best = 1000 * float(optimal_round_trip_rate(rejected, self.window))
        return [
            f"variance {NOISIER:g} x 4" if self.has_noise else "none",
            str(self.window),
            f"{self.rates.mean():.3f}",
            f"{rejected.sum():.2f}",
            f"{self.trips.mean():.1f}",
            f"{best:.1f}",
            mean_and_error(self.masses),
        ]


HEADER = [
    *("noise of energies", "W", "share of offered swaps made", "barrier"),
    *("round trips in 1,000 rounds", "if moves forget the energy", "mass of the left mode, 0.4"),
]


def windowed(case: Case, window: int, has_noise: bool, steps: int) -> Windowed:
    """Runs from the exact masses, with a swap offered at each step."""
    scale = float(np.sqrt(NOISIER)) if has_noise else 0.0
    energy = noisy(case.mixture, lambda key: scale * case.noise(key), GRADIENT_SD * has_noise)
    ladder = tuple(Constant(float(tau)) for tau in np.geomspace(1, 10, REPLICAS))
    sampler = replica_exchange(
        langevin(), Constant(STEP_SIZE), ladder, noisy=has_noise, swap_window=window
    )

    def chain(key: jax.Array, start: jax.Array) -> tuple[jax.Array, object]:
        key_init, key_run = random.split(key)
        state = sampler.init(key_init, start, energy)

        def body(state: object, key: jax.Array) -> tuple:
            state, of_window = run_window(key, state, energy, sampler, THINNING, "last")
            return state, of_window.draw.position

        state, x = jax.lax.scan(body, state, random.split(key_run, steps // THINNING))
        return x, (state.swap_rates, state.walkers.round_trips.sum())

    mixture = case.mixture
    left = jnp.arange(CHAINS) < round(mixture.mass * CHAINS)
    start = jnp.where(left, mixture.left, mixture.right)
    found = jax.jit(jax.vmap(chain))(random.split(random.key(SEED), CHAINS), start)
    x, (rates, trips) = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), found)
    masses = (x < mixture.divide).mean(-1)
    return Windowed(window, has_noise, rates, 1000 * trips / steps, masses)


def section(case: Case, steps: int, quick: bool) -> str:
    """The part of the section on windows."""
    widths = (1, 4) if quick else (1, 2, 4, 8, 16)
    found = [windowed(case, width, noise, steps) for noise in (False, True) for width in widths]
    return (
        "### Windows of rounds (DEO*)\n\n"
        "Deng, Zhang, Feng, Liang and Lin (2023) give even and odd pairs W rounds of swaps in "
        "turn, in which each pair swaps at most once (`swap_window`). W = 1 is the deterministic "
        "even-odd scheme of Syed et al. (2022), and the default. "
        f"The target is the first of this section, with {REPLICAS} temperatures from 1 to 10 at "
        f"equal ratios and a swap offered at each step, {CHAINS} chains of {steps:,} steps that "
        "start in the modes by their masses.\n\n"
        + markdown_table(HEADER, [one.cells for one in found])
        + "\nRound trips are those of all replicas from the coldest temperature to the hottest "
        "and back; the column beside them is what `optimal_round_trip_rate` gives for these "
        "rejections. A wider window brings more of them only where swaps are rare. Which round of "
        "a window has the swap depends on the modes of both replicas, so that draws are biased "
        "with W above 1.\n"
    )
