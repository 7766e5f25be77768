"""Other samplers on posteriors whose modes come from rows, with as many rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from jax.flatten_util import ravel_pytree
from numpyro.infer import HMCECS, MCMC, NUTS
from numpyro.infer.util import log_density

from benchmarks.minibatches.modes_of_rows.runs import CHAINS, Outcome
from benchmarks.minibatches.modes_of_rows.target import Target
from benchmarks.peers.by_blackjax import draw_smc
from benchmarks.peers.by_others import available, sgmcmcjax_samplers
from benchmarks.peers.methods import CHAINS as PEERS_CHAINS
from benchmarks.peers.methods import RUNS
from benchmarks.peers.ours import draw_nuts
from benchmarks.peers.target import Target as Density
from benchmarks.shared.runs import quiet, run
from numpyro_contour import SGLD, robbins_monro
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.runs.finished_run import FinishedRun

#: draws of each chain that are scored, and the share of the steps before the first of them
DRAWS, WARMUP = 1000, 0.25
#: draws of HMCECS, and of its warm-up
ECS = 1000


@dataclass(frozen=True)
class Found:
    """The mass of the mode that a method found."""

    name: str
    #: of single chains, those of a run after each other, or of the runs of a method without chains
    masses: np.ndarray
    #: evaluations of rows of a run
    rows: float

    def error(self, exact: float) -> float:
        """The root mean square error of single chains."""
        return float(np.sqrt(((self.masses - exact) ** 2).mean()))

    def error_of_run(self, exact: float) -> float:
        """The root mean square error of the means over the chains of a run."""
        of_runs = self.masses.reshape(RUNS, -1).mean(1)
        return float(np.sqrt(((of_runs - exact) ** 2).mean()))


@dataclass(frozen=True)
class Peers:
    """What peers get: a target, one of our runs on it, and its number of rows.

    Each method makes `RUNS` runs of as many chains, each with as many rows.
    """

    target: Target
    ours: Outcome

    @cached_property
    def _steps(self) -> int:
        """Steps of a chain of minibatches with as many rows as our run."""
        return int(self.ours.rows / CHAINS / self.target.minibatch)

    @cached_property
    def _flat(self) -> Callable:
        return ravel_pytree(self.target.like)[1]

    def _masses(self, x: Any, weights: np.ndarray | None = None) -> np.ndarray:
        """The masses of chains of vectors, (chains, draws, size); what is not finite is outside."""
        weights = np.ones(np.shape(x)[:2]) if weights is None else weights
        sites = jax.vmap(jax.vmap(self._flat))(jnp.asarray(x, jnp.float32))
        inside = self.target.inside(jax.tree.map(np.asarray, sites))
        return (weights * inside).sum(1) / weights.sum(1)

    def _start(self, mcmc: MCMC) -> jax.Array:
        """The last draws of a run of chains, (chains, size)."""
        last = {name: x[:, -1] for name, x in mcmc.get_samples(group_by_chain=True).items()}
        return jax.vmap(lambda x: ravel_pytree(x)[0])(last)

    def _settings(self, mcmc: MCMC) -> tuple[float, jax.Array]:
        """The step size and the scale of each coordinate that a warm-up found."""
        state = mcmc.last_state
        diagonal = np.median(np.asarray(state.warmup.tuning.preconditioner), axis=0)
        return float(np.median(np.asarray(state.step_size))), jnp.sqrt(jnp.asarray(diagonal))

    @cached_property
    def _of_sgld(self) -> MCMC:
        """A run of plain SGLD, whose settings others get as well."""
        kernel = SGLD(self.target.model, num_steps=self._steps // DRAWS, energy="minibatch")
        warmup = int(WARMUP * DRAWS)
        return run(kernel, warmup, DRAWS - warmup, CHAINS * RUNS, *self.target.columns)

    def sgld(self) -> Found:
        """This package's SGLD on plain minibatches, with nothing given."""
        draws = self._of_sgld.get_samples(group_by_chain=True)
        masses = self.target.inside(jax.tree.map(np.asarray, draws)).mean(1)
        return Found("SGLD", masses, self.ours.rows)

    def csgld(self) -> Found:
        """`blackjax.csgld` with the partition of our run, and the step size and scale of SGLD."""
        state, target = self.ours.mcmc.last_state, self.target
        # The step size of our run is too large for the noise of plain minibatches.
        step_size, scale = self._settings(self._of_sgld)
        offsets = FinishedRun.of(self.ours.mcmc).energy_offsets
        lower = np.asarray(state.partition.lower, np.float64) + offsets
        potential = ModelPotential.of(target.model, target.columns, {})

        def estimate(z: jax.Array, rows: jax.Array) -> jax.Array:
            return offsets[0] - potential.at(self._flat(scale * z), {"rows": rows})

        sampler = blackjax.csgld(
            estimate,
            jax.grad(estimate),
            zeta=0.75,
            num_partitions=state.partition.num_bins,
            energy_gap=float(np.median(np.asarray(state.partition.width))),
            min_energy=float(np.median(lower) - offsets[0]),
        )
        gain = robbins_monro()
        inside = self._steps // DRAWS

        def step(state: Any, inputs: tuple) -> tuple:
            key, k = inputs
            key_rows, key_step = random.split(key)
            rows = random.randint(key_rows, (target.minibatch,), 0, target.rows)
            return sampler.step(key_step, state, rows, step_size, gain(k), 1.0), None

        def draw(state: Any, inputs: tuple) -> tuple:
            key, block = inputs
            numbers = block * inside + 1 + jnp.arange(inside)
            state, _ = jax.lax.scan(step, state, (random.split(key, inside), numbers))
            return state, (scale * state.position, state.energy_idx)

        def chain(key: jax.Array, start: jax.Array) -> tuple:
            blocks = (random.split(key, DRAWS), jnp.arange(DRAWS))
            return jax.lax.scan(draw, sampler.init(start / scale), blocks)

        starts = self._start(self._of_sgld)
        last, (x, bins) = jax.jit(jax.vmap(chain))(random.split(random.key(0), len(starts)), starts)
        kept = slice(int(WARMUP * DRAWS), None)
        theta = np.maximum(np.asarray(last.energy_pdf, np.float64), 1e-300)
        log_weights = 0.75 * np.log(np.take_along_axis(theta, np.asarray(bins)[:, kept], 1))
        weights = np.exp(log_weights - log_weights.max(1, keepdims=True))
        masses = self._masses(x[:, kept], weights)
        return Found("blackjax.csgld, our partition", masses, self.ours.rows)

    def sgmcmcjax(self) -> Found:
        """SGLD of SGMCMCJax with the step size and scale of our SGLD."""
        target, (step_size, scale) = self.target, self._settings(self._of_sgld)

        def log_prior(z: jax.Array) -> jax.Array:
            return log_density(target.prior, (), {}, self._flat(scale * z))[0]

        def log_likelihood(z: jax.Array, *row: jax.Array) -> jax.Array:
            *given, observed = row
            return target.likelihood(self._flat(scale * z), *given).log_prob(observed)

        sample = sgmcmcjax_samplers().build_sgld_sampler(
            step_size, log_likelihood, log_prior, target.columns, target.minibatch, pbar=False
        )
        every = self._steps // DRAWS
        chains = jax.jit(jax.vmap(lambda key, z: sample(key, every * DRAWS, z)[every - 1 :: every]))
        starts = self._start(self._of_sgld) / scale
        x = chains(random.split(random.key(0), len(starts)), starts) * scale
        return Found("SGMCMCJax's SGLD", self._masses(x[:, int(WARMUP * DRAWS) :]), self.ours.rows)

    def hmcecs(self) -> Found:
        """HMCECS with the Taylor proxy where a chain of SGLD ended."""
        target = self.target
        starts = jax.vmap(self._flat)(self._start(self._of_sgld))
        proxy = HMCECS.taylor_proxy(jax.tree.map(lambda x: x[0], starts))
        kernel = HMCECS(NUTS(target.model), num_blocks=100, proxy=proxy)
        mcmc = MCMC(
            kernel,
            num_warmup=ECS,
            num_samples=ECS,
            num_chains=CHAINS * RUNS,
            chain_method="sequential",  # the only one that it supports
            progress_bar=False,
        )
        with quiet():
            mcmc.run(
                random.key(0),
                *target.columns,
                extra_fields=("hmc_state.num_steps",),
                init_params=starts,
            )
        leapfrogs = float(np.asarray(mcmc.get_extra_fields()["hmc_state.num_steps"]).sum())
        draws = jax.tree.map(np.asarray, mcmc.get_samples(group_by_chain=True))
        sites = {name: draws[name] for name in target.like}
        # The warm-up takes at least as many leapfrog steps; both expansions are evaluated.
        rows = 4 * leapfrogs * target.minibatch / RUNS
        return Found("HMCECS", target.inside(sites).mean(1), rows)

    @cached_property
    def _density(self) -> Density:
        """The target with exact energies, whose gradients cost as many rows as there are."""
        target, none = self.target, lambda *_: None
        size = ravel_pytree(target.like)[0].size
        prior = Density("", size, none, none, none, 0, scale=1.0)

        def log_likelihood(x: jax.Array) -> jax.Array:
            sites = self._flat(x)
            log_prior = log_density(target.prior, (), {}, sites)[0]
            return log_prior - prior.log_prior(x) - target.energy(sites, *target.statistics)

        return Density("", size, log_likelihood, none, none, 0, scale=1.0)

    def _on_all_rows(self, name: str, draw: Callable) -> Found:
        """A method on exact energies, whose runs have as many rows as ours each."""
        gradients = max(int(self.ours.rows / self.target.rows / PEERS_CHAINS), 1)
        with quiet():
            drawn = draw(self._density, gradients)
        masses = self._masses(drawn.x, drawn.weights)
        return Found(name, masses, drawn.gradients * self.target.rows / RUNS)

    def nuts(self) -> Found:
        """NUTS on all rows."""
        return self._on_all_rows("NUTS", partial(draw_nuts, CHAINS))

    def smc(self) -> Found:
        """Tempered SMC on all rows, whose runs count as chains."""
        return self._on_all_rows("blackjax's tempered SMC", draw_smc)

    def all(self, quick: bool) -> Iterator[Found]:
        """What each method found, one after the other; the fastest two in the quick form."""
        found = [self.sgld, self.csgld]
        if not quick:
            found += [self.hmcecs, self.nuts, self.smc]
            found += [] if "SGMCMCJax" in available()[1] else [self.sgmcmcjax]
        for method in found:
            jax.clear_caches()
            yield method()
