"""Samplers that take NumPy functions: dynesty, nautilus, pocoMC and UltraNest, with their defaults.

Likelihoods are NumPy functions, for one point where the sampler asks for one at a time (dynesty),
for arrays of points elsewhere. On posteriors as small as these a compiled JAX function takes longer
for a single point, and saves less on arrays than the import of JAX takes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np
from scipy import special

from benchmarks.peers.clock.drawn import After, Drawn
from benchmarks.peers.clock.posteriors import Data, Posterior
from benchmarks.peers.clock.priors import from_cube

#: resampled runs of dynesty, from which its errors come
RESAMPLED = 25


def _functions(posterior: Posterior, data: Data) -> tuple[Callable, Callable]:
    """The log likelihood and the prior transform, of a point or of an array of points."""

    def log_likelihood(x: np.ndarray) -> np.ndarray:
        return posterior.log_likelihood(x, data, np)

    return log_likelihood, from_cube(posterior.priors, special, np.stack)


def _normalised(log_weights: np.ndarray) -> np.ndarray:
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def dynesty(posterior: Posterior, data: Data, seed: int) -> Drawn:
    """Static nested sampling."""
    import dynesty

    log_likelihood, transform = _functions(posterior, data)
    rng = np.random.default_rng(seed)
    sampler = dynesty.NestedSampler(log_likelihood, transform, posterior.size, rstate=rng)
    sampler.run_nested(print_progress=False)
    found = sampler.results

    def after() -> After:
        masses = []
        for _ in range(RESAMPLED):
            one = dynesty.utils.resample_run(found, rstate=rng)
            masses.append(posterior.masses(one.samples, _normalised(one.logwt)))
        return After(float(np.sum(found.ncall)), np.std(masses, axis=0, ddof=1))

    return Drawn(found.samples, _normalised(found.logwt), after)


def nautilus(posterior: Posterior, data: Data, seed: int) -> Drawn:
    """Importance nested sampling with networks."""
    from nautilus import Sampler

    log_likelihood, transform = _functions(posterior, data)
    sampler = Sampler(
        transform, log_likelihood, n_dim=posterior.size, vectorized=True, pass_dict=False, seed=seed
    )
    sampler.run()
    x, log_weights, _ = sampler.posterior()
    return Drawn(x, _normalised(log_weights), lambda: After(float(sampler.n_like)))


def pocomc(posterior: Posterior, data: Data, seed: int) -> Drawn:
    """Preconditioned Monte Carlo."""
    import pocomc
    from scipy import stats

    log_likelihood, _ = _functions(posterior, data)
    sampler = pocomc.Sampler(
        prior=pocomc.Prior([prior.of_scipy(stats) for prior in posterior.priors]),
        likelihood=log_likelihood,
        vectorize=True,
        random_state=seed,
    )
    sampler.run(progress=False)
    x, weights, _, _ = sampler.posterior()
    return Drawn(x, weights, lambda: After(float(sampler.calls)))


def ultranest(posterior: Posterior, data: Data, seed: int) -> Drawn:
    """Reactive nested sampling."""
    import ultranest

    logging.getLogger("ultranest").setLevel(logging.ERROR)
    np.random.seed(seed)  # noqa: NPY002 - it takes no other
    log_likelihood, transform = _functions(posterior, data)
    names = [f"x{i}" for i in range(posterior.size)]
    sampler = ultranest.ReactiveNestedSampler(names, log_likelihood, transform, vectorized=True)
    found = sampler.run(show_status=False, viz_callback=False)
    weighted = found["weighted_samples"]
    x = np.asarray(weighted["points"])

    def after() -> After:
        each = np.asarray(weighted["bootstrapped_weights"]).T
        masses = [posterior.masses(x, weights) for weights in each if weights.sum() > 0]
        return After(float(found["ncall"]), np.std(masses, axis=0, ddof=1))

    return Drawn(x, np.asarray(weighted["weights"]), after)
