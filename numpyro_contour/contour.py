r"""Theta, the probabilities of the energy bins: flattening function and stochastic approximation.

Theta lives in log space with a floor: in float32 the theta of a trapped chain underflows within a
million steps, and its logarithm is then not a number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour import checks
from numpyro_contour.partition import EnergyPartition

#: Lowest log theta: assumption A1 of the paper keeps theta in a compact set.
LOG_THETA_FLOOR = -40.0

#: Highest gain of one visit: with 1 all other bins would have no probability left.
MAXIMUM_GAIN = 0.999

# A decay of all bins smaller than this is gathered in `ThetaState.decay` before it is applied:
# one step's decay is below the rounding error of log theta in float32.
_DECAY_APPLIED_FROM = 2.0**-10

#: Distance in bin widths from a bin's left edge to the node that carries its log theta.
NODE_OFFSETS = {"forward": 0.0, "midpoint": 0.5, "backward": 1.0}

INTERPOLATIONS = tuple(NODE_OFFSETS)
WEIGHTS = ("consistent", "piecewise")


@dataclass(frozen=True)
class Flattening:
    """How the density is flattened; the arguments are those of `ContourSGLD`."""

    #: how much is flattened, at least 0; 0 is nothing, 1 is to equal probability of all bins
    zeta: float = 0.75
    #: where log theta of a bin stands, at its left edge "forward", "midpoint" or "backward"
    interpolation: str = "forward"
    #: whether Psi never rises with the energy
    one_sided: bool = True
    #: lower bound of the gradient multiplier, below 1, or None
    multiplier_bound: float | None = -1.0


class LogPsi(NamedTuple):
    """The flattening function at one potential energy."""

    #: log Psi(u), up to the common `decay` of theta
    value: jax.Array
    #: 1 + zeta * tau * dlogPsi/du
    gradient_multiplier: jax.Array
    #: whether the bound of the slope is what decides the multiplier
    bounded: jax.Array


class ThetaState(NamedTuple):
    """The estimate of theta."""

    #: log theta, (num_bins,), up to the common `decay`
    log_theta: jax.Array
    #: a small number still to be taken from every log theta
    decay: jax.Array
    #: visits of each bin, (num_bins,)
    bin_counts: jax.Array


def known_theta(theta: Any, num_bins: int) -> np.ndarray:
    """A theta that is given, (num_bins,), normalised to sum 1.

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
    r"""Theta before any visit: uniform, or as it is given.

    .. math:: \theta_0(i) = 1 / m

    Args:
        num_bins: m, the number of bins.
        theta: known probabilities of the bins, (num_bins,), which need not sum to 1. None (default)
            for equal ones.

    Returns:
        A `ThetaState` without visits.

    Raises:
        ValueError: `theta` is not one finite number above 0 for each bin.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.contour import initial_theta
        >>> jnp.exp(initial_theta(4).log_theta).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    dtype = jnp.result_type(float)
    if theta is None:
        log_theta = jnp.full((num_bins,), -jnp.log(num_bins), dtype)
    else:
        # Of float64: a known probability may be below the least number of float32.
        log_theta = jnp.asarray(np.log(known_theta(theta, num_bins)), dtype)
    return ThetaState(
        log_theta=log_theta,
        decay=jnp.zeros((), dtype),
        bin_counts=jnp.zeros((num_bins,), jnp.int32),
    )


def _largest_drop(
    partition: EnergyPartition, temperature: jax.Array | float, flattening: Flattening
) -> jax.Array | float:
    """How much log Psi may fall from a node to the next for the multiplier to keep its bound."""
    bound = flattening.multiplier_bound
    if bound is None or flattening.zeta == 0:
        return jnp.inf
    # Infinite where a schedule ends at a temperature of 0: nothing is flattened there.
    return (1 - bound) * partition.width / (flattening.zeta * temperature)


def nodes(
    log_theta: jax.Array,
    at: jax.Array,
    partition: EnergyPartition,
    temperature: jax.Array | float,
    flattening: Flattening,
) -> jax.Array:
    r"""Values of log Psi at the nodes `at`: the lowest function of its shape above log theta.

    .. math:: \log\Psi_j = \max_i \{\log\theta(i) - B \max(j - i, 0)\}

    where :math:`B = (1 - b) \Delta u / (\zeta\tau)` is the largest drop of log Psi over a bin that
    keeps the gradient multiplier above its bound b. Bins to the right of j take part because Psi is
    one-sided: it never rises with the energy. Without a bound or without one-sidedness that half of
    the maximum is left out.

    Args:
        log_theta: log theta, (num_bins,).
        at: numbers of bins j, (n,).
        partition: the energy partition.
        temperature: :math:`\tau`, ().
        flattening: zeta and the shape of Psi.

    Returns:
        Log Psi at the nodes, (n,).

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour import EnergyPartition
        >>> from numpyro_contour.contour import Flattening, nodes
        >>> log_theta = jnp.array([-3.0, -1.0, -9.0])
        >>> partition = EnergyPartition(0.0, 3.0, 3)
        >>> nodes(log_theta, jnp.arange(3), partition, 1.0, Flattening(zeta=1.0)).tolist()
        [-1.0, -1.0, -3.0]
    """
    if flattening.multiplier_bound is None and not flattening.one_sided:
        return log_theta[at]
    distance = at[..., None] - jnp.arange(log_theta.shape[-1])
    drop = _largest_drop(partition, temperature, flattening)
    rise = 0.0 if flattening.one_sided else jnp.inf
    # The drop may be infinite, and infinity times a distance of 0 is not a number.
    fall = jnp.where(distance > 0, distance, 1) * drop
    cost = jnp.where(distance > 0, fall, jnp.where(distance < 0, rise, 0.0))
    return jnp.max(log_theta - cost.astype(log_theta.dtype), axis=-1)


def log_psi(
    log_theta: jax.Array,
    energy: jax.Array,
    partition: EnergyPartition,
    temperature: jax.Array | float,
    flattening: Flattening,
) -> LogPsi:
    r"""The flattening function log Psi and the gradient multiplier at a potential energy.

    .. math:: \log\Psi(u) = (1 - t) \log\Psi_j + t \log\Psi_{j+1}, \qquad
              \lambda(u) = 1 + \zeta\tau \frac{\log\Psi_{j+1} - \log\Psi_j}{\Delta u}

    for an energy at the share t of the way from the node of bin j to the next; constant, with a
    multiplier of 1, outside the nodes. The sampled density is
    :math:`\pi(x) / \Psi(U(x))^\zeta`.

    Args:
        log_theta: log theta, (num_bins,).
        energy: potential energy u, in nats, ().
        partition: the energy partition.
        temperature: :math:`\tau`, ().
        flattening: zeta and the shape of Psi.

    Returns:
        A `LogPsi`: log Psi, the gradient multiplier, and whether its bound decides it.

    Source: Deng, Lin and Liang (2020), equations (5) and (6) for "backward", section D.1 for
    "forward".

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour import EnergyPartition
        >>> from numpyro_contour.contour import Flattening, log_psi
        >>> log_theta = jnp.array([-1.0, -2.0, -4.0])
        >>> psi = log_psi(log_theta, 0.5, EnergyPartition(0.0, 3.0, 3), 1.0, Flattening(zeta=0.75))
        >>> float(psi.value), float(psi.gradient_multiplier)
        (-1.5, 0.25)
    """
    last = partition.num_bins - 1
    place = partition.coordinate(energy) - NODE_OFFSETS[flattening.interpolation]
    inside = (place >= 0) & (place < last)
    place = jnp.nan_to_num(jnp.clip(place, 0, last))
    left = jnp.minimum(jnp.floor(place), last - 1).astype(jnp.int32)
    ends = nodes(log_theta, left + jnp.arange(2), partition, temperature, flattening)
    rise = ends[1] - ends[0]
    slope = jnp.where(inside, rise * partition.rate(energy), 0.0)
    value = ends[0] + (place - left) * rise
    multiplier = 1 + flattening.zeta * temperature * slope
    bounded = jnp.zeros((), bool)
    if flattening.multiplier_bound is not None:
        drop = _largest_drop(partition, temperature, flattening)
        bounded = inside & (rise <= -(1 - 1e-4) * drop)
        # With a zeta of a million the rounding error of a rise counts many multipliers.
        multiplier = jnp.maximum(multiplier, flattening.multiplier_bound)
    return LogPsi(value, multiplier.astype(log_theta.dtype), bounded)


def log_flattening(
    theta: ThetaState,
    psi: LogPsi,
    energy_bin: jax.Array,
    flattening: Flattening,
    weight: str = "consistent",
) -> jax.Array:
    r"""The log importance weight: :math:`\zeta\log\Psi(U)`, or :math:`\zeta\log\theta(J)`.

    Args:
        theta: theta before the update with this energy.
        psi: `log_psi` of the same theta at the energy.
        energy_bin: J, from 0, ().
        flattening: zeta and the shape of Psi.
        weight: "consistent" (default) for the continuous Psi that drives the drift, "piecewise" for
            the paper's :math:`\theta(J)^\zeta`.

    Returns:
        The log weight, ().

    Source: Deng, Lin and Liang (2020), Theorem 2, for "piecewise".

    Example:
        >>> import math
        >>> from numpyro_contour import EnergyPartition
        >>> from numpyro_contour.contour import Flattening, initial_theta, log_flattening, log_psi
        >>> theta, shape = initial_theta(4), Flattening(zeta=0.75)
        >>> psi = log_psi(theta.log_theta, 0.5, EnergyPartition(0.0, 4.0, 4), 1.0, shape)
        >>> round(math.exp(log_flattening(theta, psi, 0, shape)), 4)  # a quarter to the power 0.75
        0.3536
    """
    value = theta.log_theta[energy_bin] if weight == "piecewise" else psi.value
    return flattening.zeta * (value - theta.decay)


def update_theta(theta: ThetaState, energy_bin: jax.Array, log_gain: jax.Array) -> ThetaState:
    r"""One step of stochastic approximation towards the visited bin J, done in log space.

    .. math:: \theta \leftarrow \theta + a (1_J - \theta), \qquad a = e^{\text{log\_gain}} < 1

    With :math:`a = \omega \Psi(U)^\zeta` and x from :math:`\pi / \Psi^\zeta` its fixed point is
    the mass of each bin, whatever Psi; `random_fields` names other gains.

    Args:
        theta: the estimate so far.
        energy_bin: J, from 0, ().
        log_gain: log a, (); a gain that underflows, or -inf, leaves theta as it is.

    Returns:
        The estimate after it, whose visits of the bin are one more.

    Source: Deng, Lin and Liang (2020), equation (10), where :math:`a = \omega \theta(J)^\zeta`.

    Example:
        >>> import jax.numpy as jnp, numpy as np
        >>> from numpyro_contour.contour import initial_theta, update_theta
        >>> theta = update_theta(initial_theta(4), 0, jnp.log(0.1))
        >>> print(np.exp(theta.log_theta - theta.decay).round(3))
        [0.325 0.225 0.225 0.225]
    """
    amount = jnp.minimum(jnp.exp(log_gain), MAXIMUM_GAIN)
    decay = theta.decay - jnp.log1p(-amount)
    visited = theta.log_theta[energy_bin]
    raised = visited + jax.nn.softplus(jnp.log(amount) - (visited - decay))
    # A mask over all bins costs less than a scatter where chains are vectorised.
    here = jnp.arange(theta.log_theta.shape[-1]) == energy_bin
    return settled(jnp.where(here, raised, theta.log_theta), decay, theta.bin_counts + here)


def settled(log_theta: jax.Array, decay: jax.Array, bin_counts: jax.Array) -> ThetaState:
    """The estimate with its decay applied where that is large enough, and above the floor."""
    apply = decay > _DECAY_APPLIED_FROM
    log_theta = jnp.maximum(log_theta - jnp.where(apply, decay, 0.0), LOG_THETA_FLOOR)
    return ThetaState(log_theta, jnp.where(apply, 0.0, decay), bin_counts)
