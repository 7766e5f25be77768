"""Modes that are known, and maps between them and within them.

Affine maps lead from one mode to another, others take one coordinate there and leave the rest
alone. A move within a mode is as large as the mode, however small the steps are.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri


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


class Place(NamedTuple):
    """Where a chain is among the modes."""

    #: the position, (d,)
    position: jax.Array
    #: the same standardised in each mode, (K, d)
    z: jax.Array
    #: the mode in whose cell it is
    number: jax.Array


class Way(NamedTuple):
    """A way from a position to its image, before it is known in whose cell that is."""

    #: the image, (d,)
    position: jax.Array
    #: as of a `Map`
    log_factor: jax.Array
    #: the mode in whose cell the image has to be, -1 for any
    aim: jax.Array
    #: what else has to be for the way back to exist
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


def place_of(modes: Modes, position: jax.Array) -> Place:
    """The place of a position, (d,), among the modes."""
    z = standardised(modes, position)
    return Place(position, z, cell(modes, z))


def taken(modes: Modes, place: Place, way: Way) -> Map:
    """The map that a way from a place is, with the cell of the image.

    Args:
        modes: the modes.
        place: where it begins.
        way: the way, by `image`, `moved_coordinate` or `moved_within`.
    """
    slots = jnp.arange(modes.known.shape[0])
    found = place_of(modes, way.position).number
    target = jnp.where(way.aim < 0, found, way.aim)
    returns = way.returns & (found == target)
    return Map(way.position, way.log_factor, slots == place.number, slots == target, returns)


def image(uniforms: jax.Array, modes: Modes, place: Place) -> Way:
    r"""The image of a position in another mode, drawn by the shares of the others.

    .. math:: z = F_i^{-1} (x - m_i), \qquad y = m_j + F_j z

    with i the cell of x. The way back exists if y is in the cell of j. The determinant of the map
    is :math:`|F_j| / |F_i|`, and with shares q the way there is tried with probability
    :math:`q_j / (1 - q_i)`.

    Args:
        uniforms: numbers between 0 and 1 that draw the target, (K,).
        modes: the modes; with fewer than two nothing returns.
        place: x among them.

    Returns:
        The `Way`.

    Source: Tjelmeland and Hegstad (2001), *Mode jumping proposals in MCMC*, for moves between modes
    that are known; Pompe, Holmes and Latuszynski (2020), *A framework for adaptive MCMC targeting
    multimodal distributions*, for affine maps between them.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.known_modes import image, no_modes, place_of, taken
        >>> modes = no_modes(2, 1, dense=False)
        >>> modes = modes._replace(known=jnp.array([True, True]), mean=jnp.array([[-3.0], [3.0]]))
        >>> place = place_of(modes, jnp.array([-2.5]))
        >>> jump = taken(modes, place, image(jnp.array([0.2, 0.7]), modes, place))
        >>> float(jump.position[0]), bool(jump.returns)
        (3.5, True)
    """
    slots, number = jnp.arange(modes.known.shape[0]), place.number
    origin = slots == number
    # The largest of log shares with Gumbel noise is drawn by the shares.
    log_share = jnp.where(modes.known, modes.log_share, -jnp.inf)
    gumbel = -jnp.log(-jnp.log(jnp.maximum(uniforms, jnp.finfo(uniforms.dtype).tiny)))
    aim = jnp.argmax(jnp.where(origin, -jnp.inf, log_share + gumbel))
    target = slots == aim
    there = modes.mean[aim] + times(modes.factor[aim], place.z[number])

    def log_others(slot: jax.Array) -> jax.Array:
        """Log of the share of all others."""
        return jax.nn.logsumexp(jnp.where(slot, -jnp.inf, log_share))

    # log (q_i / (1 - q_j)) less log (q_j / (1 - q_i)), and the determinant.
    towards = modes.log_volume - log_share
    log_factor = towards[aim] - towards[number] + log_others(origin) - log_others(target)
    return Way(there, log_factor, aim, jnp.sum(modes.known) > 1)


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


def moved_coordinate(uniforms: jax.Array, modes: Modes, of_all: Sides, place: Place) -> Way:
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
        place: x among them.

    Returns:
        The `Way`, to the cell of any mode.

    Source: ter Braak (2006) for moves along differences of positions, here of known modes;
    Tjelmeland and Hegstad (2001) for the determinant.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.known_modes import no_modes, place_of
        >>> from numpyro_contour.core.samplers.known_modes import moved_coordinate, sides
        >>> corners = jnp.array([[-3.0, -3.0], [3.0, -3.0], [-3.0, 3.0], [3.0, 3.0]])
        >>> modes = no_modes(4, 2, dense=False)
        >>> modes = modes._replace(known=jnp.ones(4, bool), mean=corners)
        >>> uniforms = jnp.array([0.9, 0.8, 0.1, 0.1, 0.6, 0.5])
        >>> place = place_of(modes, jnp.array([-2.5, 3.0]))
        >>> moved_coordinate(uniforms, modes, sides(modes), place).position.tolist()
        [3.5, 3.0]
    """
    slots, position = modes.known.shape[0], place.position
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
    log_factor = jnp.log(s[target]) - jnp.log(s[origin])
    return Way(there, log_factor, jnp.array(-1), returns & (jnp.sum(modes.known) >= LEAST_MODES))


# Modes whose standard deviations differ by more need steps that differ by the square of it.
_ALIKE = 2.0


def of_unlike_widths(modes: Modes, sds: jax.Array) -> jax.Array:
    """Whether a step size that suits all modes is small for one of them.

    The largest, the smallest and the geometric mean over coordinates are compared, which are equal
    in copies whose coordinates are in another order.

    Args:
        modes: the modes.
        sds: the standard deviation of each coordinate in each mode, (K, d).

    Returns:
        A boolean, ().
    """
    mean = jnp.exp(jnp.mean(jnp.log(sds), -1))
    of_all = jnp.stack([jnp.max(sds, -1), jnp.min(sds, -1), mean])
    widest = jnp.max(jnp.where(modes.known, of_all, 0.0), -1)
    narrowest = jnp.min(jnp.where(modes.known, of_all, jnp.inf), -1)
    return jnp.any(widest > _ALIKE * narrowest) & jnp.any(modes.known)


def moved_within(uniforms: jax.Array, modes: Modes, place: Place) -> Way:
    r"""The image of a position in its own mode: a reflection and a change of the radius.

    .. math:: z = F_i^{-1} (x - m_i), \qquad y = m_i + F_i\, e^s (z - 2 u\, u^\top z)

    with i the cell of x, u a direction that is uniform on the sphere and s normal with variance
    1 / d. The determinant of the map is :math:`e^{ds}`. The way back has the same u and the
    negative s, which are drawn as often, and exists if y is in the cell of i. In two dimensions
    the image has any direction; in many it moves by about two standard deviations. The step size
    is that of the narrowest mode, and wide ones are crossed by such moves.

    Args:
        uniforms: numbers between 0 and 1 that draw s and u, (1 + d,).
        modes: the modes; with none nothing returns.
        place: x among them.

    Returns:
        The `Way`, to the cell of x.

    Source: Hastings (1970), section 2.4, and Tierney (1994), section 2.3, for moves along
    directions of a group; Liu and Sabatti (2000) for changes of scale and their determinant.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.known_modes import no_modes, place_of
        >>> from numpyro_contour.core.samplers.known_modes import moved_within
        >>> modes = no_modes(2, 1, dense=False)
        >>> modes = modes._replace(known=jnp.array([True, True]), mean=jnp.array([[-3.0], [3.0]]))
        >>> place = place_of(modes, jnp.array([-2.5]))
        >>> moved_within(jnp.array([0.5, 0.9]), modes, place).position.tolist()
        [-3.5]
    """
    size, number = place.position.shape[0], place.number
    dtype = uniforms.dtype
    # Never 0, where the normal has no end.
    normals = ndtri(jnp.clip(uniforms, jnp.finfo(dtype).tiny, 1 - jnp.finfo(dtype).epsneg))
    log_scale, direction = normals[0] / size**0.5, normals[1:]
    z = place.z[number]
    along = jnp.sum(direction * z) / jnp.maximum(jnp.sum(direction**2), jnp.finfo(dtype).tiny)
    reflected = jnp.exp(log_scale) * (z - 2 * along * direction)
    there = modes.mean[number] + times(modes.factor[number], reflected)
    return Way(there, size * log_scale, number, modes.known[number])
