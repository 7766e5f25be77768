"""One first run in a process of its own, which prints what it took as JSON.

`python -m benchmarks.mode_jumping.first_run KERNEL MODEL DRAWS`
"""

from __future__ import annotations

import json
import sys
import time

began = time.perf_counter()

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import numpyro  # noqa: E402
import numpyro.distributions as dist  # noqa: E402
from numpyro.infer import MCMC, NUTS  # noqa: E402


def eight_schools(y: jax.Array, sigma: jax.Array) -> None:
    """Centred, as in the book."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def logistic(x: jax.Array, y: jax.Array) -> None:
    """A logistic regression."""
    b = numpyro.sample("b", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Bernoulli(logits=x @ b), obs=y)


def mixture(y: jax.Array) -> None:
    """Two normals, of which nothing is known."""
    share = numpyro.sample("share", dist.Dirichlet(jnp.ones(2)))
    mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2]).to_event(1))
    sd = numpyro.sample("sd", dist.HalfNormal(2).expand([2]).to_event(1))
    with numpyro.plate("rows", len(y)):
        each = dist.MixtureSameFamily(dist.Categorical(share), dist.Normal(mean, sd))
        numpyro.sample("y", each, obs=y)


def case(name: str) -> tuple:
    """A model and its data."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 8)).astype(np.float32)
    chance = 1 / (1 + np.exp(-x @ np.linspace(-1, 1, 8)))
    halves = np.concatenate([rng.normal(-2, 1, 60), rng.normal(2, 1, 40)]).astype(np.float32)
    schools = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
    return {
        "eight schools": (eight_schools, schools),
        "logistic 1,000 x 8": (logistic, (x, (rng.random(1000) < chance).astype(np.int32))),
        "mixture of 100 rows": (mixture, (halves,)),
    }[name]


def main(kernel_name: str, name: str, draws: int) -> None:
    """Run, and print."""
    model, args = case(name)
    kernel = NUTS(model)
    if kernel_name != "NUTS":
        from numpyro_contour import ModeJumping

        kernel = ModeJumping(kernel)
    imported = time.perf_counter()
    mcmc = MCMC(
        kernel,
        num_warmup=draws,
        num_samples=draws,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), *args)
    jax.block_until_ready(mcmc.get_samples())
    ran = time.perf_counter()
    found = {"import": imported - began, "run": ran - imported, "modes": 1, "search": {}}
    if kernel_name != "NUTS":
        known = kernel.modes_of(*args)
        found |= {"modes": len(known), "search": known.seconds, "gradients": known.gradients}
    # Imported here: it is not part of what is measured.
    from benchmarks.shared.processes import peak_bytes

    print(json.dumps(found | {"peak": peak_bytes()}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
