"""Runs on meshes of virtual devices, in one process or in two, for tests in fresh interpreters."""

import jax
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from numpyro.infer import MCMC

from numpyro_contour import EnergyPartition, run_stored

ROWS, MINIBATCH, CHAINS = 80, 8, 4
#: what each kernel is given where nothing is to be found
GIVEN = {"step_size": 0.01, "num_steps": 2, "partition": EnergyPartition(200.0, 260.0, 12)}


def model(X, y):
    """Two modes, by the sign of the first coordinate."""
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", len(y)) as idx:
        numpyro.sample("y", dist.Normal(w[0] ** 2 + X[idx] @ w, 3.5), obs=y[idx])


def data():
    rng = np.random.default_rng(0)
    X = 0.1 * rng.normal(size=(ROWS, 2))
    y = 1 + X @ np.array([0.2, 0.5]) + 3.5 * rng.normal(size=ROWS)
    return X.astype(np.float32), y.astype(np.float32)


def mesh_of(chains, rows):
    """`(sharding of chains, sharding of rows)`."""
    devices = jax.devices()[: chains * rows]
    mesh = jax.make_mesh(
        (chains, rows), ("chains", "rows"), axis_types=(AxisType.Auto,) * 2, devices=devices
    )
    return [NamedSharding(mesh, PartitionSpec(axis)) for axis in ("chains", "rows")]


def start(kernel, chains, rows, warmup=5, samples=10, path=None, **arguments):
    """A finished run on a mesh of so many devices; with a path, in a store."""
    of_chains, of_rows = mesh_of(chains, rows)
    keys = jax.jit(random.split, static_argnums=1, out_shardings=of_chains)(random.key(0), CHAINS)
    arguments = {"chain_method": "vectorized", "jit_model_args": True} | arguments
    mcmc = MCMC(
        kernel,
        num_warmup=warmup,
        num_samples=samples,
        num_chains=CHAINS,
        progress_bar=False,
        **arguments,
    )
    rows = jax.device_put(data(), of_rows)
    if path is None:
        mcmc.run(keys, *rows)
    else:
        run_stored(mcmc, path, keys, *rows, segment_draws=4)
    return mcmc


def kernel_of(name, **arguments):
    return models.KERNELS[name](model, minibatch_size=MINIBATCH, **arguments)


def sent(compiled):
    """The shapes that collectives of a compiled program send, as XLA writes them."""
    names = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter")
    lines = compiled.as_text().splitlines()
    calls = [line.split(" = ", 1)[1] for line in lines if any(f" {n}(" in line for n in names)]
    return " ".join(call.split("(", 1)[0] if call[0] != "(" else call for call in calls)


def pooled(samples, log_weights):
    """Draws and weights in one array: all that a run says."""
    return np.concatenate(
        [np.ravel(np.asarray(x, np.float64)) for x in (*jax.tree.leaves(samples), log_weights)]
    )
