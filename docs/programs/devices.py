import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from numpyro.infer import MCMC

import numpyro_contour as nc

# Four virtual devices of a CPU stand for four GPUs. Leave this line out on real ones.
jax.config.update("jax_num_cpu_devices", 4)
# On several hosts: jax.distributed.initialize()


def model(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", len(y)) as idx:
        mean = w[0] ** 2 + x[idx] @ w
        numpyro.sample("y", dist.Normal(mean, 3.5), obs=y[idx])


rng = np.random.default_rng(0)
x = 0.1 * rng.normal(size=(400, 2))
y = 1 + x @ [0.2, 0.5] + 3.5 * rng.normal(size=400)

# Two devices for chains, and for each of them two for rows.
mesh = jax.make_mesh((2, 2), ("chains", "rows"), axis_types=(AxisType.Auto,) * 2)
chains = NamedSharding(mesh, PartitionSpec("chains"))
rows = NamedSharding(mesh, PartitionSpec("rows"))

x, y = jax.device_put((x, y), rows)
keys_of = jax.jit(jax.random.split, static_argnums=1, out_shardings=chains)
mcmc = MCMC(
    nc.ContourSGLD(model, num_steps=100),
    num_warmup=100,
    num_samples=200,
    num_chains=4,
    chain_method="vectorized",
    jit_model_args=True,
    progress_bar=False,
)
mcmc.run(keys_of(jax.random.key(0), 4), x, y)
nc.print_summary(mcmc)
