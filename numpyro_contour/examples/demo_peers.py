"""The demo's peers on phase retrieval: csgld of blackjax on minibatches, and NUTS on all rows."""

from __future__ import annotations

import time
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.distributions import Normal
from numpyro.infer import MCMC, NUTS

from numpyro_contour.examples import phase_retrieval
from numpyro_contour.examples.demo_runs import Job

# The gradient of a minibatch has so much noise that larger steps would widen the modes: with this
# one by a sixth of the variance.
STEP_SIZE = 2e-7
# The defaults of blackjax; its documentation asks that all bins together span the energies, and
# those of minibatches of 200 rows scatter by 5,000 nats.
ZETA, BINS, BIN_WIDTH = 1.0, 512, 100.0


class Drawn(NamedTuple):
    """What a peer drew."""

    #: positions, (chains, draws, 3)
    w: np.ndarray
    #: importance weights of mean 1 in each chain, (chains, draws)
    weights: np.ndarray
    #: rows looked at
    rows: int
    #: seconds, including compilation
    seconds: float


def has_blackjax() -> bool:
    """Whether blackjax is installed, which this package does not need otherwise."""
    try:
        import blackjax  # noqa: F401
    except ImportError:
        return False
    return True


def draw_csgld(job: Job, key: jax.Array, x: jax.Array, y: jax.Array) -> Drawn:
    """`blackjax.csgld` with as many steps on minibatches of as many rows."""
    import blackjax
    from blackjax.sgmcmc import gradients

    began = time.perf_counter()
    prior = Normal(jnp.array(phase_retrieval.PRIOR_MEAN), phase_retrieval.PRIOR_SD)
    log_prior = lambda w: prior.log_prob(w).sum()
    log_likelihood = lambda w, row: Normal((row[0] @ w) ** 2, phase_retrieval.NOISE_SD).log_prob(
        row[1]
    )
    log_density = gradients.logdensity_estimator(log_prior, log_likelihood, len(y))
    gradient = gradients.grad_estimator(log_prior, log_likelihood, len(y))
    # At the origin, between the modes, the energy is that of the modes but for a few nats.
    middle = -float(log_density(jnp.zeros(3), (x, y)))
    sampler = blackjax.csgld(
        log_density,
        gradient,
        zeta=ZETA,
        num_partitions=BINS,
        energy_gap=BIN_WIDTH,
        min_energy=middle - 0.5 * BINS * BIN_WIDTH,
    )

    def chain(key: jax.Array, start: jax.Array) -> tuple:
        def step(state, inputs):  # type: ignore[no-untyped-def]
            key, k = inputs
            key_rows, key_step = random.split(key)
            idx = random.randint(key_rows, (phase_retrieval.MINIBATCH,), 0, len(y))
            gain = 10.0 * jnp.minimum(1e-2, (k + 100.0) ** -0.8)
            return sampler.step(key_step, state, (x[idx], y[idx]), STEP_SIZE, gain), None

        def draw(state, inputs):  # type: ignore[no-untyped-def]
            key, k = inputs
            steps = k * job.num_steps + jnp.arange(job.num_steps)
            state, _ = jax.lax.scan(step, state, (random.split(key, job.num_steps), steps))
            return state, (state.position, state.energy_idx)

        draws = job.warmup + job.draws
        inputs = random.split(key, draws), jnp.arange(draws)
        last, (w, bins) = jax.lax.scan(draw, sampler.init(start), inputs)
        return w[job.warmup :], last.energy_pdf[bins[job.warmup :]] ** ZETA

    key_start, key_chains = random.split(key)
    starts = random.uniform(key_start, (job.chains, 3), minval=-2.0, maxval=2.0)
    w, weights = jax.jit(jax.vmap(chain))(random.split(key_chains, job.chains), starts)
    weights = np.asarray(weights, np.float64)
    weights /= weights.mean(1, keepdims=True)
    rows = job.chains * job.gradients * phase_retrieval.MINIBATCH
    return Drawn(np.asarray(w), weights, rows, time.perf_counter() - began)


def draw_nuts(draws: int, chains: int, key: jax.Array, x: jax.Array, y: jax.Array) -> Drawn:
    """NUTS on all rows, with as many draws in the warm-up as after it."""
    began = time.perf_counter()
    mcmc = MCMC(
        NUTS(partial(phase_retrieval.model, minibatch=None)),
        num_warmup=draws,
        num_samples=draws,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.warmup(key, x, y, extra_fields=("num_steps",), collect_warmup=True)
    gradients = int(mcmc.get_extra_fields()["num_steps"].sum())
    mcmc.run(mcmc.post_warmup_state.rng_key, x, y, extra_fields=("num_steps",))
    gradients += int(mcmc.get_extra_fields()["num_steps"].sum())
    w = np.asarray(mcmc.get_samples(group_by_chain=True)["w"])
    return Drawn(w, np.ones(w.shape[:2]), gradients * len(y), time.perf_counter() - began)
