"""Samplers of other packages, where these are installed and can be imported."""

from __future__ import annotations

import importlib
import logging
import sys
import types
from importlib.util import find_spec

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
from jax import random

from benchmarks.peers.methods import CHAINS, RUNS, Drawn, Method, chains_first
from benchmarks.peers.ours import NUM_STEPS, WARMUP, tuned
from benchmarks.peers.target import Target

#: as many local as global steps, as in flowMC's quickstart, with more training than there
LOCAL_STEPS, GLOBAL_STEPS, TRAINING_LOOPS, EPOCHS = 100, 100, 20, 5
#: share of the gradients that flowMC gets, since each of them takes far longer than elsewhere
FLOW_SHARE = 0.1


def sgmcmcjax_samplers() -> types.ModuleType:
    """Import SGMCMCJax, which needs a module that jax has removed only for its progress bar."""
    name = "jax.experimental.host_callback"
    if name not in sys.modules and find_spec(name) is None:
        sys.modules[name] = jax.experimental.host_callback = types.ModuleType(name)
    return importlib.import_module("sgmcmcjax.samplers")


def draw_sgmcmcjax(target: Target, gradients: int) -> Drawn:
    """SGLD of SGMCMCJax with the step size and scale of our SGLD, since it documents no choice."""
    found = tuned("SGLD", target)
    log_density = found.density(target)
    sample = sgmcmcjax_samplers().build_sgld_sampler(
        found.step_size,
        lambda theta, row: log_density(theta),
        lambda theta: 0.0 * theta[0],
        (jnp.zeros((1, 1)),),
        1,
        pbar=False,
    )
    number = CHAINS * RUNS
    starts = target.starts(random.key(1), number) / found.scale
    every = jax.jit(jax.vmap(lambda key, x: sample(key, gradients, x)[::NUM_STEPS]))
    x = every(random.split(random.key(0), number), starts) * found.scale
    x = chains_first(x)[:, round(WARMUP * x.shape[1]) :]
    return Drawn(x, np.ones(x.shape[:2]), gradients * number)


def draw_flowmc(target: Target, gradients: int) -> Drawn:
    """flowMC: MALA chains and independent proposals of a normalizing flow that learns from them."""
    from flowMC.resource_strategy_bundle.RQSpline_MALA import RQSpline_MALA_Bundle
    from flowMC.Sampler import Sampler

    logging.getLogger("flowMC").setLevel(logging.WARNING)
    loops = max(gradients // (LOCAL_STEPS + GLOBAL_STEPS), 2)
    training = min(TRAINING_LOOPS, loops // 2)
    runs = []
    for key in random.split(random.key(0), RUNS):
        key_bundle, key_start, key_run = random.split(key, 3)
        bundle = RQSpline_MALA_Bundle(
            key_bundle,
            CHAINS,
            target.size,
            lambda x, data: target.log_density(x),
            n_local_steps=LOCAL_STEPS,
            n_global_steps=GLOBAL_STEPS,
            n_training_loops=training,
            n_production_loops=loops - training,
            n_epochs=EPOCHS,
            local_thinning=NUM_STEPS,
            global_thinning=NUM_STEPS,
        )
        sampler = Sampler(
            n_dim=target.size,
            n_chains=CHAINS,
            rng_key=key_run,
            resource_strategy_bundles=bundle,
            checkpoint_interval=0,
        )
        sampler.sample(target.starts(key_start, CHAINS), {})
        runs.append(np.asarray(sampler.resources["positions_production"].data))
    x = np.concatenate(runs)
    spent = loops * (LOCAL_STEPS + GLOBAL_STEPS) * CHAINS * RUNS
    return Drawn(chains_first(x), np.ones(x.shape[:2]), spent)


def available() -> tuple[tuple[Method, ...], dict[str, str]]:
    """The methods that run here, and the reasons why others do not."""
    wanted = {
        "SGMCMCJax": (
            sgmcmcjax_samplers,
            Method("SGLD, our step", draw_sgmcmcjax, "SGMCMCJax", tuned_by="SGLD"),
        ),
        "flowMC": (
            lambda: importlib.import_module("flowMC.Sampler"),
            Method("MALA and flow", draw_flowmc, "flowMC", False, share=FLOW_SHARE),
        ),
        "numpyro.contrib.nested_sampling": (
            lambda: importlib.import_module("numpyro.contrib.nested_sampling"),
            None,
        ),
    }
    methods, missing = [], {}
    for package, (load, method) in wanted.items():
        try:
            load()
        except ImportError as error:
            missing[package] = str(error).strip().splitlines()[0]
        else:
            methods += [method] if method is not None else []
    return tuple(methods), missing
