"""Modes that are known: a place, a shape and an order of coordinates, and maps between them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import random


class Modes(NamedTuple):
    r"""Modes in K slots, each with coordinates z in which it is about a standard normal.

    .. math:: s_i x_{o_i} = m_i + (L z)_i

    with the order o and the signs s of the mode's coordinates. Modes that are copies of each other,
    as the labels of exchangeable components make them, have the same m and L and differ in o and s
    only.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.known_modes import Modes
        >>> modes = Modes(known=jnp.array([True, True]), order=jnp.array([[0, 1], [1, 0]]),
        ...               sign=jnp.ones((2, 2)), mean=jnp.array([[-1.0, 2.0]] * 2),
        ...               factor=jnp.ones((2, 2)), inverse=jnp.ones((2, 2)),
        ...               log_volume=jnp.zeros(2), log_share=jnp.zeros(2))
        >>> modes.position.tolist()
        [[-1.0, 2.0], [2.0, -1.0]]
    """

    #: whether a slot holds a mode, (K,)
    known: jax.Array
    #: the coordinates of a position in the order of the mode, (K, d)
    order: jax.Array
    #: their signs, 1 or -1, (K, d)
    sign: jax.Array
    #: m, (K, d)
    mean: jax.Array
    #: L, lower triangular, (K, d, d), or its diagonal, (K, d)
    factor: jax.Array
    #: the inverse of L, in the same form
    inverse: jax.Array
    #: log of the determinant of L, (K,)
    log_volume: jax.Array
    #: log of the share of tries to jump that aim at the mode, not normalised, (K,)
    log_share: jax.Array

    @property
    def position(self) -> jax.Array:
        """Where the modes are, (K, d)."""
        return jax.vmap(unordered)(self, self.mean)


class Map(NamedTuple):
    """The image of a position in another mode."""

    #: the image, (d,)
    position: jax.Array
    #: log of what the density ratio is multiplied by: the determinant of the map, times how much
    #: more likely the way back is to be tried than the way there
    log_factor: jax.Array
    #: the modes in whose cells the position is, and the image is meant to be
    origin: jax.Array
    target: jax.Array
    #: whether the image is in the cell of the target, so that the way back exists
    returns: jax.Array


def no_modes(slots: int, size: int, dense: bool) -> Modes:
    """Slots without modes.

    Args:
        slots: K, at least 1.
        size: d, the number of coordinates.
        dense: whether L is a matrix; else it is diagonal.

    Returns:
        The `Modes`.

    Example:
        >>> from numpyro_contour.core.samplers.known_modes import no_modes
        >>> no_modes(4, 2, dense=True).factor.shape
        (4, 2, 2)
    """
    dtype = jnp.result_type(float)
    one = jnp.eye(size, dtype=dtype) if dense else jnp.ones((size,), dtype)
    factor = jnp.broadcast_to(one, (slots, *one.shape))
    return Modes(
        known=jnp.zeros((slots,), bool),
        order=jnp.broadcast_to(jnp.arange(size, dtype=jnp.int32), (slots, size)),
        sign=jnp.ones((slots, size), dtype),
        mean=jnp.zeros((slots, size), dtype),
        factor=factor,
        inverse=factor,
        log_volume=jnp.zeros((slots,), dtype),
        log_share=jnp.zeros((slots,), dtype),
    )


def times(factor: jax.Array, vector: jax.Array) -> jax.Array:
    """A factor, a matrix or a diagonal, times a vector, (d,)."""
    return factor @ vector if factor.ndim == 2 else factor * vector


def ordered(mode: Modes, position: jax.Array) -> jax.Array:
    """The coordinates of a position in the order of one mode and with its signs, (d,)."""
    return mode.sign * position[mode.order]


def unordered(mode: Modes, coordinates: jax.Array) -> jax.Array:
    """The position of coordinates in the order of one mode, (d,)."""
    return jnp.zeros_like(coordinates).at[mode.order].set(mode.sign * coordinates)


def standardised(modes: Modes, position: jax.Array) -> jax.Array:
    """z of a position in each mode, (K, d)."""

    def in_mode(mode: Modes) -> jax.Array:
        return times(mode.inverse, ordered(mode, position) - mode.mean)

    return jax.vmap(in_mode)(modes)


def cell(modes: Modes, z: jax.Array) -> jax.Array:
    r"""The mode whose normal density is largest at a position: its cell.

    .. math:: \arg\min_k \tfrac12 |z_k|^2 + \log |L_k|

    Args:
        modes: the modes.
        z: the position in each mode, (K, d), as `standardised` has it.

    Returns:
        The number of the mode, ().

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.known_modes import cell, no_modes, standardised
        >>> modes = no_modes(2, 1, dense=False)
        >>> modes = modes._replace(known=jnp.array([True, True]), mean=jnp.array([[-3.0], [3.0]]))
        >>> int(cell(modes, standardised(modes, jnp.array([2.0]))))
        1
    """
    height = 0.5 * jnp.sum(z**2, -1) + modes.log_volume
    return jnp.argmin(jnp.where(modes.known, height, jnp.inf))


def image(key: jax.Array, modes: Modes, position: jax.Array) -> Map:
    r"""The image of a position in another mode, drawn by the shares of the others.

    .. math:: z = L_i^{-1} (s_i x_{o_i} - m_i), \qquad s_j y_{o_j} = m_j + L_j z

    with i the cell of x. The way back exists if y is in the cell of j. The determinant of the map
    is :math:`|L_j| / |L_i|`, and with shares q the way there is tried with probability
    :math:`q_j / (1 - q_i)`.

    Args:
        key: random key.
        modes: the modes; with fewer than two nothing returns.
        position: x, (d,).

    Returns:
        The `Map`.

    Source: Tjelmeland and Hegstad (2001), *Mode jumping proposals in MCMC*, for moves between modes
    that are known; Pompe, Holmes and Latuszynski (2020), *A framework for adaptive MCMC targeting
    multimodal distributions*, for affine maps between them.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.known_modes import image, no_modes
        >>> modes = no_modes(2, 1, dense=False)
        >>> modes = modes._replace(known=jnp.array([True, True]), mean=jnp.array([[-3.0], [3.0]]))
        >>> jump = image(jax.random.key(0), modes, jnp.array([-2.5]))
        >>> float(jump.position[0]), bool(jump.returns)
        (3.5, True)
    """
    z = standardised(modes, position)
    origin = cell(modes, z)
    slots = jnp.arange(modes.known.shape[0])
    log_share = jnp.where(modes.known, modes.log_share, -jnp.inf)

    def but(slot: jax.Array) -> jax.Array:
        return jnp.where(slots == slot, -jnp.inf, log_share)

    target = random.categorical(key, but(origin))
    log_there = log_share[target] - jax.nn.logsumexp(but(origin))
    log_back = log_share[origin] - jax.nn.logsumexp(but(target))
    of_target = jax.tree.map(lambda x: x[target], modes)
    there = unordered(of_target, of_target.mean + times(of_target.factor, z[origin]))
    returns = cell(modes, standardised(modes, there)) == target
    return Map(
        there,
        modes.log_volume[target] - modes.log_volume[origin] + log_back - log_there,
        origin,
        target,
        returns & (jnp.sum(modes.known) > 1),
    )
