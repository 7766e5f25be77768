r"""Random fields: the updates of theta in the papers, by name.

All move theta towards the visited bin J, :math:`\theta(i) \leftarrow \theta(i) + a_i (1_{i=J} -
\theta(i))`, and differ in the gains :math:`a_i`. They do not change the importance weights.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numpyro_contour.core.flattening.psi import Flattening, LogPsi, log_flattening
from numpyro_contour.core.flattening.shared_theta import learn_together
from numpyro_contour.core.flattening.theta import (
    MAXIMUM_GAIN,
    ThetaState,
    apply_decay,
    update_theta,
)

RANDOM_FIELDS = ("consistent", "csgld", "scalable", "penalized")


def log_field(
    random_field: str,
    theta: ThetaState,
    psi: LogPsi,
    energy_bin: jax.Array,
    flattening: Flattening,
) -> jax.Array:
    r"""The logarithm of the factor of :math:`\omega` in the gain that all bins share.

    .. math:: \Psi(U)^\zeta \text{ (consistent)}, \qquad \theta(J)^\zeta \text{ (csgld, penalized)},
              \qquad \theta(J) \text{ (scalable)}

    With x from the flattened density, theta tends to the mass of each bin, but with "scalable" to
    :math:`\text{mass}^{1/\zeta}`, normalised. Combined with a continuous Psi, the fields of
    :math:`\theta(J)` have a bias from the bin width.

    Args:
        random_field: "consistent", "csgld", "scalable" or "penalized".
        theta: theta before the update.
        psi: `log_psi` of the same theta at the energy.
        energy_bin: J, from 0, ().
        flattening: zeta and the shape of Psi.

    Returns:
        The log field, ().

    Source: Deng, Lin and Liang (2020), equations (10), (15) and (57).

    Example:
        >>> import math
        >>> from numpyro_contour import EnergyPartition
        >>> from numpyro_contour.core.flattening.psi import Flattening, log_psi
        >>> from numpyro_contour.core.flattening.theta import initial_theta
        >>> from numpyro_contour.core.flattening.theta_updates import log_field
        >>> theta, shape = initial_theta(4), Flattening(zeta=0.75)
        >>> psi = log_psi(theta.log_theta, 0.5, EnergyPartition(0.0, 4.0, 4), 1.0, shape)
        >>> round(math.exp(log_field("scalable", theta, psi, 0, shape)), 4)
        0.25
    """
    if random_field == "scalable":
        return theta.log_theta[energy_bin] - theta.decay
    weight = "consistent" if random_field == "consistent" else "piecewise"
    return log_flattening(theta, psi, energy_bin, flattening, weight)


def update_penalized(
    theta: ThetaState,
    energy_bin: jax.Array,
    log_omega: jax.Array,
    log_shared: jax.Array,
    rho: float,
) -> ThetaState:
    r"""An update that takes more from the bins from the visited one, J, upwards, normalised.

    .. math:: a_i = \omega\, (f + \omega \rho\, 1_{i \ge J}) < 1

    If zeta is so large that :math:`f = \theta(J)^\zeta` underflows, theta learns from the penalty
    alone.

    Args:
        theta: the estimate so far.
        energy_bin: J, from 0, ().
        log_omega: log omega, (); with -inf theta does not change.
        log_shared: log f, ().
        rho: the penalty, at least 0.

    Returns:
        The estimate after the visit, which is counted.

    Source: Deng, Lin and Liang (2020), equation (57), which leaves theta unnormalised.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> from numpyro_contour.core.flattening.theta import initial_theta
        >>> from numpyro_contour.core.flattening.theta_updates import update_penalized
        >>> theta = update_penalized(initial_theta(4), 2, jnp.log(0.2), jnp.log(0.35), rho=1.0)
        >>> print(np.exp(theta.log_theta - theta.decay).round(3))
        [0.228 0.228 0.326 0.218]
    """
    shared = jnp.minimum(jnp.exp(log_omega + log_shared), MAXIMUM_GAIN)
    penalty = jnp.minimum(rho * jnp.exp(2 * log_omega), MAXIMUM_GAIN - shared)
    # Everything is divided by (1 - shared), which normalisation cancels: a small shared decay of
    # every bin would be lost in the rounding error of log theta.
    shrinking = jnp.log1p(-penalty / (1 - shared))
    bins = jnp.arange(theta.log_theta.shape[-1])
    log_theta = theta.log_theta + jnp.where(bins >= energy_bin, shrinking, 0.0)
    log_rise = jnp.log(shared + penalty) - jnp.log1p(-shared)
    visited = log_theta[energy_bin]
    raised = visited + jax.nn.softplus(log_rise - (visited - theta.decay))
    here = bins == energy_bin
    log_theta = jnp.where(here, raised, log_theta)
    return apply_decay(log_theta, jax.nn.logsumexp(log_theta), theta.bin_counts + here)


def learn(
    random_field: str,
    theta: ThetaState,
    energy_bin: jax.Array,
    log_omega: jax.Array,
    log_shared: jax.Array,
    rho: float = 1.0,
    chains: str | None = None,
) -> ThetaState:
    r"""Theta after a visit to a bin J.

    .. math:: \theta(i) \leftarrow \theta(i) + a_i (1_{i=J} - \theta(i))

    with :math:`a_i = \omega f`, the gain times the field, for all bins, and with the :math:`a_i` of
    `update_penalized` if `random_field` is "penalized".

    Args:
        random_field: "consistent", "csgld", "scalable" or "penalized".
        theta: the estimate so far.
        energy_bin: the visited bin, from 0, ().
        log_omega: log of the scheduled gain, (); with -inf theta does not change.
        log_shared: `log_field` at the visit, ().
        rho: the penalty of "penalized". Defaults to 1.
        chains: the name of the axis of chains that share theta, which then moves by the mean of
            what each adds, as `learn_together` says. None (default) for a theta of one chain.

    Returns:
        The estimate after the visit, which is counted.

    Source: Deng, Lin and Liang (2020), equations (10), (15) and (57).

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> from numpyro_contour.core.flattening.theta import initial_theta
        >>> from numpyro_contour.core.flattening.theta_updates import learn
        >>> theta = initial_theta(4)
        >>> learnt = learn("scalable", theta, 0, jnp.log(0.4), theta.log_theta[0])
        >>> print(np.exp(learnt.log_theta - learnt.decay).round(3))  # first 0.25 + 0.1 (1 - 0.25)
        [0.325 0.225 0.225 0.225]
    """
    if chains is not None:
        penalty = rho if random_field == "penalized" else None
        return learn_together(theta, energy_bin, log_omega, log_shared, chains, penalty)
    if random_field == "penalized":
        return update_penalized(theta, energy_bin, log_omega, log_shared, rho)
    return update_theta(theta, energy_bin, log_omega + log_shared)
