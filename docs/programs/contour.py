import jax
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC
from numpyro_contour import ContourSGLD, expectation, print_summary, to_inference_data


def model(y):
    a = numpyro.sample("a", dist.Normal(0.3, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(a**2, 3.5), obs=y)


y = 1.5**2 + 3.5 * jax.random.normal(jax.random.key(1), (40,))
mcmc = MCMC(
    ContourSGLD(model, num_steps=500),
    num_warmup=250,
    num_samples=1000,
    num_chains=8,
    chain_method="vectorized",
    progress_bar=False,
)
mcmc.run(jax.random.key(0), y)
print_summary(mcmc)
positive = expectation(to_inference_data(mcmc), lambda posterior: posterior["a"] > 0)
print(f"P(a > 0) = {positive.mean:.3f} ± {positive.mcse:.3f}")
