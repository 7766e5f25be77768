import jax
import jax.numpy as jnp
from numpyro.infer import MCMC
from numpyro_contour import ContourSGLD, expectation, to_inference_data


def potential(x):
    left = jnp.log(0.4) - 0.5 * (x + 6) ** 2
    right = jnp.log(0.6) - 0.5 * (x - 4) ** 2
    return -jnp.logaddexp(left, right)


mcmc = MCMC(
    ContourSGLD(potential_fn=potential, num_steps=100),
    num_warmup=100,
    num_samples=900,
    num_chains=8,
    chain_method="vectorized",
    progress_bar=False,
)
mcmc.run(jax.random.key(0), init_params=jnp.full(8, 4.0))
idata = to_inference_data(mcmc)
right = expectation(idata, lambda posterior: posterior["z"] > -1)
print(f"P(x > -1) = {right.mean:.3f} ± {right.mcse:.3f}")
