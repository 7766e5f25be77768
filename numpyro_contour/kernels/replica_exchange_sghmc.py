"""`ReplicaExchangeSGHMC`: SGHMC at several temperatures that swap places, as a NumPyro kernel."""

from __future__ import annotations

from numpyro_contour.kernels.replica_exchange import ReplicaExchange
from numpyro_contour.kernels.sghmc import SGHMC


class ReplicaExchangeSGHMC(ReplicaExchange, SGHMC):
    r"""Replica exchange SGHMC: `ReplicaExchangeSGLD` with momentum.

    A swap hands over positions; velocities stay with their temperatures.

    Args:
        temperatures, swap_every, swap, correction_factor: as for `ReplicaExchangeSGLD`.
        momentum, friction: as for `SGHMC`.
        model, potential_fn, step_size, preconditioner, num_steps, draw: as for `SGLD`.
        curvature_correction, minibatch_size, energy, noise, init_strategy, chunk_bytes: as there.

    Raises:
        ValueError: an argument is missing, unknown or out of its range; the message names it.

    Source: Deng, Feng, Gao, Liang and Lin (2020), "Non-convex learning via replica exchange
    stochastic gradient MCMC".

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro.infer import MCMC
        >>> from numpyro_contour import ReplicaExchangeSGHMC
        >>> kernel = ReplicaExchangeSGHMC(potential_fn=lambda x: x**2 / 2, step_size=0.05,
        ...                               num_steps=10)
        >>> mcmc = MCMC(kernel, num_warmup=100, num_samples=2000, progress_bar=False)
        >>> mcmc.run(jax.random.key(0), init_params=jnp.array(3.0))
        >>> bool(abs(mcmc.get_samples().std() - 1) < 0.1)
        True
    """
