import tempfile
from pathlib import Path

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC

from numpyro_contour import SGLD, on_disk, print_summary

N = 1_000_000
path = Path(tempfile.mkdtemp()) / "rows.npy"
rows = np.lib.format.open_memmap(path, "w+", np.float32, (N, 4))
rng = np.random.default_rng(0)
for begin in range(0, N, 100_000):  # as a file that does not fit into memory is made
    part = rng.standard_normal((100_000, 4), np.float32)
    part[:, 3] += part[:, :3] @ np.array([0.5, -1.0, 2.0], np.float32)
    rows[begin : begin + 100_000] = part
rows.flush()


def model(rows):
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("rows", len(rows), subsample_size=500) as idx:
        row = rows[idx]
        numpyro.sample("y", dist.Normal(row[:, :3] @ slopes, 1), obs=row[:, 3])


mcmc = MCMC(
    SGLD(model),
    num_warmup=100,
    num_samples=200,
    num_chains=2,
    chain_method="vectorized",
    progress_bar=False,
)
mcmc.run(jax.random.key(0), on_disk(path))
print_summary(mcmc)
