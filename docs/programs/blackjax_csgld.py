import blackjax
import jax
import jax.numpy as jnp
import numpy as np


def log_density(x, minibatch):
    left = jnp.log(0.4) - 0.5 * (x + 6) ** 2
    right = jnp.log(0.6) - 0.5 * (x - 4) ** 2
    return jnp.logaddexp(left, right)


zeta = 0.75
csgld = blackjax.csgld(
    log_density,
    jax.grad(log_density),
    zeta=zeta,
    num_partitions=32,
    energy_gap=0.5,
    min_energy=0.0,
)


def chain(key, x):
    def step(state, inputs):
        key, k = inputs
        gain = jnp.minimum(0.1, 10 / (k + 100) ** 0.8)
        state = csgld.step(key, state, (), 0.05, gain)
        return state, (state.position, state.energy_idx)

    keys = jax.random.split(key, 100_000)
    inputs = (keys, jnp.arange(100_000))
    return jax.lax.scan(step, csgld.init(x), inputs)


keys = jax.random.split(jax.random.key(0), 8)
state, (x, index) = jax.jit(jax.vmap(chain))(keys, jnp.full(8, 4.0))
theta = np.maximum(np.asarray(state.energy_pdf), 1e-30)
weights = np.take_along_axis(theta, np.asarray(index), 1) ** zeta
by_chain = (weights * (x > -1)).sum(1) / weights.sum(1)
error = by_chain.std(ddof=1) / 8**0.5
print(f"P(x > -1) = {by_chain.mean():.3f} ± {error:.3f}")
