"""This package's kernels with nothing given, and NumPyro's NUTS."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import MCMC, NUTS

import numpyro_contour
from benchmarks.peers.methods import CHAINS, RUNS, Drawn, Method, chains_first, without_compiling
from benchmarks.peers.target import Target
from benchmarks.shared import runs
from benchmarks.shared.runs import KERNELS
from numpyro_contour import EnergyPartition
from numpyro_contour.kernels.parts.jumping import SHARE

NUM_STEPS = 10
#: share of the gradients that is spent on warm-up
WARMUP = 0.1
#: share of the warm-up's gradients that its searches for modes take at most
SEARCHES = 0.15


def steps_of(name: str, target: Target, gradients: int, jumps: bool = True) -> int:
    """How many steps of a kernel so many gradients are, with those of searches and jumps.

    Each try to jump takes a gradient for each chain at each temperature. Chains search for modes
    on every posterior, but jump only where they know two: it is assumed that they do where there
    are two.
    """
    each = float(KERNELS[name])
    if jumps and not name.startswith("Cyclical"):
        each *= 1 + (SHARE if target.multimodal else 0.0) + SEARCHES * WARMUP
    return int(gradients / each)


def sample(
    name: str, target: Target, gradients: int, chains: int = CHAINS * RUNS, **settings: Any
) -> MCMC:
    """A finished run of a kernel; the gradients include its warm-up and its tries to jump."""
    jumps = settings.get("jumps") is not False
    draws = steps_of(name, target, gradients, jumps) // NUM_STEPS
    warmup = round(WARMUP * draws)
    kernel = getattr(numpyro_contour, name)(
        potential_fn=target.potential, num_steps=NUM_STEPS, **settings
    )
    start = target.starts(random.key(1), chains)
    return runs.run(kernel, warmup, draws - warmup, chains, init_params=start)


def drawn_by(mcmc: MCMC, gradients: int) -> Drawn:
    """The draws of a finished run of a kernel."""
    x, weights = runs.draws_of(mcmc)
    return Drawn(chains_first(x), weights, gradients * CHAINS * RUNS)


def draw_kernel(name: str, target: Target, gradients: int) -> Drawn:
    """Draws of a kernel with nothing given."""
    return drawn_by(sample(name, target, gradients), gradients)


def draw_given(zeta: float, target: Target, gradients: int) -> Drawn:
    """Draws of `ContourSGLD` with the settings that its warm-up found in another run."""
    found = tuned("ContourSGLD", target)
    mcmc = sample(
        "ContourSGLD",
        target,
        gradients,
        zeta=zeta,
        step_size=found.step_size,
        preconditioner=found.scale**2,
        partition=EnergyPartition(found.lower, found.upper, found.num_bins),
    )
    return drawn_by(mcmc, gradients)


def draw_nuts(chains: int, target: Target, gradients: int) -> Drawn:
    """NUTS, for as many gradients in all of its chains together as other methods have."""
    number = chains * RUNS
    budget = gradients * CHAINS // chains
    starts = target.starts(random.key(1), number)

    def run(warmup: int, samples: int) -> tuple[MCMC, float]:
        mcmc = runs.driver(NUTS(potential_fn=target.potential), warmup, samples, number)
        mcmc.warmup(
            random.key(0), init_params=starts, extra_fields=("num_steps",), collect_warmup=True
        )
        spent = float(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum())
        mcmc.run(random.key(0), extra_fields=("num_steps",))
        return mcmc, spent

    # NUTS reports its gradients only afterwards: a tenth of the run tells how many draws fit.
    warmup = min(1000, max(budget // 100, 50))
    (pilot, _), seconds = without_compiling(lambda: run(warmup, warmup))
    each = float(np.asarray(pilot.get_extra_fields()["num_steps"]).mean())
    mcmc, spent = run(warmup, max(int(budget / each) - warmup, 10))
    x = chains_first(mcmc.get_samples(group_by_chain=True))
    spent += float(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum())
    return Drawn(x, np.ones(x.shape[:2]), spent, pilot=seconds)


class Tuned:
    """The settings that the warm-up of a kernel found, which are given to peers."""

    def __init__(self, kernel: str, target: Target, gradients: int):
        state: Any = sample(kernel, target, gradients, chains=CHAINS).last_state
        self.step_size = float(np.median(np.asarray(state.step_size)))
        diagonal = np.median(np.asarray(state.warmup.tuning.preconditioner), axis=0)
        #: the root of the preconditioner, (size,): positions in this unit have M = 1
        self.scale = jnp.sqrt(jnp.asarray(diagonal))
        if hasattr(state, "partition"):
            partition = state.partition
            self.lower = float(np.median(np.asarray(partition.lower)))
            self.upper = float(np.median(np.asarray(partition.upper)))
            self.num_bins = partition.num_bins
            self.width = (self.upper - self.lower) / self.num_bins

    def density(self, target: Target) -> Any:
        """The log density in the preconditioner's unit."""
        return lambda z: target.log_density(self.scale * z)


@cache
def tuned(kernel: str, target: Target) -> Tuned:
    """Find the settings by a run with a fifth of the target's gradients."""
    return Tuned(kernel, target, target.gradients // 5)


#: names of `ContourSGLD` with the settings that its own warm-up finds, by zeta. blackjax's theta
#: tends to mass^(1 / zeta), so its zeta of 0.75 flattens as much as our zeta of 1.
GIVEN = {0.75: "ContourSGLD, the same given", 1.0: "ContourSGLD, the same given, zeta 1"}
OURS = (
    *(
        Method(name, partial(draw_kernel, name))
        for name in sorted(KERNELS, key=lambda name: not name.startswith("Contour"))
    ),
    *(
        Method(name, partial(draw_given, zeta), tuned_by="ContourSGLD")
        for zeta, name in GIVEN.items()
    ),
)
NUTS_METHODS = tuple(
    Method(
        f"NUTS, {chains} chains",
        partial(draw_nuts, chains),
        package="numpyro",
        stochastic_gradient=False,
    )
    for chains in (4, 16)
)
