import jax
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS


def model(y):
    a = numpyro.sample("a", dist.Normal(0.3, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(a**2, 3.5), obs=y)


y = 1.5**2 + 3.5 * jax.random.normal(jax.random.key(1), (40,))
mcmc = MCMC(
    NUTS(model),
    num_warmup=500,
    num_samples=1000,
    num_chains=8,
    chain_method="vectorized",
    progress_bar=False,
)
mcmc.run(jax.random.key(0), y)
mcmc.print_summary()
positive = mcmc.get_samples(True)["a"] > 0
print("share of a > 0:", positive.mean(1))
