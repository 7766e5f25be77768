"""Maps of a known mode to itself, as large as the mode, however small the steps are."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri

from numpyro_contour.core.samplers.known_modes import Map, Modes, cell, standardised, times

# Modes whose standard deviations differ by more need steps that differ by the square of it.
_ALIKE = 2.0


def of_unlike_widths(modes: Modes, sds: jax.Array) -> jax.Array:
    """Whether a step size that suits all modes is small for one of them.

    Copies whose coordinates are in another order are alike: they are compared in order of size.

    Args:
        modes: the modes.
        sds: the standard deviation of each coordinate in each mode, (K, d).

    Returns:
        A boolean, ().
    """
    ordered = jnp.sort(sds, -1)
    known = modes.known[:, None]
    widest = jnp.max(jnp.where(known, ordered, 0.0), 0)
    narrowest = jnp.min(jnp.where(known, ordered, jnp.inf), 0)
    return jnp.any(widest > _ALIKE * narrowest) & jnp.any(modes.known)


def moved_within(uniforms: jax.Array, modes: Modes, position: jax.Array) -> Map:
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
        position: x, (d,).

    Returns:
        The `Map`; its origin and target are the cell of x.

    Source: Hastings (1970), section 2.4, and Tierney (1994), section 2.3, for moves along
    directions of a group; Liu and Sabatti (2000) for changes of scale and their determinant.

    Example:
        >>> import jax.numpy as jnp
        >>> from numpyro_contour.core.samplers.known_modes import no_modes
        >>> from numpyro_contour.core.samplers.within_mode import moved_within
        >>> modes = no_modes(2, 1, dense=False)
        >>> modes = modes._replace(known=jnp.array([True, True]), mean=jnp.array([[-3.0], [3.0]]))
        >>> moved_within(jnp.array([0.5, 0.9]), modes, jnp.array([-2.5])).position.tolist()
        [-3.5]
    """
    size = position.shape[0]
    dtype = uniforms.dtype
    # Never 0, where the normal has no end.
    normals = ndtri(jnp.clip(uniforms, jnp.finfo(dtype).tiny, 1 - jnp.finfo(dtype).epsneg))
    log_scale, direction = normals[0] / size**0.5, normals[1:]
    each = standardised(modes, position)
    number = cell(modes, each)
    z = each[number]
    along = jnp.sum(direction * z) / jnp.maximum(jnp.sum(direction**2), jnp.finfo(dtype).tiny)
    reflected = jnp.exp(log_scale) * (z - 2 * along * direction)
    there = modes.mean[number] + times(modes.factor[number], reflected)
    here = jnp.arange(modes.known.shape[0]) == number
    returns = cell(modes, standardised(modes, there)) == number
    return Map(there, size * log_scale, here, here, returns & modes.known[number])
