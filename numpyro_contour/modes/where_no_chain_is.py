"""Where descents begin in a warm-up: further out, or at places likelier than known modes."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.core.samplers.known_modes import Modes, standardised, times
from numpyro_contour.modes.found_modes import EnergyAt, FoundModes

#: So many times as far away at most.
_FURTHEST = 16.0


def further_out(key: jax.Array, places: jax.Array, modes: Modes) -> jax.Array:
    r"""Places on the lines through where chains are and other chains or modes, beyond both.

    .. math:: y_i = x_i \pm \gamma\, (x_i - r_i)

    with r another chain's place or the mean of a known mode, each as likely, and
    :math:`\log\gamma` uniform between 0 and log 16. Differences of chains have the scales and the
    correlations of the posterior (ter Braak, 2006). Another mode is often the bottom of half the
    space, or of much of it, however high the barrier before it is.

    Args:
        key: random key.
        places: where the chains are, (chains, d).
        modes: the modes that are known.

    Returns:
        The places, (chains, d). One chain that knows no mode stays.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.modes.where_no_chain_is import further_out
        >>> from numpyro_contour.core.samplers.known_modes import no_modes
        >>> places = jnp.array([[0.0, 1.0], [0.0, 2.0]])
        >>> there = further_out(jax.random.key(0), places, no_modes(4, 2, dense=False))
        >>> bool((there[:, 0] == 0).all()), bool((jnp.abs(there - places)[:, 1] >= 1).all())
        (True, True)
    """
    chains = places.shape[0]
    of_reference, of_distance, of_sign = random.split(key, 3)
    references = jnp.concatenate([places, modes.mean.astype(places.dtype)])
    known = jnp.broadcast_to(modes.known, (chains, modes.known.shape[0]))
    usable = jnp.concatenate([~jnp.eye(chains, dtype=bool), known], 1)
    drawn = random.uniform(of_reference, usable.shape)
    # One chain that knows no mode has but itself, the first of all.
    away = places - references[jnp.argmax(jnp.where(usable, drawn, -1.0), 1)]
    factor = _FURTHEST ** random.uniform(of_distance, (chains, 1), places.dtype)
    sign = random.rademacher(of_sign, (chains, 1), places.dtype)
    return places + sign * factor * away


# Candidates for each place: energies alone cost less than the descent that begins there.
_CANDIDATES = 256
#: So many times as far from a mode as its draws at most.
_FURTHEST_IN_SDS = 16.0


def unexplained(
    key: jax.Array, number: int, found: FoundModes, energy_at: EnergyAt, temperature: jax.Array
) -> jax.Array:
    r"""The places, of many around the known modes, where the density is highest above theirs.

    .. math:: y = \arg\max_c\; -U(c)/\tau - \log \sum_k e^{-U_k/\tau - |z_k(c)|^2 / 2},
       \qquad c = m_k + \gamma F_k \xi

    with :math:`U_k` the energy at the bottom of mode k, :math:`z_k(c) = F_k^{-1} (c - m_k)`,
    :math:`\xi` standard normal, :math:`\log\gamma` uniform between 0 and log 16, and k any of the
    modes. A narrow mode draws descents from its neighbourhood only, which one place seldom hits.
    There the density is much higher than that of the others.

    Args:
        key: random key.
        number: how many places are asked for.
        found: the modes that are known.
        energy_at: the potential energy at a place, in nats; exact.
        temperature: tau > 0.

    Returns:
        The places, (number, d). As good as any where no mode is known.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.modes.found_modes import none_found
        >>> from numpyro_contour.modes.where_no_chain_is import unexplained
        >>> found = none_found(2)  # one mode, a standard normal
        >>> modes = found.modes._replace(known=found.modes.known.at[0].set(True))
        >>> found = found._replace(modes=modes, energy=jnp.zeros_like(found.energy))
        >>> away = jnp.array([6.0, 0.0])  # another one, a tenth as wide, of the same mass
        >>> density = lambda x: -jnp.sum(x**2) / 2
        >>> both = lambda x: -jnp.logaddexp(density(x), density(10 * (x - away)) + jnp.log(100.0))
        >>> places = unexplained(jax.random.key(0), 8, found, both, jnp.ones(()))
        >>> bool(jnp.sum(jnp.linalg.norm(places - away, axis=1) < 1) >= 4)
        True
    """
    candidates = jax.vmap(partial(_drawn, found, number))(random.split(key, _CANDIDATES))

    def excess(place: jax.Array) -> jax.Array:
        z = standardised(found.modes, place)
        of_modes = -found.energy / temperature - 0.5 * jnp.sum(z**2, -1)
        known = jax.nn.logsumexp(jnp.where(found.modes.known, of_modes, -jnp.inf))
        return -energy_at(place) / temperature - known

    above = lax.map(jax.vmap(excess), candidates)
    best = jnp.argmax(jnp.where(jnp.isfinite(above), above, -jnp.inf), 0)
    return candidates[best, jnp.arange(number)]


def _drawn(found: FoundModes, number: int, key: jax.Array) -> jax.Array:
    """Candidates around the known modes, (number, d)."""
    modes = found.modes
    of_mode, of_distance, of_normal = random.split(key, 3)
    known = jnp.where(modes.known, 0.0, -jnp.inf)
    which = random.categorical(of_mode, known, shape=(number,))
    dtype = modes.mean.dtype
    distance = _FURTHEST_IN_SDS ** random.uniform(of_distance, (number, 1), dtype)
    normal = random.normal(of_normal, (number, modes.mean.shape[-1]), dtype)
    return modes.mean[which] + distance * times(modes.factor[which], normal)
