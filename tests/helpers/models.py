"""Models, data and the table of kernels that the tests of the NumPyro boundary share."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC
from tiers import in_second_tier, in_third_tier

import numpyro_contour
from numpyro_contour import EnergyPartition

#: What each kernel is given beside the model: a later kernel is one row.
ROWS = {
    "SGLD": {},
    "SGHMC": {},
    "SGNHT": {},
    "CyclicalSGLD": {"cycle_length": 20, "exploration": 0.3},
    "CyclicalSGHMC": {"cycle_length": 20, "exploration": 0.3},
    "ContourSGLD": {},
    "ContourSGHMC": {},
    "ContourSGNHT": {},
    "InteractingContourSGLD": {},
    "ReplicaExchangeSGLD": {"temperatures": (1.0, 2.0)},
    "ReplicaExchangeSGHMC": {"temperatures": (1.0, 2.0)},
}


def kernel_of(name):
    """`(model, potential_fn, step_size, partition, **arguments) -> kernel`."""

    def make(model=None, partition=None, **arguments):
        if "Contour" in name:
            arguments["partition"] = partition
        return getattr(numpyro_contour, name)(model, **ROWS[name], **arguments)

    return make


KERNELS = {name: kernel_of(name) for name in ROWS}

#: One kernel of each kind of state, for what the kernels share.
KINDS = ("SGLD", "ContourSGLD", "ReplicaExchangeSGHMC")

#: Kernels among which each kind of moves and each method is once: the others are made of the same.
PARTS = (*KINDS, "SGNHT", "CyclicalSGHMC", "InteractingContourSGLD")


def of_first_tier(*names, among=tuple(KERNELS)):
    """Kernels as parameters; `make test` runs those that are named, `make test-all` others."""
    return [name if name in names else in_second_tier(name) for name in among]


def of_second_tier(*names, among=tuple(KERNELS)):
    """Kernels as parameters; `make test-all` runs those that are named, `make test-long` others."""
    return [name if name in names else in_third_tier(name) for name in among]


def run(kernel, seed, *args, samples=60, warmup=30, chains=1, init_params=None, **arguments):
    """A finished `MCMC` without a progress bar; `seed` is an int or a key."""
    extra_fields = arguments.pop("extra_fields", ())
    model_kwargs = arguments.pop("model_kwargs", {})
    arguments = {"chain_method": "sequential", "progress_bar": False} | arguments
    mcmc = MCMC(kernel, num_warmup=warmup, num_samples=samples, num_chains=chains, **arguments)
    key = jax.random.key(seed) if isinstance(seed, int) else seed
    mcmc.run(key, *args, extra_fields=extra_fields, init_params=init_params, **model_kwargs)
    return mcmc


# --------------------------------------------------------------------------- constrained sites

CONSTRAINED_PARTITION = EnergyPartition(130.0, 200.0, 20)
CONSTRAINED_STEP = 1e-3


def constrained(X, y=None, minibatch=20):
    """Sites on the half line, a simplex, and an interval that another latent variable bounds."""
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(3)))
    upper = numpyro.sample("upper", dist.LogNormal(0.0, 0.5))
    inside = numpyro.sample("inside", dist.Uniform(0.0, upper))
    numpyro.deterministic("twice", 2 * inside)
    with numpyro.plate("rows", len(X), subsample_size=minibatch) as idx:
        mean = numpyro.deterministic("fitted", X[idx] @ shares + inside)
        numpyro.sample("y", dist.Normal(mean, scale), obs=None if y is None else y[idx])


def constrained_data(rows=200):
    key_x, key_y = jax.random.split(jax.random.key(1))
    X = jax.random.normal(key_x, (rows, 3))
    noise = 0.5 * jax.random.normal(key_y, (rows,))
    return X, X @ jnp.array([0.5, 0.3, 0.2]) + 0.7 + noise


def constrained_kernel(name, **arguments):
    arguments = {"step_size": CONSTRAINED_STEP, "num_steps": 2} | arguments
    return KERNELS[name](constrained, partition=CONSTRAINED_PARTITION, **arguments)


# --------------------------------------------------------------------------- a normal mean

NORMAL_PARTITION = EnergyPartition(120.0, 200.0, 20)
#: a tenth of the posterior variance of the mean of 100 rows
NORMAL_STEP = 1e-3


def normal(y, minibatch=10):
    """The mean of normal data of variance 1."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 100.0))
    with numpyro.plate("rows", len(y), subsample_size=minibatch) as idx:
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y[idx])


def normal_data(mean=0.0, rows=100, seed=2):
    return mean + jax.random.normal(jax.random.key(seed), (rows,))


def normal_kernel(name, **arguments):
    arguments = {"step_size": NORMAL_STEP} | arguments
    return KERNELS[name](normal, partition=NORMAL_PARTITION, **arguments)


# --------------------------------------------------------------------------- potential functions


def nested_potential(z):
    """Independent standard normals on a nested pytree of positions."""
    return 0.5 * (jnp.sum(z["a"]["b"] ** 2) + jnp.sum(z["c"][0] ** 2) + z["c"][1] ** 2)


NESTED_START = {"a": {"b": jnp.array([1.0, -1.0])}, "c": (jnp.ones((2, 2)), jnp.array(0.5))}


def nested_kernel(name, **arguments):
    partition = EnergyPartition(0.0, 20.0, 20)
    arguments = {"potential_fn": nested_potential, "step_size": 0.05} | arguments
    return KERNELS[name](partition=partition, **arguments)


def equal(one, other):
    """Whether two pytrees are equal bit for bit, random keys included."""

    def same(a, b):
        if jnp.issubdtype(jnp.asarray(a).dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True)

    return jax.tree.all(jax.tree.map(same, one, other))
