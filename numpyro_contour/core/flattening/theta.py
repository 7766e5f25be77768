r"""Theta, the probabilities of the energy bins, and one step of stochastic approximation.

Theta is kept in log space with a floor. In float32, the theta of a trapped chain would underflow
within a million steps, and its logarithm would then not be finite.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour import checks

#: The lowest log theta: assumption A1 of the paper keeps theta in a compact set.
LOG_THETA_FLOOR = -40.0

#: The highest gain of one visit: a gain of 1 would leave the other bins without probability.
MAXIMUM_GAIN = 0.999

# A decay of all bins below this size is collected in `ThetaState.decay` before it is applied, since
# the decay of one step is below the rounding error of log theta in float32.
_DECAY_APPLIED_FROM = 2.0**-10


class ThetaState(NamedTuple):
    """The estimate of theta."""

    #: log theta, (num_bins,), up to the common `decay`
    log_theta: jax.Array
    #: a small number that is still to be subtracted from every log theta
    decay: jax.Array
    #: visits of each bin, (num_bins,)
    bin_counts: jax.Array


def known_theta(theta: Any, num_bins: int) -> np.ndarray:
    """The argument `theta`, (num_bins,), normalised to sum to 1.

    Raises:
        ValueError: it is not one finite number above 0 for each bin.
    """
    takes = f"None or {num_bins} finite numbers above 0, one for each bin of `partition`"
    try:
        values = np.asarray(theta, np.float64)
    except (TypeError, ValueError):
        raise checks.fail("theta", theta, takes) from None
    if values.shape != (num_bins,):
        raise ValueError(f"`theta` takes {takes}, but got the shape {values.shape}.")
    unusable = ~(np.isfinite(values) & (values > 0))
    if unusable.any():
        first = int(unusable.argmax())
        raise ValueError(f"`theta` takes {takes}, but got {values[first]} in bin {first}.")
    return values / values.sum()


def initial_theta(num_bins: int, theta: Any = None) -> ThetaState:
    r"""Theta before any visit: uniform, or the given one.

    .. math:: \theta_0(i) = 1 / m

    Args:
        num_bins: m, the number of bins.
        theta: known probabilities of the bins, (num_bins,), which need not sum to 1. None (default)
            for equal probabilities.

    Returns:
        A `ThetaState` without visits.

    Raises:
        ValueError: `theta` is not one finite number above 0 for each bin.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.flattening.theta import initial_theta
        >>> jnp.exp(initial_theta(4).log_theta).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    dtype = jnp.result_type(float)
    if theta is None:
        log_theta = jnp.full((num_bins,), -jnp.log(num_bins), dtype)
    else:
        # In float64: a known probability may be below the smallest number of float32.
        log_theta = jnp.asarray(np.log(known_theta(theta, num_bins)), dtype)
    return ThetaState(
        log_theta=log_theta,
        decay=jnp.zeros((), dtype),
        bin_counts=jnp.zeros((num_bins,), jnp.int32),
    )


def count_visit(theta: ThetaState, energy_bin: jax.Array) -> ThetaState:
    """The same estimate of theta, with one more visit to a bin."""
    here = jnp.arange(theta.bin_counts.shape[-1]) == energy_bin
    return theta._replace(bin_counts=theta.bin_counts + here)


def update_theta(theta: ThetaState, energy_bin: jax.Array, log_gain: jax.Array) -> ThetaState:
    r"""One step of stochastic approximation towards the visited bin J, in log space.

    .. math:: \theta \leftarrow \theta + a (1_J - \theta), \qquad a = e^{\text{log\_gain}} < 1

    With :math:`a = \omega \Psi(U)^\zeta` and x from :math:`\pi / \Psi^\zeta`, the fixed point is
    the mass of each bin, whatever Psi is. `log_field` has other gains.

    Args:
        theta: the estimate so far.
        energy_bin: J, from 0, ().
        log_gain: log a, (); with -inf, or if the gain underflows, theta does not change.

    Returns:
        The estimate after the visit, which is counted.

    Source: Deng, Lin and Liang (2020), equation (10), where :math:`a = \omega \theta(J)^\zeta`.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> from numpyro_contour.core.flattening.theta import initial_theta, update_theta
        >>> theta = update_theta(initial_theta(4), 0, jnp.log(0.1))
        >>> print(np.exp(theta.log_theta - theta.decay).round(3))
        [0.325 0.225 0.225 0.225]
    """
    amount = jnp.minimum(jnp.exp(log_gain), MAXIMUM_GAIN)
    decay = theta.decay - jnp.log1p(-amount)
    visited = theta.log_theta[energy_bin]
    raised = visited + jax.nn.softplus(jnp.log(amount) - (visited - decay))
    # With vectorised chains, a mask over all bins costs less than a scatter.
    here = jnp.arange(theta.log_theta.shape[-1]) == energy_bin
    return apply_decay(jnp.where(here, raised, theta.log_theta), decay, theta.bin_counts + here)


def update_theta_by(theta: ThetaState, energy_bins: jax.Array, log_gains: jax.Array) -> ThetaState:
    r"""Several steps of `update_theta`, one after the other, by gains that are known before.

    .. math:: \theta \leftarrow \theta \prod_i (1 - a_i)
              + \sum_i 1_{J_i}\, a_i \prod_{l > i} (1 - a_l)

    Args:
        theta: the estimate so far.
        energy_bins: J, from 0, (steps,).
        log_gains: log a, (steps,); -inf for steps that teach nothing.

    Returns:
        The estimate after the visits, all of which are counted.

    Source: as `update_theta`; Andrieu, Moulines and Priouret (2005) for stochastic approximation by
    several steps of a chain at once, whose mean field is the same.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> from numpyro_contour.core.flattening.theta import initial_theta, update_theta_by
        >>> log_gains = jnp.log(jnp.array([0.1, 0.2]))
        >>> theta = update_theta_by(initial_theta(4), jnp.array([0, 2]), log_gains)
        >>> print(np.exp(theta.log_theta - theta.decay).round(3))
        [0.26 0.18 0.38 0.18]
    """
    amounts = jnp.minimum(jnp.exp(log_gains), MAXIMUM_GAIN)
    decay = theta.decay + jnp.cumsum(-jnp.log1p(-amounts))
    # What each visit adds, relative to the bin as it was: few exponentials, and a sum over a mask.
    rises = amounts * jnp.exp(decay - theta.log_theta[energy_bins])
    here = energy_bins[:, None] == jnp.arange(theta.log_theta.shape[-1])
    raised = theta.log_theta + jnp.log1p(jnp.sum(jnp.where(here, rises[:, None], 0.0), 0))
    return apply_decay(raised, decay[-1], theta.bin_counts + jnp.sum(here, 0, dtype=jnp.int32))


def apply_decay(log_theta: jax.Array, decay: jax.Array, bin_counts: jax.Array) -> ThetaState:
    """The estimate with its decay applied if it is large enough, and not below the floor."""
    apply = decay > _DECAY_APPLIED_FROM
    log_theta = jnp.maximum(log_theta - jnp.where(apply, decay, 0.0), LOG_THETA_FLOOR)
    return ThetaState(log_theta, jnp.where(apply, 0.0, decay), bin_counts)
