r"""The normaliser of the flattened density by the theta of the moment.

A chain whose theta moves samples :math:`\pi(x) / (\Psi_k(U)^\zeta Z_k)` at time k. The weight
:math:`\Psi_k^\zeta` then has the mean :math:`1 / Z_k`, which goes with the mode in which theta was
just trained: without :math:`Z_k`, some modes would be weighed too low.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.flattening.energy_partition import EnergyPartition
from numpyro_contour.core.flattening.psi import NODE_OFFSETS, Flattening, log_psi_of_all_nodes
from numpyro_contour.core.flattening.theta import ThetaState


class MeanTheta(NamedTuple):
    """The geometric mean of theta so far."""

    #: its logarithm, (num_bins,), not normalised
    log_theta: jax.Array
    #: how many thetas are in it
    thetas: jax.Array


def initial_mean_theta(log_theta: jax.Array) -> MeanTheta:
    """The mean of no theta, which the first one replaces: any log theta, (num_bins,)."""
    return MeanTheta(log_theta, jnp.zeros((), jnp.int32))


def update_mean_theta(mean: MeanTheta, theta: ThetaState) -> MeanTheta:
    r"""The geometric mean with one more theta, in which the n-th counts in proportion to n.

    .. math:: \log\bar\theta_n = \log\bar\theta_{n-1} +
              \tfrac{2}{n + 1} (\log\theta_n - \log\bar\theta_{n-1})

    A first theta that was far off is soon forgotten. In an arithmetic mean it would not be: bins
    that it thought probable and that are e\ :sup:`-30` would keep a share of it.

    Args:
        mean: the mean so far.
        theta: the next theta, normalised or not.

    Returns:
        The mean with it.

    Source: Shamir and Zhang (2013), polynomial-decay averaging.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.flattening.normaliser import (
        ...     initial_mean_theta, update_mean_theta)
        >>> from numpyro_contour.core.flattening.theta import initial_theta
        >>> mean = initial_mean_theta(jnp.zeros(2))
        >>> for theta in ([0.2, 0.8], [0.5, 0.5]):
        ...     mean = update_mean_theta(mean, initial_theta(2, theta))
        >>> [round(x, 3) for x in jnp.exp(mean.log_theta).tolist()]  # the second counts twice
        [0.368, 0.585]
    """
    share = 2.0 / (mean.thetas + 2)
    newest = theta.log_theta - theta.decay
    return MeanTheta(mean.log_theta + share * (newest - mean.log_theta), mean.thetas + 1)


def log_normaliser(
    mean: MeanTheta,
    theta: ThetaState,
    partition: EnergyPartition,
    temperature: jax.Array | float,
    flattening: Flattening,
) -> jax.Array:
    r"""The logarithm of the normaliser of the density that a theta flattens.

    .. math:: Z = \int \frac{\pi(x)}{\Psi(U(x))^\zeta}\, dx \approx
              \sum_i \frac{\bar\theta(i)}{\Psi(i)^\zeta}

    with :math:`\Psi(i)` in the middle of bin i, and :math:`\bar\theta`, normalised, for the
    probabilities of the bins. They need not be exact: weights times any function of time are valid
    in the long run, and those times Z have the same mean whatever theta is.

    Args:
        mean: :math:`\bar\theta`.
        theta: the theta of :math:`\Psi`.
        partition: the energy partition.
        temperature: :math:`\tau`, ().
        flattening: zeta and the shape of Psi.

    Returns:
        log Z, ().

    Source: self-normalised importance sampling with the constant of each proposal; Robert and
        Casella (2004), section 14.3.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour import EnergyPartition
        >>> from numpyro_contour.core.flattening.normaliser import (
        ...     initial_mean_theta, log_normaliser)
        >>> from numpyro_contour.core.flattening.psi import Flattening
        >>> from numpyro_contour.core.flattening.theta import initial_theta
        >>> theta = initial_theta(3, [0.2, 0.3, 0.5])
        >>> mean, bins = initial_mean_theta(theta.log_theta), EnergyPartition(0.0, 3.0, 3)
        >>> shape = Flattening(1.0, "midpoint", False, None)  # .2 / .2 + .3 / .3 + .5 / .5
        >>> round(float(jnp.exp(log_normaliser(mean, theta, bins, 1.0, shape))), 3)
        3.0
    """
    nodes = log_psi_of_all_nodes(theta.log_theta, partition, temperature, flattening)
    log_psi = _middles(nodes, NODE_OFFSETS[flattening.interpolation]) - theta.decay
    return jax.nn.logsumexp(jax.nn.log_softmax(mean.log_theta) - flattening.zeta * log_psi)


def _middles(nodes: jax.Array, offset: float) -> jax.Array:
    """Log Psi in the middle of each bin, from its values at the nodes."""
    if offset == 0.5:
        return nodes
    # Outside the nodes Psi is constant.
    beyond = nodes[-1:] if offset == 0 else nodes[:1]
    ends = [nodes, beyond] if offset == 0 else [beyond, nodes]
    padded = jnp.concatenate(ends)
    return 0.5 * (padded[:-1] + padded[1:])
