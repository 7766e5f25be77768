"""Modes that are copies of one another, by an order and signs of coordinates.

The posterior has such a symmetry then, as where components of a mixture have no order, and other
modes have copies too.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import random

from numpyro_contour.core.samplers.known_modes import Modes, standardised

#: How far the coordinates of a copy may be from those of a mode, in its standard deviations.
SAME = 0.2
#: Bottoms nearer than this, in standard deviations of either mode, are those of one mode: two
#: normals have two modes only where they are two apart.
APART = 2.0
# How often a descent begins there: from where chains are it may find modes that have no copies.
_OFTEN = 0.5


def next_to(modes: Modes, mean: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The coordinates of a place as those of a copy of each mode.

    Args:
        modes: the modes that are known, in K slots.
        mean: the place, (d,).

    Returns:
        Which of the place's coordinates is next to each coordinate of a mode in size, (K, d); the
        sign that it takes there, (K, d); and the largest distance that is left, in the mode's
        standard deviations, (K,).
    """
    sizes = jnp.argsort(jnp.abs(jnp.concatenate([modes.mean, mean[None]])))
    rank = jnp.argsort(sizes[:-1])
    orders = sizes[-1][rank]
    there = mean[orders]
    signs = jnp.where(modes.mean * there < 0, -1.0, 1.0).astype(there.dtype)
    dense = modes.factor.ndim == 3
    sds = jnp.sqrt(jnp.sum(modes.factor**2, -1)) if dense else jnp.abs(modes.factor)
    return orders, signs, jnp.max(jnp.abs(signs * there - modes.mean) / sds, -1)


def further_copy(key: jax.Array, modes: Modes, place: jax.Array) -> jax.Array:
    r"""Where a further copy of a mode may be, from which a descent is to begin.

    .. math:: x' = P m_k, \quad P m_j = m_i

    Here P is a signed permutation, modes i and j are copies drawn at random, and k is a mode whose
    image is in none that is known.

    Args:
        key: random key.
        modes: the modes that are known, in K slots.
        place: what is returned where there is no such image, and else in half of all cases, (d,).
    """
    of_first, of_second, of_image, of_moving = random.split(key, 4)

    def any_of(key: jax.Array, which: jax.Array) -> jax.Array:
        return random.categorical(key, jnp.where(which, 0.0, -jnp.inf))

    first = any_of(of_first, modes.known)
    orders, signs, away = next_to(modes, modes.mean[first])
    copies = modes.known & (away < SAME) & (jnp.arange(away.size) != first)
    second = any_of(of_second, copies)
    moved = signs[second] * modes.mean
    images = jnp.zeros_like(moved).at[:, orders[second]].set(moved)
    squares = jnp.sum(jax.vmap(partial(standardised, modes))(images) ** 2, -1)
    far = jnp.where(modes.known, squares, jnp.inf).min(1) > APART**2
    further = modes.known & far & jnp.any(copies)
    moves = jnp.any(further) & (random.uniform(of_moving) < _OFTEN)
    return jnp.where(moves, images[any_of(of_image, further)], place)
