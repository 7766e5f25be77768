r"""Psi, the flattening function: theta interpolated over the energies, and the weights from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.entries import entries
from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.core.flattening.theta import ThetaState

#: The distance from the left edge of a bin to the node that has its log theta, in bin widths.
NODE_OFFSETS = {"forward": 0.0, "midpoint": 0.5, "backward": 1.0}

INTERPOLATIONS = tuple(NODE_OFFSETS)
WEIGHTS = ("consistent", "piecewise")


@dataclass(frozen=True)
class Flattening:
    """How the density is flattened; the arguments are those of `ContourSGLD`."""

    #: the strength of flattening, at least 0; with 0 there is none, and with 1 all bins become
    #: equally probable
    zeta: float = 0.75
    #: the node of a bin is at its left edge ("forward"), centre ("midpoint") or right edge
    #: ("backward")
    interpolation: str = "forward"
    #: whether Psi is kept from rising with the energy
    one_sided: bool = True
    #: lower bound of the gradient multiplier, below 1, or None
    multiplier_bound: float | None = -1.0


class LogPsi(NamedTuple):
    """The flattening function at one potential energy."""

    #: log Psi(u), up to the common `decay` of theta
    value: jax.Array
    #: 1 + zeta * tau * dlogPsi/du
    gradient_multiplier: jax.Array
    #: whether the multiplier is at its bound
    bounded: jax.Array


def largest_drop(
    partition: EnergyPartition, temperature: jax.Array | float, flattening: Flattening
) -> jax.Array | float:
    """The largest drop of log Psi between two nodes that keeps the multiplier above its bound."""
    bound = flattening.multiplier_bound
    if bound is None or flattening.zeta == 0:
        return jnp.inf
    # Infinite at temperature 0, where a schedule may end and nothing is flattened.
    return (1 - bound) * partition.width / (flattening.zeta * temperature)


def log_psi_at_nodes(
    log_theta: jax.Array,
    at: jax.Array,
    partition: EnergyPartition,
    temperature: jax.Array | float,
    flattening: Flattening,
) -> jax.Array:
    r"""Log Psi at the nodes `at`: the lowest function above log theta that has the right shape.

    .. math:: \log\Psi_j = \max_i \{\log\theta(i) - B \max(j - i, 0)\}

    where :math:`B = (1 - b) \Delta u / (\zeta\tau)` is the largest drop of log Psi over a bin that
    keeps the gradient multiplier above its bound b. Bins to the right of j count because Psi is
    one-sided: it never rises with the energy. If Psi has no bound, the bins to the left are left
    out; if it is not one-sided, the bins to the right.

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
        >>> from numpyro_contour.core.flattening.psi import Flattening, log_psi_at_nodes
        >>> log_theta = jnp.array([-3.0, -1.0, -9.0])
        >>> partition = EnergyPartition(0.0, 3.0, 3)
        >>> shape = Flattening(zeta=1.0)
        >>> log_psi_at_nodes(log_theta, jnp.arange(3), partition, 1.0, shape).tolist()
        [-1.0, -1.0, -3.0]
    """
    if flattening.multiplier_bound is None and not flattening.one_sided:
        return log_theta[at]
    distance = at[..., None] - jnp.arange(log_theta.shape[-1])
    drop = largest_drop(partition, temperature, flattening)
    rise = 0.0 if flattening.one_sided else jnp.inf
    # The drop may be infinite, and infinity times a distance of 0 is not a number.
    fall = jnp.where(distance > 0, distance, 1) * drop
    cost = jnp.where(distance > 0, fall, jnp.where(distance < 0, rise, 0.0))
    return jnp.max(log_theta - cost.astype(log_theta.dtype), axis=-1)


def log_psi_of_all_nodes(
    log_theta: jax.Array,
    partition: EnergyPartition,
    temperature: jax.Array | float,
    flattening: Flattening,
) -> jax.Array:
    r"""`log_psi_at_nodes` at all nodes, without a table of all distances.

    .. math:: \psi_j \leftarrow \max\{\psi_j,\ \psi_{j+s},\ \psi_{j-s} - s B\},
              \qquad s = 1, 2, 4, \ldots

    begun with log theta. Every distance is a sum of such s, and a way to a node and back again
    would never be higher than the direct one.

    Args:
        log_theta: log theta, (num_bins,).
        partition: the energy partition.
        temperature: :math:`\tau`, ().
        flattening: zeta and the shape of Psi.

    Returns:
        Log Psi at the nodes, (num_bins,).

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour import EnergyPartition
        >>> from numpyro_contour.core.flattening.psi import Flattening, log_psi_of_all_nodes
        >>> log_theta = jnp.array([-3.0, -1.0, -9.0])
        >>> partition = EnergyPartition(0.0, 3.0, 3)
        >>> log_psi_of_all_nodes(log_theta, partition, 1.0, Flattening(zeta=1.0)).tolist()
        [-1.0, -1.0, -3.0]
    """
    drop = jnp.asarray(largest_drop(partition, temperature, flattening), log_theta.dtype)
    rounds = math.ceil(math.log2(log_theta.shape[-1]))
    # With room for all shifts, each round is a few slices, which vectorise.
    values = jnp.pad(log_theta, 2**rounds - 1, constant_values=-jnp.inf)
    for step in (2**n for n in range(rounds)):
        here, above, below = values[step:-step], values[2 * step :], values[: -2 * step]
        values = jnp.maximum(here, above) if flattening.one_sided else here
        if flattening.multiplier_bound is not None:
            values = jnp.maximum(values, below - step * drop)
    return values


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

    for an energy between the nodes of bins j and j + 1, with t the share of the way from the one to
    the other. Outside the nodes Psi is constant and the multiplier is 1. The sampled density is
    :math:`\pi(x) / \Psi(U(x))^\zeta`.

    Args:
        log_theta: log theta, (num_bins,).
        energy: potential energy u, in nats, ().
        partition: the energy partition.
        temperature: :math:`\tau`, ().
        flattening: zeta and the shape of Psi.

    Returns:
        A `LogPsi`: log Psi, the gradient multiplier, and whether that is at its bound.

    Source: Deng, Lin and Liang (2020), equations (5) and (6) for "backward", section D.1 for
    "forward".

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour import EnergyPartition
        >>> from numpyro_contour.core.flattening.psi import Flattening, log_psi
        >>> log_theta = jnp.array([-1.0, -2.0, -4.0])
        >>> psi = log_psi(log_theta, 0.5, EnergyPartition(0.0, 3.0, 3), 1.0, Flattening(zeta=0.75))
        >>> float(psi.value), float(psi.gradient_multiplier)
        (-1.5, 0.25)
    """

    def at(nodes: jax.Array) -> jax.Array:
        return log_psi_at_nodes(log_theta, nodes, partition, temperature, flattening)

    return _log_psi_between(at, energy, partition, temperature, flattening)


def log_psi_by_nodes(
    nodes: jax.Array,
    energy: jax.Array,
    partition: EnergyPartition,
    temperature: jax.Array | float,
    flattening: Flattening,
) -> LogPsi:
    r"""`log_psi`, from log Psi at all nodes, (num_bins,), by `log_psi_of_all_nodes`.

    .. math:: \log\Psi(u) = (1 - t) \log\Psi_j + t \log\Psi_{j+1}

    Where many energies are looked at with one theta, this costs far less.

    Args:
        nodes: log Psi at the nodes, (num_bins,).
        energy: potential energy u, in nats, ().
        partition: the energy partition.
        temperature: :math:`\tau`, ().
        flattening: zeta and the shape of Psi.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour import EnergyPartition
        >>> from numpyro_contour.core.flattening.psi import Flattening, log_psi_by_nodes
        >>> nodes, partition = jnp.array([-1.0, -2.0, -4.0]), EnergyPartition(0.0, 3.0, 3)
        >>> float(log_psi_by_nodes(nodes, 0.5, partition, 1.0, Flattening(zeta=0.75)).value)
        -1.5
    """
    at = partial(entries, nodes)
    return _log_psi_between(at, energy, partition, temperature, flattening)


def _log_psi_between(
    at: Callable[[jax.Array], jax.Array],
    energy: jax.Array,
    partition: EnergyPartition,
    temperature: jax.Array | float,
    flattening: Flattening,
) -> LogPsi:
    """`log_psi`, from a function of the numbers of nodes."""
    last = partition.num_bins - 1
    place = partition.coordinate(energy) - NODE_OFFSETS[flattening.interpolation]
    inside = (place >= 0) & (place < last)
    place = jnp.nan_to_num(jnp.clip(place, 0, last))
    left = jnp.minimum(jnp.floor(place), last - 1).astype(jnp.int32)
    ends = at(left + jnp.arange(2))
    rise = ends[1] - ends[0]
    slope = jnp.where(inside, rise * partition.rate(energy), 0.0)
    value = ends[0] + (place - left) * rise
    multiplier = 1 + flattening.zeta * temperature * slope
    bounded = jnp.zeros((), bool)
    if flattening.multiplier_bound is not None:
        drop = largest_drop(partition, temperature, flattening)
        bounded = inside & (rise <= -(1 - 1e-4) * drop)
        # With a zeta of a million, the rounding error of the rise would break the bound.
        multiplier = jnp.maximum(multiplier, flattening.multiplier_bound)
    return LogPsi(value, multiplier.astype(ends.dtype), bounded)


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
        weight: "consistent" (default) for the continuous Psi that drives the drift, or "piecewise"
            for the paper's :math:`\theta(J)^\zeta`.

    Returns:
        The log weight, ().

    Source: Deng, Lin and Liang (2020), Theorem 2, for "piecewise".

    Example:
        >>> import math
        >>> from numpyro_contour import EnergyPartition
        >>> from numpyro_contour.core.flattening.psi import Flattening, log_flattening, log_psi
        >>> from numpyro_contour.core.flattening.theta import initial_theta
        >>> theta, shape = initial_theta(4), Flattening(zeta=0.75)
        >>> psi = log_psi(theta.log_theta, 0.5, EnergyPartition(0.0, 4.0, 4), 1.0, shape)
        >>> round(math.exp(log_flattening(theta, psi, 0, shape)), 4)  # a quarter to the power 0.75
        0.3536
    """
    value = theta.log_theta[energy_bin] if weight == "piecewise" else psi.value
    return flattening.zeta * (value - theta.decay)
