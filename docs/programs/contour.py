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
mcmc = MCMC(
    nc.ContourSGLD(model, num_steps=500),
    num_warmup=250,
    num_samples=1000,
    num_chains=8,
    chain_method="vectorized",
    progress_bar=False,
)
mcmc.run(jax.random.key(0), y)
nc.print_summary(mcmc)
idata = nc.to_inference_data(mcmc)
positive = nc.expectation(idata, lambda p: p["a"] > 0)
print(f"P(a > 0) = {positive.mean:.3f} ± {positive.mcse:.3f}")
