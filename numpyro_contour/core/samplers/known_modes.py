"""Modes that are known: a place and a shape of each, and affine maps between them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Modes(NamedTuple):
    r"""Modes in K slots, each with coordinates z in which it is about a standard normal.

    .. math:: x = m + F z

    Modes that are copies of each other, as the labels of exchangeable components make them, have
    the same F but for the order and the signs of its rows.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.known_modes import Modes
        >>> two = jnp.ones((2, 1))
        >>> modes = Modes(known=jnp.array([True, True]), mean=jnp.array([[-3.0], [3.0]]),
        ...               factor=two, inverse=two, log_volume=jnp.zeros(2), log_share=jnp.zeros(2))
        >>> modes.mean.shape
        (2, 1)
    """

    #: whether a slot holds a mode, (K,)
    known: jax.Array
    #: m, where the mode is, (K, d)
    mean: jax.Array
    #: F, (K, d, d), or the diagonal of diagonal ones, (K, d)
    factor: jax.Array
    #: the inverse of F, in the same form
    inverse: jax.Array
    #: log of the size of the determinant of F, (K,)
    log_volume: jax.Array
    #: log of the share of tries to jump that aim at the mode, not normalised, (K,)
    log_share: jax.Array


class Map(NamedTuple):
    """The image of a position in another mode."""

    #: the image, (d,)
    position: jax.Array
    #: log of what the density ratio is multiplied by, the determinant of the map times how much
    #: more likely the way back is to be tried than the way there
    log_factor: jax.Array
    #: which mode's cell the position is in, True in one slot, (K,)
    origin: jax.Array
    #: which mode the image belongs to, True in one slot, (K,)
    target: jax.Array
    #: whether the image is in the cell of the target, so that the way back exists
    returns: jax.Array


def no_modes(slots: int, size: int, dense: bool) -> Modes:
    r"""Slots without modes, each a standard normal.

    .. math:: m = 0, \qquad F = 1

    Args:
        slots: K, at least 1.
        size: d, the number of coordinates.
        dense: whether F is a matrix; else it is diagonal.

    Returns:
        The `Modes`.

    Source: Pompe, Holmes and Latuszynski (2020), section 2, for the list of modes that it begins.

    Example:
        >>> from numpyro_contour.core.samplers.known_modes import no_modes
        >>> no_modes(4, 2, dense=True).factor.shape
        (4, 2, 2)
    """
    # By NumPy: each operation of JAX's would be compiled by itself.
    dtype = jnp.result_type(float)
    one = np.eye(size, dtype=dtype) if dense else np.ones((size,), dtype)
    factor = jnp.asarray(np.broadcast_to(one, (slots, *one.shape)))
    known, none = jnp.asarray(np.zeros((slots,), bool)), jnp.asarray(np.zeros((slots,), dtype))
    mean = jnp.asarray(np.zeros((slots, size), dtype))
    return Modes(known, mean, factor, factor, none, none)


def times(factors: jax.Array, vectors: jax.Array) -> jax.Array:
    """Factors, matrices or diagonals, times vectors, (..., d)."""
    if factors.ndim == vectors.ndim:
        return factors * vectors
    return jnp.einsum("...ij,...j->...i", factors, vectors)


def standardised(modes: Modes, position: jax.Array) -> jax.Array:
    """Z of a position in each mode, (K, d)."""
    return times(modes.inverse, position - modes.mean)


def cell(modes: Modes, z: jax.Array) -> jax.Array:
    r"""The mode whose normal density is largest at a position: its cell.

    .. math:: \arg\min_k \tfrac12 |z_k|^2 + \log |F_k|

    Args:
        modes: the modes.
        z: the position in each mode, (K, d), as `standardised` has it.

    Returns:
        The number of the mode, ().

    Source: Pompe, Holmes and Latuszynski (2020), for regions that belong to modes.

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


def image(uniforms: jax.Array, modes: Modes, position: jax.Array) -> Map:
    r"""The image of a position in another mode, drawn by the shares of the others.

    .. math:: z = F_i^{-1} (x - m_i), \qquad y = m_j + F_j z

    with i the cell of x. The way back exists if y is in the cell of j. The determinant of the map
    is :math:`|F_j| / |F_i|`, and with shares q the way there is tried with probability
    :math:`q_j / (1 - q_i)`.

    Args:
        uniforms: numbers between 0 and 1 that draw the target, (K,).
        modes: the modes; with fewer than two nothing returns.
        position: x, (d,).

    Returns:
        The `Map`.

    Source: Tjelmeland and Hegstad (2001), *Mode jumping proposals in MCMC*, for moves between modes
    that are known; Pompe, Holmes and Latuszynski (2020), *A framework for adaptive MCMC targeting
    multimodal distributions*, for affine maps between them.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.known_modes import image, no_modes
        >>> modes = no_modes(2, 1, dense=False)
        >>> modes = modes._replace(known=jnp.array([True, True]), mean=jnp.array([[-3.0], [3.0]]))
        >>> jump = image(jnp.array([0.2, 0.7]), modes, jnp.array([-2.5]))
        >>> float(jump.position[0]), bool(jump.returns)
        (3.5, True)
    """
    slots = jnp.arange(modes.known.shape[0])
    z = standardised(modes, position)
    number = cell(modes, z)
    origin = slots == number
    # The largest of log shares with Gumbel noise is drawn by the shares.
    log_share = jnp.where(modes.known, modes.log_share, -jnp.inf)
    gumbel = -jnp.log(-jnp.log(jnp.maximum(uniforms, jnp.finfo(uniforms.dtype).tiny)))
    aim = jnp.argmax(jnp.where(origin, -jnp.inf, log_share + gumbel))
    target = slots == aim
    there = modes.mean[aim] + times(modes.factor[aim], z[number])
    returns = cell(modes, standardised(modes, there)) == aim

    def log_others(slot: jax.Array) -> jax.Array:
        """Log of the share of all others."""
        return jax.nn.logsumexp(jnp.where(slot, -jnp.inf, log_share))

    # log (q_i / (1 - q_j)) less log (q_j / (1 - q_i)), and the determinant.
    towards = modes.log_volume - log_share
    log_factor = towards[aim] - towards[number] + log_others(origin) - log_others(target)
    return Map(there, log_factor, origin, target, returns & (jnp.sum(modes.known) > 1))
