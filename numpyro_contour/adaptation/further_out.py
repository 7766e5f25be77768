"""Places further out than chains go, for descents to modes that no chain would climb to."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import random

from numpyro_contour.core.samplers.known_modes import Modes

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
        >>> from numpyro_contour.adaptation.further_out import further_out
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
