"""NUTS of NumPyro, `ModeJumping` around it, and `ContourSGLD`, with their defaults."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS

from benchmarks.peers.clock.drawn import After, Drawn
from benchmarks.peers.clock.methods import CHAINS, DRAWS
from benchmarks.peers.clock.models import MODELS, potential, starts
from benchmarks.peers.clock.posteriors import Data, Posterior


class _Problem:
    """A posterior, as kernels and their runs take it."""

    def __init__(self, posterior: Posterior, data: Data, seed: int) -> None:
        self.posterior = posterior
        if posterior.name in MODELS:
            model, self.coordinates = MODELS[posterior.name]
            self.of_kernel: dict[str, Any] = {"model": model}
            self.args = tuple(map(jnp.asarray, data))
            self.of_run: dict[str, Any] = {}
        else:
            self.coordinates = np.asarray
            self.of_kernel = {"potential_fn": potential(posterior, data)}
            self.args = ()
            self.of_run = {"init_params": starts(posterior, seed, CHAINS)}

    def run(self, kernel: Any, seed: int, draws: int) -> MCMC:
        """A finished run."""
        mcmc = MCMC(
            kernel,
            num_warmup=draws,
            num_samples=draws,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(random.key(seed), *self.args, **self.of_run, extra_fields=("num_steps",))
        return mcmc

    def inside(self, x: np.ndarray) -> np.ndarray:
        """Whether draws are in each mode, (chains, draws, modes)."""
        return (self.posterior.mode(x)[..., None] == np.arange(self.posterior.modes)).astype(float)

    def errors(self, x: np.ndarray) -> np.ndarray:
        """Standard errors of masses, by the effective sizes of NumPyro."""
        inside = self.inside(x)
        sizes = effective_sample_size(inside)
        # A chain that is in one mode throughout has no variance, and no effective size.
        return inside.std((0, 1)) / np.sqrt(sizes)

    def of_warmup(self, kernel: Any, seed: int, draws: int) -> tuple[float, MCMC]:
        """Leapfrog steps of the same warm-up, which is run again to count them."""
        mcmc = MCMC(
            kernel,
            num_warmup=draws,
            num_samples=1,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        more = {"collect_warmup": True, "extra_fields": ("num_steps",)}
        mcmc.warmup(random.key(seed), *self.args, **self.of_run, **more)
        return _steps(mcmc), mcmc


def _steps(mcmc: MCMC) -> float:
    return float(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum())


def _jumps(state: Any) -> float:
    counts = getattr(state, "counts", ())
    return float(np.asarray(counts.tried_by_move).sum()) if counts else 0.0


def nuts(posterior: Posterior, data: Data, seed: int, draws: int = DRAWS) -> Drawn:
    """NUTS alone."""
    problem = _Problem(posterior, data, seed)
    mcmc = problem.run(NUTS(**problem.of_kernel), seed, draws)
    x = problem.coordinates(mcmc.get_samples(group_by_chain=True))

    def after() -> After:
        of_warmup, _ = problem.of_warmup(NUTS(**problem.of_kernel), seed, draws)
        return After(of_warmup + _steps(mcmc), problem.errors(x))

    return Drawn(x, np.ones(x.shape[:2]), after)


def mode_jumping(posterior: Posterior, data: Data, seed: int, draws: int = DRAWS) -> Drawn:
    """NUTS with jumps between modes."""
    from numpyro_contour import ModeJumping
    from numpyro_contour.diagnostics import weighted_mcse

    problem = _Problem(posterior, data, seed)
    kernel = ModeJumping(NUTS(**problem.of_kernel))
    mcmc = problem.run(kernel, seed, draws)
    x = problem.coordinates(mcmc.get_samples(group_by_chain=True))
    weights = np.ones(x.shape[:2])

    def after() -> After:
        of_search = kernel.modes_of(*problem.args).gradients
        again = ModeJumping(NUTS(**problem.of_kernel))
        of_warmup, warm = problem.of_warmup(again, seed, draws)
        spent = of_search + of_warmup + _steps(mcmc)
        spent += _jumps(warm.last_state) + _jumps(mcmc.last_state)
        return After(spent, weighted_mcse(problem.inside(x), np.log(weights)))

    return Drawn(x, weights, after)


def contour(posterior: Posterior, data: Data, seed: int, draws: int = DRAWS) -> Drawn:
    """`ContourSGLD`."""
    from numpyro_contour import ContourSGLD, weighted_samples
    from numpyro_contour.diagnostics import weighted_mcse

    problem = _Problem(posterior, data, seed)
    mcmc = MCMC(
        ContourSGLD(**problem.of_kernel),
        num_warmup=draws,
        num_samples=draws,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(random.key(seed), *problem.args, **problem.of_run)
    samples, log_weights = weighted_samples(mcmc)
    x, log_weights = problem.coordinates(samples), np.asarray(log_weights, np.float64)

    def after() -> After:
        state = mcmc.last_state
        jumps = state.warmup.jumps
        spent = np.asarray(state.sampler.chain.steps).sum()
        spent += np.asarray(jumps.tried).sum() if jumps else 0
        return After(float(spent), weighted_mcse(problem.inside(x), log_weights))

    jax.block_until_ready(mcmc.last_state)
    return Drawn(x, np.exp(log_weights), after)
