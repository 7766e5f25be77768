r"""The noise of energies on minibatches: its variance, and what it makes of the multiplier."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from numpy.polynomial.hermite_e import hermegauss

from numpyro_contour.core.samplers.chain import Chain

# The variance is a running mean over some fifty moves: a chain stays in a mode for longer.
_RATE = 0.02

# Nodes and weights of means over a standard normal.
_NODES, _WEIGHTS = hermegauss(5)


def energy_noise_of_move(before: Chain, after: Chain) -> jax.Array:
    r"""An estimate of the variance of the noise of energies, from both ends of one move.

    .. math:: \tfrac12 \bigl[\tilde U(y) - \tilde U(x)
              - \tfrac12 (\nabla \tilde U(x) + \nabla \tilde U(y))^\top (y - x)\bigr]^2

    Without noise the bracket is of third order in the size of the move. With noise that is
    independent at both ends, it is the difference between the noise of two energies.
    """
    rises = jax.tree.map(
        lambda x, y, g, h: jnp.sum(0.5 * (g + h) * (y - x)),
        *(before.position, after.position, before.gradient, after.gradient),
    )
    rise = after.potential_energy - before.potential_energy
    return 0.5 * (rise - jax.tree.reduce(jnp.add, rises)) ** 2


def update_energy_noise(variance: jax.Array, before: Chain, after: Chain) -> jax.Array:
    """The running mean of the variance after one more move."""
    seen = jnp.where(after.accepted, energy_noise_of_move(before, after), variance)
    return jnp.nan_to_num(variance + _RATE * (seen - variance))


def variance_under_noise(
    function: Callable[[jax.Array], jax.Array], energy: jax.Array, variance: jax.Array
) -> jax.Array:
    """The variance of a function of the energy that normal noise of the energy causes.

    Args:
        function: a function of one potential energy in nats, for instance the gradient multiplier.
        energy: the mean energy, in nats.
        variance: the variance of the noise.
    """
    sd = jnp.sqrt(variance)
    values = jax.vmap(lambda node: function(energy + sd * node))(jnp.asarray(_NODES, sd.dtype))
    weights = jnp.asarray(_WEIGHTS / _WEIGHTS.sum(), sd.dtype)
    return jnp.sum(weights * (values - jnp.sum(weights * values)) ** 2)
