"""Maps that take one coordinate from one known mode to another, and leave the others alone."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.core.samplers.known_modes import Map, Modes, cell, standardised

#: So many modes have to be known: fewer have no combinations that are not known.
LEAST_MODES = 4


class Sides(NamedTuple):
    """Where the coordinates of modes are: mode i is above mode j in one if low i is above high j.

    Two normals have two modes only where they are two standard deviations apart.
    """

    #: the standard deviation of each coordinate in each mode, (K, d)
    sds: jax.Array
    #: one below the mean, minus infinity in slots without a mode, (K, d)
    low: jax.Array
    #: one above it, infinity in slots without a mode, (K, d)
    high: jax.Array
    #: the coordinates in which any two modes are apart, (d,)
    splits: jax.Array


def sides(modes: Modes) -> Sides:
    """The sides of all modes, the same as long as the modes are."""
    dense = modes.factor.ndim == 3
    sds = jnp.sqrt(jnp.sum(modes.factor**2, -1)) if dense else jnp.abs(modes.factor)
    known = modes.known[:, None]
    low = jnp.where(known, modes.mean - sds, -jnp.inf)
    high = jnp.where(known, modes.mean + sds, jnp.inf)
    return Sides(sds, low, high, jnp.max(low, 0) > jnp.min(high, 0))


def moved_coordinate(uniforms: jax.Array, modes: Modes, of_all: Sides, position: jax.Array) -> Map:
    r"""The image of a position with one coordinate where another mode has it.

    A coordinate c is drawn of those in which any two modes are apart, and two modes i and j that
    are apart in it. With :math:`z_k = (x_c - m_{kc}) / s_{kc}` and i the mode with the smaller
    :math:`|z|`,

    .. math:: y_c = m_{jc} + s_{jc} z_i

    with s the standard deviation of a coordinate in a mode. The way back exists if :math:`y_c` is
    nearer to j in the same sense, and is drawn as often. The determinant of the map is
    :math:`s_{jc} / s_{ic}`. Where coordinates have modes of their own, chains so come to all
    combinations of them, of which no list would hold more than a few. The coordinate comes first,
    so that one in which a single mode differs from all others is moved as often as any.

    Args:
        uniforms: numbers between 0 and 1 that draw the modes and the coordinate, (K + d,).
        modes: the modes; with fewer than `LEAST_MODES` nothing returns.
        of_all: their `sides`.
        position: x, (d,).

    Returns:
        The `Map`; its origin and target are the cells of x and of y.

    Source: ter Braak (2006) for moves along differences of positions, here of known modes;
    Tjelmeland and Hegstad (2001) for the determinant.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.known_modes import no_modes
        >>> from numpyro_contour.core.samplers.one_coordinate import moved_coordinate, sides
        >>> corners = jnp.array([[-3.0, -3.0], [3.0, -3.0], [-3.0, 3.0], [3.0, 3.0]])
        >>> modes = no_modes(4, 2, dense=False)
        >>> modes = modes._replace(known=jnp.ones(4, bool), mean=corners)
        >>> uniforms = jnp.array([0.9, 0.8, 0.1, 0.1, 0.6, 0.5])
        >>> x = jnp.array([-2.5, 3.0])
        >>> moved_coordinate(uniforms, modes, sides(modes), x).position.tolist()
        [3.5, 3.0]
    """
    slots = modes.known.shape[0]
    sds, low, high, splits = of_all
    here = jnp.argmax(jnp.where(splits, uniforms[slots:], -jnp.inf))
    low, high = low[:, here], high[:, here]
    has_other = (low > jnp.min(high)) | (high < jnp.max(low))
    first = jnp.argmax(jnp.where(has_other, uniforms[:slots], -jnp.inf))
    others = (low > high[first]) | (high < low[first])
    second = jnp.argmax(jnp.where(others, uniforms[:slots], -jnp.inf))
    pair = jnp.stack([first, second])
    m, s, x = modes.mean[pair, here], sds[pair, here], position[here]

    def distances(x: jax.Array) -> jax.Array:
        return jnp.abs(x - m) / s

    origin = jnp.argmin(distances(x))
    target = 1 - origin
    moved = m[target] + s[target] / s[origin] * (x - m[origin])
    there = jnp.where(jnp.arange(position.shape[0]) == here, moved, position)
    returns = (distances(moved)[target] < distances(moved)[origin]) & jnp.any(splits)
    number = jnp.arange(slots)
    return Map(
        there,
        jnp.log(s[target]) - jnp.log(s[origin]),
        number == cell(modes, standardised(modes, position)),
        number == cell(modes, standardised(modes, there)),
        returns & (jnp.sum(modes.known) >= LEAST_MODES),
    )
