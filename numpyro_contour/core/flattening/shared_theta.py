r"""A theta that vectorised chains share: each step moves it by the mean of their random fields.

Chains are the axis of a `jax.vmap` that has a name.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.core.flattening.theta import MAXIMUM_GAIN, ThetaState, apply_decay


def of_first_chain(values: Any, chains: str) -> Any:
    """What the first chain has, for all of them.

    It has no axis of chains then: nothing that is computed from it can differ between chains, not
    by rounding either, and it is computed once for all.

    Args:
        values: a pytree of arrays.
        chains: the name of the axis of chains.
    """
    return jax.tree.map(lambda x: lax.all_gather(x, chains)[0], values)


def learn_together(
    theta: ThetaState,
    energy_bin: jax.Array,
    log_omega: jax.Array,
    log_shared: jax.Array,
    chains: str,
    rho: float | None = None,
) -> ThetaState:
    r"""Theta after a step of P chains that share it, each in a bin :math:`J_p`.

    .. math:: \theta(i) \leftarrow \theta(i) +
              \frac1P \sum_{p=1}^P a_i^{(p)} (1_{i=J_p} - \theta(i))

    The gains :math:`a_i^{(p)}` are those of one chain, `learn`, and are not multiplied by the
    number of chains. With one chain this is `learn`, up to rounding.

    Args:
        theta: the estimate so far, the same for all chains but for the visits, which each chain
            counts for itself.
        energy_bin: the chain's bin, from 0, ().
        log_omega: log of the scheduled gain, (); a chain with -inf adds nothing to the sum, and is
            counted in P.
        log_shared: `log_field` at the chain, ().
        chains: the name of the axis of chains.
        rho: the penalty of "penalized". None (default) for the other random fields.

    Returns:
        The estimate after the step, in which the chain's visit is counted.

    Source: Deng, Liang, Hao, Lin and Liang (2022), Algorithm 1.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np
        >>> from numpyro_contour.core.flattening.shared_theta import learn_together
        >>> from numpyro_contour.core.flattening.theta import initial_theta
        >>> def learn(energy_bin):  # with a gain of 0.2, once in bin 0 and once in bin 3
        ...     return learn_together(initial_theta(4), energy_bin, jnp.log(0.2), 0.0, "chains")
        >>> theta = jax.vmap(learn, axis_name="chains")(jnp.array([0, 3]))
        >>> print(np.exp(theta.log_theta - theta.decay[:, None]).round(3))
        [[0.3 0.2 0.2 0.3]
         [0.3 0.2 0.2 0.3]]
    """
    bins = jnp.arange(theta.log_theta.shape[-1])
    here = bins == energy_bin
    amount = jnp.minimum(jnp.exp(log_omega + log_shared), MAXIMUM_GAIN)
    counts = theta.bin_counts + here
    shared = lax.pmean(amount, chains)
    if rho is None:
        rise = lax.pmean(jnp.where(here, amount, 0.0), chains)[energy_bin]
        decay = theta.decay - jnp.log1p(-shared)
        # Chains in one bin raise it alike. Logarithms for all bins would take twice the step.
        raised = _raised(theta.log_theta[energy_bin], jnp.log(rise), decay)
        log_theta = lax.pmax(jnp.where(here, raised, theta.log_theta), chains)
        return apply_decay(log_theta, decay, counts)
    # As in `update_penalized`, everything is divided by (1 - shared).
    penalty = jnp.minimum(rho * jnp.exp(2 * log_omega), MAXIMUM_GAIN - amount)
    lost = lax.pmean(jnp.where(bins >= energy_bin, penalty, 0.0), chains)
    log_rise = jnp.log(lax.pmean(jnp.where(here, amount + penalty, 0.0), chains))
    shrunk = theta.log_theta + jnp.log1p(-lost / (1 - shared))
    log_theta = _raised(shrunk, log_rise - jnp.log1p(-shared), theta.decay)
    return apply_decay(log_theta, jax.nn.logsumexp(log_theta), counts)


def _raised(log_theta: jax.Array, log_rise: jax.Array, decay: jax.Array) -> jax.Array:
    """Log theta up to a decay, with what each bin gains: nothing where `log_rise` is -inf."""
    return log_theta + jax.nn.softplus(log_rise - (log_theta - decay))
