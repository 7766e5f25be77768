import tempfile
from pathlib import Path

import jax
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC

import numpyro_contour as nc


def model(y):
    a = numpyro.sample("a", dist.Normal(0.3, 1))
    with numpyro.plate("rows", len(y)):
        likelihood = dist.Normal(a**2, 3.5)
        numpyro.sample("y", likelihood, obs=y)


noise = jax.random.normal(jax.random.key(1), (40,))
y = 1.5**2 + 3.5 * noise
path = Path(tempfile.mkdtemp()) / "run.zarr"


def sample(num_samples):
    mcmc = MCMC(
        nc.ContourSGLD(model, num_steps=500),
        num_warmup=250,
        num_samples=num_samples,
        num_chains=8,
        chain_method="vectorized",
        progress_bar=False,
    )
    nc.run_stored(mcmc, path, jax.random.key(0), y)


sample(500)
sample(1000)  # goes on where the store ends

idata = nc.to_inference_data(path)
positive = nc.expectation(path, lambda p: p["a"] > 0)
print(f"P(a > 0) = {positive.mean:.3f} ± {positive.mcse:.3f}")
print(nc.summary(path))
