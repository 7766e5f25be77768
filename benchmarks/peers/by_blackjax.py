"""The stochastic-gradient samplers of blackjax, and its tempered SMC."""

from __future__ import annotations

import math
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

from benchmarks.peers.methods import CHAINS, RUNS, Drawn, Method, chains_first, without_compiling
from benchmarks.peers.ours import NUM_STEPS, WARMUP, tuned
from benchmarks.peers.target import Target
from numpyro_contour import robbins_monro

#: settings of the examples in blackjax's documentation of sgld and sghmc
STEP_SIZE = 1e-3
LEAPFROGS = 10
#: settings of "Contour stochastic gradient Langevin dynamics" in its Sampling Book, except for the
#: temperature and with a tenth of its bins: each step updates all bins, and the others would never
#: be visited
DOCUMENTED = {"zeta": 2.0, "num_partitions": 10_000, "energy_gap": 0.25, "min_energy": 0.0}


def documented_gain(k: jax.Array) -> jax.Array:
    """The step size of the stochastic approximation in the Sampling Book."""
    return 10.0 * jnp.minimum(1e-2, (k + 100.0) ** -0.8)


def run_chains(
    target: Target, draws: int, start: Callable, step: Callable, record: Callable
) -> tuple[Any, Any]:
    """Run all chains: records of every `NUM_STEPS`th state after warm-up, and the last states.

    Args:
        target: the target.
        draws: number of draws, including warm-up.
        start: a function from a position to the state.
        step: `(key, state, number) -> state`.
        record: what is kept of a state.
    """
    number = CHAINS * RUNS

    def chain(key: jax.Array, position: jax.Array) -> tuple:
        def body(state: Any, inputs: tuple) -> tuple:
            key, block = inputs

            def inner(state: Any, inputs: tuple) -> tuple:
                return step(inputs[0], state, block * NUM_STEPS + inputs[1] + 1), None

            keys = random.split(key, NUM_STEPS)
            state, _ = jax.lax.scan(inner, state, (keys, jnp.arange(NUM_STEPS)))
            return state, record(state)

        blocks = (random.split(key, draws), jnp.arange(draws))
        state, kept = jax.lax.scan(body, start(position), blocks)
        return jax.tree.map(lambda a: a[round(WARMUP * draws) :], kept), state

    starts = target.starts(random.key(1), number)
    return jax.jit(jax.vmap(chain))(random.split(random.key(0), number), starts)


def draw_csgld(ours: bool, target: Target, gradients: int) -> Drawn:
    """`blackjax.csgld` as documented, or with the partition, step size and scale of our warm-up."""
    if ours:
        found = tuned("ContourSGLD", target)
        settings = {
            "zeta": 0.75,
            "num_partitions": found.num_bins,
            "energy_gap": found.width,
            "min_energy": found.lower,
        }
        log_density, scale, step_size = found.density(target), found.scale, found.step_size
        gain = robbins_monro()
    else:
        settings, gain = DOCUMENTED, documented_gain
        log_density, scale, step_size = target.log_density, jnp.ones(target.size), STEP_SIZE
    estimate = lambda position, minibatch: log_density(position)
    sampler = blackjax.csgld(estimate, jax.grad(estimate), **settings)

    def step(key: jax.Array, state: Any, k: jax.Array) -> Any:
        return sampler.step(key, state, (), step_size, gain(k), 1.0)

    (x, bins), last = run_chains(
        target,
        gradients // NUM_STEPS,
        lambda position: sampler.init(position / scale),
        step,
        lambda state: (scale * state.position, state.energy_idx),
    )
    theta = np.maximum(np.asarray(last.energy_pdf, np.float64), 1e-300)
    log_weights = settings["zeta"] * np.log(np.take_along_axis(theta, np.asarray(bins), 1))
    weights = np.exp(log_weights - log_weights.max(1, keepdims=True))
    return Drawn(chains_first(x), weights, gradients * CHAINS * RUNS)


def draw_diffusion(kind: str, ours: bool, target: Target, gradients: int) -> Drawn:
    """`blackjax.sgld` or `blackjax.sghmc` as documented, or with our step size and scale."""
    if ours:
        found = tuned("SGLD", target)
        log_density, scale, step_size = found.density(target), found.scale, found.step_size
    else:
        log_density, scale, step_size = target.log_density, jnp.ones(target.size), STEP_SIZE
    gradient = jax.grad(lambda position, minibatch: log_density(position))
    if kind == "sgld":
        sampler, cost = blackjax.sgld(gradient), 1
    else:
        sampler, cost = blackjax.sghmc(gradient, num_integration_steps=LEAPFROGS), LEAPFROGS
        # A leapfrog step h moves as far along a gradient as a Langevin step of h^2 / 2. Its ten
        # leapfrog steps together should equal one of our steps.
        step_size = math.sqrt(2 * step_size) / LEAPFROGS if ours else step_size

    x, _ = run_chains(
        target,
        gradients // (NUM_STEPS * cost),
        lambda position: position / scale,
        lambda key, position, k: sampler.step(key, position, (), step_size),
        lambda position: scale * position,
    )
    return Drawn(chains_first(x), np.ones(x.shape[:2]), gradients * CHAINS * RUNS)


def draw_smc(target: Target, gradients: int) -> Drawn:
    """Adaptive tempered SMC, with HMC scaled by the spread of the particles at each temperature."""
    budget = gradients * CHAINS
    step_size = 0.5 * target.size**-0.25
    moves = 5

    def parameters(key: jax.Array, state: Any, info: Any) -> dict:
        scales = jnp.maximum(particles_stds(state.particles), 1e-6)
        return {"inverse_mass_matrix": jnp.diag(scales**2)[None]}

    def run(key: jax.Array, particles: int) -> tuple[jax.Array, jax.Array, int]:
        algorithm = blackjax.inner_kernel_tuning(
            smc_algorithm=blackjax.adaptive_tempered_smc,
            logprior_fn=target.log_prior,
            loglikelihood_fn=target.log_likelihood,
            mcmc_step_fn=partial(
                blackjax.hmc.build_kernel(), step_size=step_size, num_integration_steps=LEAPFROGS
            ),
            mcmc_init_fn=blackjax.hmc.init,
            resampling_fn=resampling.systematic,
            mcmc_parameter_update_fn=parameters,
            initial_parameter_value={
                "inverse_mass_matrix": jnp.eye(target.size)[None] * target.scale**2
            },
            num_mcmc_steps=moves,
            target_ess=0.5,
        )
        key_start, key = random.split(key)
        state = algorithm.init(target.scale * random.normal(key_start, (particles, target.size)))
        step = jax.jit(algorithm.step)
        temperatures = 0
        while float(state.sampler_state.tempering_param) < 1:
            key, key_step = random.split(key)
            state, _ = step(key_step, state)
            temperatures += 1
        return state.sampler_state.particles, state.sampler_state.weights, temperatures

    (_, _, temperatures), seconds = without_compiling(lambda: run(random.key(7), 500))
    particles = max(budget // (temperatures * moves * LEAPFROGS), 50)
    found = [run(key, particles) for key in random.split(random.key(0), RUNS)]
    x = np.stack([np.asarray(a) for a, _, _ in found])
    weights = np.stack([np.asarray(w) for _, w, _ in found])
    spent = sum(moves * LEAPFROGS * particles * number for _, _, number in found)
    return Drawn(chains_first(x), weights * x.shape[1], spent, pilot=seconds)


def draw_nested(target: Target, gradients: int) -> Drawn:
    """Nested slice sampling until the live points hold less than a twentieth of the evidence."""
    inner = max(5, 2 * target.size)

    def run(key: jax.Array, live: int) -> tuple[np.ndarray, np.ndarray, float]:
        algorithm = blackjax.nss(
            target.log_prior,
            target.log_likelihood,
            num_inner_steps=inner,
            num_delete=max(live // 20, 1),
        )
        key_start, key = random.split(key)
        state = algorithm.init(target.scale * random.normal(key_start, (live, target.size)))
        step = jax.jit(algorithm.step)
        dead = []
        while float(state.integrator.logZ_live - state.integrator.logZ) > -3.0:
            key, key_step = random.split(key)
            state, info = step(key_step, state)
            dead.append(info)
        moves = [info.update_info for info in dead]
        spent = sum(float(np.sum(m.num_expansions) + np.sum(m.num_shrink)) for m in moves)
        points = nested.finalise(state, dead, update_info=False)
        log_weights = np.asarray(nested.log_weights(key, points)).mean(-1)
        weights = np.exp(log_weights - np.nanmax(log_weights))
        return np.asarray(points.particles.position), np.nan_to_num(weights), live + spent

    (_, _, spent), seconds = without_compiling(lambda: run(random.key(7), 100))
    live = max(int(100 * gradients * CHAINS / spent), 50)
    found = [run(key, live) for key in random.split(random.key(0), RUNS)]
    rows = min(len(weights) for _, weights, _ in found)
    # Runs differ in length, so the same number of draws with equal weight is taken from each.
    rng = np.random.default_rng(0)
    x = np.stack([x[rng.choice(len(w), size=rows, p=w / w.sum())] for x, w, _ in found])
    spent = sum(number for *_, number in found)
    return Drawn(chains_first(x), np.ones(x.shape[:2]), spent, pilot=seconds)


METHODS = (
    Method("csgld, documented", partial(draw_csgld, False), "blackjax"),
    Method(
        "csgld, our partition and step",
        partial(draw_csgld, True),
        "blackjax",
        tuned_by="ContourSGLD",
    ),
    Method("sgld, documented", partial(draw_diffusion, "sgld", False), "blackjax"),
    Method("sgld, our step", partial(draw_diffusion, "sgld", True), "blackjax", tuned_by="SGLD"),
    Method("sghmc, documented", partial(draw_diffusion, "sghmc", False), "blackjax"),
    Method("sghmc, our step", partial(draw_diffusion, "sghmc", True), "blackjax", tuned_by="SGLD"),
    Method("tempered SMC", draw_smc, "blackjax", stochastic_gradient=False),
    Method("nested slice sampling", draw_nested, "blackjax", stochastic_gradient=False),
)
