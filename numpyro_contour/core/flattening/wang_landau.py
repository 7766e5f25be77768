"""Learning theta over widening bins by the Wang-Landau algorithm."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.arrays.entries import interpolation_weights, tree_where
from numpyro_contour.core.flattening.widening_partition import WideningPartition
from numpyro_contour.schedules import Schedule

#: Gain of the first steps: nats for one visit.
FIRST_GAIN = 0.5


class WangLandau(NamedTuple):
    """Theta while it is learnt, and the gain with which it is learnt."""

    #: log theta minus that of a Gaussian, (num_bins,), not normalised. It stays so small that
    #: float32 can still add the gain to it after a million steps.
    correction: jax.Array
    #: the gain, in nats for one visit
    gain: jax.Array
    #: bins visited since learning began, (num_bins,)
    visited: jax.Array
    #: whether the chain was in the lower half of the bins since the gain was last halved
    was_low: jax.Array
    #: steps since learning began
    steps: jax.Array


def initial_wang_landau(num_bins: int) -> WangLandau:
    """The state before the first step."""
    dtype = jnp.result_type(float)
    return WangLandau(
        jnp.zeros((num_bins,), dtype),
        jnp.asarray(FIRST_GAIN, dtype),
        jnp.zeros((num_bins,), bool),
        jnp.zeros((), bool),
        jnp.zeros((), jnp.int32),
    )


def gaussian_log_theta(partition: WideningPartition, temperature: jax.Array) -> jax.Array:
    r"""Log theta of the bins if the modes are Gaussian, (num_bins,), not normalised.

    .. math:: \log\theta(u) = -\frac e\tau + \frac r\tau \log(1 + e / r), \qquad
              e = (u - u_{typical})^+

    Up to a constant this is the log density of the energy of a Gaussian with
    :math:`r = d\tau / 2`, relative to a density that is flat over the bins.
    """
    edges = partition.edges
    above = jnp.maximum(0.5 * (edges[..., 1:] + edges[..., :-1]) - partition.typical, 0)
    reach = partition.reach
    return (reach * jnp.log1p(above / reach) - above) / temperature


def normalised_log_theta(
    learning: WangLandau, partition: WideningPartition, temperature: jax.Array
) -> jax.Array:
    """Log theta, (num_bins,), of probabilities that sum to 1."""
    return jax.nn.log_softmax(learning.correction + gaussian_log_theta(partition, temperature))


def update_wang_landau(
    learning: WangLandau,
    partition: WideningPartition,
    energy: jax.Array,
    energy_bin: jax.Array,
    temperature: jax.Array,
    halves_gain: jax.Array,
    gain: Schedule,
    active: jax.Array,
) -> WangLandau:
    r"""The state after a step, which raises log theta at the new energy by the gain.

    If `halves_gain`, the gain is halved whenever the chain reaches the last bin after it was in the
    lower half of the bins. It never falls below m / k after k steps with m bins, and equals m / k
    once it has reached it. The rule of halving only after all bins were visited would not do: while
    a mode that is hard to find is the only one with the lowest energies, the gain would stay large
    and theta would drift apart.

    If the chain visits a bin below all visited ones, learning starts again from the log theta of
    the lowest visited bin. Psi is constant below that bin: otherwise it would fall there without
    end and draw the chain into a minimum.

    Args:
        learning: the state before the step.
        partition: the partition.
        energy: the potential energy after the step, in nats.
        energy_bin: its bin.
        temperature: tau.
        halves_gain: whether the gain is halved; otherwise it is `gain` of the count of steps.
        gain: schedule of the gain, in nats for one visit.
        active: whether theta is learnt at all.

    Source: Wang and Landau (2001); Belardinelli and Pereyra (2007) for m / k.
    """
    bins = jnp.arange(partition.num_bins)
    restarts = halves_gain & ~jnp.any(learning.visited & (bins <= energy_bin))
    visited = learning.visited | (bins == energy_bin)
    was_low = learning.was_low | (energy_bin < partition.num_bins // 2)
    climbed = halves_gain & was_low & (energy_bin == partition.num_bins - 1)
    steps = jnp.where(restarts, 0, learning.steps) + 1
    halved = jnp.where(climbed, learning.gain / 2, learning.gain)
    least = jnp.minimum(FIRST_GAIN, partition.num_bins / steps.astype(halved.dtype))
    new_gain = jnp.where(halves_gain, jnp.maximum(halved, least), gain(steps))
    # As log Psi is interpolated between the centres of bins.
    weights = interpolation_weights(partition.coordinate(energy) - 0.5, partition.num_bins)
    correction = learning.correction + new_gain * weights
    log_theta = correction + gaussian_log_theta(partition, temperature)
    lowest = jnp.argmax(visited)
    below = correction + log_theta[lowest] - log_theta
    correction = jnp.where(bins < lowest, below, correction)
    # Centred only at climbs, and not at each step, where rounding would swallow small gains.
    correction = correction - jnp.where(climbed, jnp.mean(correction), 0.0)
    after = WangLandau(correction, new_gain, visited, was_low & ~climbed, steps)
    return tree_where(active, after, learning)
