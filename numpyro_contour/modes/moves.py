r"""Moves from one known mode to another: pure functions of a key, a position and the modes.

Each is a `Move` to a position that is tried. The density of x is kept if it is accepted with
probability :math:`\min(1, e^{U(x) - U(y)} f)` with f a factor that the move gives.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax, random

from numpyro_contour.modes.blocks import Flips
from numpyro_contour.modes.mode_shapes import (
    TAILS,
    ModeShapes,
    cell_of,
    drawn_t,
    log_densities,
    placed,
    standardised,
)

# Affine maps aim at a mode by this power of its mass, and not less than by a factor with this
# logarithm: chains have to come into small modes and out again.
_EVENNESS, _LEAST = 0.5, -5.0

#: names of the moves, in the order of their shares
MOVES = ("affine", "independent", "block")
_ANY = -1


class Move(NamedTuple):
    """A position that is tried."""

    #: y, (d,)
    position: jax.Array
    #: log of f, but for what is of y
    log_factor: Any
    #: the mode that y has to be in, so that the way back exists; -1 for any
    aim: Any


class Chance(NamedTuple):
    """What a try draws: one call of a random generator for all of it."""

    #: (3 + K + d + half of the largest of `TAILS`,), in (0, 1]
    uniforms: jax.Array
    #: K and d
    number: int
    size: int

    @classmethod
    def of(cls, key: jax.Array, modes: ModeShapes) -> Chance:
        """All that one try draws."""
        number, size = modes.mean.shape
        count = 3 + number + size + max(TAILS) // 2
        drawn = 1 - random.uniform(key, (count,), modes.mean.dtype)
        return cls(drawn, number, size)

    @property
    def of_test(self) -> jax.Array:
        """For the test of the move."""
        return self.uniforms[0]

    @property
    def of_kind(self) -> jax.Array:
        """For the kind of move."""
        return self.uniforms[1]

    @property
    def of_flip(self) -> jax.Array:
        """For the flip of a block."""
        return self.uniforms[2]

    @property
    def gumbels(self) -> jax.Array:
        """For a mode, (K,)."""
        u = self.uniforms[3 : 3 + self.number]
        return -jnp.log(-jnp.log(u * (1 - jnp.finfo(u.dtype).epsneg)))

    @property
    def normals(self) -> jax.Array:
        """For a place in a mode, (d,)."""
        u = self.uniforms[3 + self.number :][: self.size]
        return math.sqrt(2) * lax.erf_inv(2 * u - (1 + jnp.finfo(u.dtype).epsneg))

    @property
    def of_tail(self) -> jax.Array:
        """For the tail of its distribution, (half of the largest of `TAILS`,)."""
        return self.uniforms[3 + self.number + self.size :]


class Here(NamedTuple):
    """A position among the modes."""

    #: (d,)
    position: jax.Array
    #: its `log_densities`, (K,)
    log_densities: jax.Array
    #: the mode that it is in
    mode: jax.Array

    @classmethod
    def of(cls, modes: ModeShapes, position: jax.Array) -> Here:
        """Where a position is."""
        found = log_densities(modes, position)
        return cls(position, found, cell_of(found))


def affine(chance: Chance, modes: ModeShapes, here: Here) -> Move:
    r"""The same place in another mode.

    .. math:: y = m_j + F_j F_i^{-1} (x - m_i), \qquad
              f = \frac{|F_j|\, q_i / (1 - q_j)}{|F_i|\, q_j / (1 - q_i)}

    with i the mode of x, and j another one, drawn by shares q. The way back exists if y is in mode
    j.

    Source: Tjelmeland and Hegstad (2001), *Mode jumping proposals in MCMC*; Pompe, Holmes and
    Latuszynski (2020), *A framework for adaptive MCMC targeting multimodal distributions*.
    """
    log_share = jax.nn.log_softmax(
        jnp.maximum(_EVENNESS * (modes.log_mass - jnp.max(modes.log_mass)), _LEAST)
    )
    is_here = jnp.arange(modes.number) == here.mode
    aim = jnp.argmax(jnp.where(is_here, -jnp.inf, log_share + chance.gumbels))
    there = placed(modes, aim, standardised(modes, here.position)[here.mode])
    # Both the determinant and the shares of a way divide into what is of either mode.
    towards = modes.log_volume - log_share - jnp.log1p(-jnp.exp(log_share))
    log_factor = towards[aim] - towards[here.mode]
    return Move(there, log_factor, aim)


def independent(chance: Chance, modes: ModeShapes, here: Here) -> Move:
    r"""A draw from the mixture Q of the modes' t distributions, wherever x is.

    .. math:: y \sim Q = \sum_k p_k t_k, \qquad f = Q(x) / Q(y)

    Source: Tierney (1994), section 2.3.3, for independent proposals.
    """
    number = jnp.argmax(modes.log_mass + chance.gumbels)
    away = drawn_t(chance.of_tail, chance.normals, modes.tail[number])
    return Move(placed(modes, number, away), jax.nn.logsumexp(here.log_densities), _ANY)


def block(chance: Chance, flips: Flips, here: Here) -> Move:
    r"""One block of coordinates at another one of its places, all others as they are.

    .. math:: y_c = m_{2c} + \frac{s_{2c}}{s_{1c}} (x_c - m_{1c}), \qquad
              f = \prod_c s_{2c} / s_{1c}

    over the coordinates c of the block, with the place 1 the nearer one of two. The way back exists
    if y is nearer to place 2. All flips are drawn with the same probability.

    Source: ter Braak (2006) for moves along differences of positions, here of known modes.
    """
    number = flips.inside.shape[0]
    which = jnp.minimum((chance.of_flip * number).astype(jnp.int32), number - 1)
    inside, place, sd = (x[which] for x in flips)

    def distances(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.where(inside, ((x - place) / sd) ** 2, 0.0), -1)

    first = jnp.argmin(distances(here.position))
    second = 1 - first
    moved = place[second] + sd[second] / sd[first] * (here.position - place[first])
    there = jnp.where(inside, moved, here.position)
    log_factor = jnp.sum(jnp.where(inside, jnp.log(sd[second]) - jnp.log(sd[first]), 0.0))
    returns = jnp.argmin(distances(there)) == second
    return Move(there, jnp.where(returns, log_factor, -jnp.inf), _ANY)


def move(
    chance: Chance, log_share: jax.Array, modes: ModeShapes, flips: Flips, here: Here
) -> tuple[jax.Array, Here, jax.Array]:
    """Where one of the moves leads, drawn by their shares.

    Args:
        chance: what the try draws.
        log_share: log shares of the `MOVES`, (3,).
        modes: the modes.
        flips: flips of blocks; where there are none their share is 0.
        here: where the chain is.

    Returns:
        The number of the move; the position that is tried; and log f, minus infinity where the way
        back does not exist.
    """
    tried = [affine(chance, modes, here), independent(chance, modes, here)]
    if flips.inside.shape[0]:
        tried.append(block(chance, flips, here))
    below = jnp.cumsum(jnp.exp(log_share[: len(tried) - 1])) < chance.of_kind
    number = jnp.sum(below)
    position, log_factor, aim = jax.tree.map(lambda *each: jnp.stack(each)[number], *tried)
    there = Here.of(modes, position)
    of_draw = jnp.where(number == 1, jax.nn.logsumexp(there.log_densities), 0.0)
    returns = (aim == _ANY) | (there.mode == aim)
    return number, there, jnp.where(returns, log_factor - of_draw, -jnp.inf)
