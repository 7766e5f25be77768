"""Maps that take one coordinate from one known mode to another, and leave the others alone."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numpyro_contour.core.samplers.known_modes import Map, Modes, cell, standardised

#: So many modes have to be known: fewer have no combinations that are not known.
LEAST_MODES = 4


def moved_coordinate(uniforms: jax.Array, modes: Modes, position: jax.Array) -> Map:
    r"""The image of a position with one coordinate where another mode has it.

    Two modes i and j are drawn, and a coordinate c in which they are apart. With
    :math:`z_k = (x_c - m_{kc}) / s_{kc}` and i the mode with the smaller :math:`|z|`,

    .. math:: y_c = m_{jc} + s_{jc} z_i

    with s the standard deviation of a coordinate in a mode. The way back exists if :math:`y_c` is
    nearer to j in the same sense, and is drawn as often. The determinant of the map is
    :math:`s_{jc} / s_{ic}`. Where coordinates have modes of their own, chains so come to all
    combinations of them, of which no list would hold more than a few.

    Args:
        uniforms: numbers between 0 and 1 that draw the modes and the coordinate, (K + d,).
        modes: the modes; with fewer than `LEAST_MODES` nothing returns.
        position: x, (d,).

    Returns:
        The `Map`; its origin and target are the cells of x and of y.

    Source: ter Braak (2006) for moves along differences of positions, here of known modes;
    Tjelmeland and Hegstad (2001) for the determinant.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.known_modes import no_modes
        >>> from numpyro_contour.core.samplers.one_coordinate import moved_coordinate
        >>> corners = jnp.array([[-3.0, -3.0], [3.0, -3.0], [-3.0, 3.0], [3.0, 3.0]])
        >>> modes = no_modes(4, 2, dense=False)
        >>> modes = modes._replace(known=jnp.ones(4, bool), mean=corners)
        >>> uniforms = jnp.array([0.9, 0.8, 0.1, 0.1, 0.5, 0.5])
        >>> moved_coordinate(uniforms, modes, jnp.array([-2.5, 3.0])).position.tolist()
        [3.5, 3.0]
    """
    slots = modes.known.shape[0]
    drawn = jnp.where(modes.known, uniforms[:slots], -jnp.inf)
    first = jnp.argmax(drawn)
    second = jnp.argmax(jnp.where(jnp.arange(slots) == first, -jnp.inf, drawn))
    dense = modes.factor.ndim == 3
    pair = jnp.stack([first, second])
    mean, factor = modes.mean[pair], modes.factor[pair]
    sds = jnp.sqrt(jnp.sum(factor**2, -1)) if dense else jnp.abs(factor)
    # Two normals have two modes only where they are two standard deviations apart.
    apart = jnp.abs(mean[0] - mean[1]) > sds[0] + sds[1]
    here = jnp.argmax(jnp.where(apart, uniforms[slots:], -jnp.inf))
    m, s, x = mean[:, here], sds[:, here], position[here]

    def distances(x: jax.Array) -> jax.Array:
        return jnp.abs(x - m) / s

    origin = jnp.argmin(distances(x))
    target = 1 - origin
    moved = m[target] + s[target] / s[origin] * (x - m[origin])
    there = jnp.where(jnp.arange(position.shape[0]) == here, moved, position)
    returns = (distances(moved)[target] < distances(moved)[origin]) & jnp.any(apart)
    number = jnp.arange(slots)
    return Map(
        there,
        jnp.log(s[target]) - jnp.log(s[origin]),
        number == cell(modes, standardised(modes, position)),
        number == cell(modes, standardised(modes, there)),
        returns & (jnp.sum(modes.known) >= LEAST_MODES),
    )
