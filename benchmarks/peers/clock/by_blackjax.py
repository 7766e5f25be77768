"""Tempered SMC and nested slice sampling of blackjax.

The package has no defaults for the numbers of particles: tempered SMC has as many as our runs have
draws, nested slice sampling the settings that its reference recommends. Both sample standard normal
scores, from which each coordinate follows by its prior.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.ns import utils as nested
from blackjax.smc import resampling
from blackjax.smc.tuning.from_particles import particles_stds
from jax import random

from benchmarks.peers.clock.drawn import After, Drawn
from benchmarks.peers.clock.methods import LIVE, PARTICLES
from benchmarks.peers.clock.posteriors import Data, Posterior
from benchmarks.peers.clock.priors import from_scores

#: settings of SMC, those of `peers.posteriors`
MOVES, LEAPFROGS = 5, 10
#: live points that are replaced at a time
DELETED = 50
#: the log of the share of the evidence that live points hold when nested sampling ends
LEFT = -3.0


def _functions(posterior: Posterior, data: Data) -> tuple[Callable, Callable, Callable]:
    """The positions by scores, the log prior of scores, and their log likelihood."""
    place = from_scores(posterior.priors, jax.scipy.special, jnp.stack)
    arrays = tuple(map(jnp.asarray, data))

    def log_likelihood(z: jax.Array) -> jax.Array:
        return posterior.log_likelihood(place(z), arrays, jnp)

    return place, lambda z: -0.5 * jnp.sum(z**2), log_likelihood


def smc(posterior: Posterior, data: Data, seed: int) -> Drawn:
    """Adaptive tempered SMC, with HMC scaled by the spread of the particles."""
    place, log_prior, log_likelihood = _functions(posterior, data)

    def parameters(key: jax.Array, state: Any, info: Any) -> dict:
        scales = jnp.maximum(particles_stds(state.particles), 1e-6)
        return {"inverse_mass_matrix": jnp.diag(scales**2)[None]}

    algorithm = blackjax.inner_kernel_tuning(
        smc_algorithm=blackjax.adaptive_tempered_smc,
        logprior_fn=log_prior,
        loglikelihood_fn=log_likelihood,
        mcmc_step_fn=partial(
            blackjax.hmc.build_kernel(),
            step_size=0.5 * posterior.size**-0.25,
            num_integration_steps=LEAPFROGS,
        ),
        mcmc_init_fn=blackjax.hmc.init,
        resampling_fn=resampling.systematic,
        mcmc_parameter_update_fn=parameters,
        initial_parameter_value={"inverse_mass_matrix": jnp.eye(posterior.size)[None]},
        num_mcmc_steps=MOVES,
        target_ess=0.5,
    )
    key_start, key = random.split(random.key(seed))
    state = algorithm.init(random.normal(key_start, (PARTICLES, posterior.size)))
    step = jax.jit(algorithm.step)
    temperatures = 0
    while float(state.sampler_state.tempering_param) < 1:
        key, key_step = random.split(key)
        state, _ = step(key_step, state)
        temperatures += 1
    x = np.asarray(place(state.sampler_state.particles))
    weights = np.asarray(state.sampler_state.weights)
    spent = float(temperatures * MOVES * LEAPFROGS * PARTICLES)
    return Drawn(x, weights, lambda: After(spent))


def nss(posterior: Posterior, data: Data, seed: int) -> Drawn:
    """Nested slice sampling."""
    place, log_prior, log_likelihood = _functions(posterior, data)
    algorithm = blackjax.nss(
        log_prior,
        log_likelihood,
        num_inner_steps=max(5, 2 * posterior.size),
        num_delete=DELETED,
    )
    key_start, key = random.split(random.key(seed))
    state = algorithm.init(random.normal(key_start, (LIVE, posterior.size)))
    step = jax.jit(algorithm.step)
    dead = []
    while float(state.integrator.logZ_live - state.integrator.logZ) > LEFT:
        key, key_step = random.split(key)
        state, info = step(key_step, state)
        dead.append(info)
    moves = [info.update_info for info in dead]
    points = nested.finalise(state, dead, update_info=False)
    # A column for each simulation of the volumes.
    simulated = np.asarray(nested.log_weights(key, points), np.float64)
    simulated = np.nan_to_num(np.exp(simulated - np.nanmax(simulated, 0)))
    simulated /= simulated.sum(0)
    x = np.asarray(place(points.particles.position))

    def after() -> After:
        spent = sum(float(np.sum(m.num_expansions) + np.sum(m.num_shrink)) for m in moves)
        masses = [posterior.masses(x, weights) for weights in simulated.T]
        return After(LIVE + spent, np.std(masses, axis=0, ddof=1))

    return Drawn(x, simulated.mean(1), after)
