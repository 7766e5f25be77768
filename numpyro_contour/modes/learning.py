"""What draws teach of the modes in the warm-up, and what is made of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from numpyro_contour.core.arrays.factors import LowRank, displacement, eigh, inverse
from numpyro_contour.modes.mode_shapes import (
    TAILS,
    ModeShapes,
    log_t,
    standardised,
)
from numpyro_contour.modes.tries import Plan, TryLessons, no_tries

# A chain is to change its mode in a draw with this probability, if that can be had.
_CHANGES = 0.5
# The least share of a move that might be of use.
_LEAST_SHARE = 0.1
# The share of the draws that count as independent; fewer than this number teach nothing.
_INDEPENDENT, _FEWEST = 0.5, 10.0
# Where modes are combinations, draws that are farther out than this, in squared standard deviations
# for each coordinate and at all, are of another one that is not known.
_FAR_A_COORDINATE, _FAR = 4.0, 20.0
_LEAST_VARIANCE = 1e-4
# The number of draws that masses from a search count as.
_DRAWS_OF_MASSES = 50.0


class DrawLessons(NamedTuple):
    """What draws have taught of the modes that they were in."""

    #: gradients of the chains' own moves, and the draws that they made
    gradients: jax.Array
    draws: jax.Array
    #: draws in each mode, and those of them that are near enough to teach its shape, (K,)
    visits: jax.Array
    learnt: jax.Array
    #: their sums of F^-1 (x - m), (K, d), and of its squares, (K, d, d) or (K, d)
    first: jax.Array
    second: jax.Array
    #: and of the log densities by t distributions of each of `TAILS`, (K, 4)
    fits: jax.Array


class Lessons(NamedTuple):
    """What the warm-up has taught since the last change of the plan."""

    of_tries: TryLessons
    of_draws: DrawLessons


def no_lessons(modes: ModeShapes) -> Lessons:
    """Before the first draw."""
    number, size = modes.mean.shape
    second = (number, size) if isinstance(modes.factor, LowRank) else (number, size, size)
    shapes = (), (), (number,), (number,), (number, size), second, (number, len(TAILS))
    dtype = modes.mean.dtype
    zeros: Any = (np.zeros(shape, dtype) for shape in shapes)
    blank = DrawLessons(*zeros)
    return Lessons(no_tries(dtype), blank)


def with_draws(
    lessons: Lessons,
    plan: Plan,
    positions: jax.Array,
    numbers: jax.Array,
    gradients: jax.Array,
    of_tries: TryLessons,
) -> Lessons:
    """The lessons with those of a draw of each chain.

    Args:
        lessons: those so far.
        plan: how chains try to jump.
        positions: where the chains are, (chains, d).
        numbers: the modes that they are in, (chains,).
        gradients: those that their draws took, (chains,).
        of_tries: what their tries teach, (chains, ...).
    """
    each = jax.vmap(lambda x, k: standardised(plan.modes, x)[k])
    z = each(positions, numbers)
    squares = jnp.sum(z**2, -1)
    near = jnp.ones_like(squares)
    if plan.flips.inside.shape[0]:
        near = 1.0 * (squares < _FAR_A_COORDINATE * z.shape[-1] + _FAR)
    z *= near[:, None]
    dense = lessons.of_draws.second.ndim == 3
    products = z[:, :, None] * z[:, None, :] if dense else z**2
    fits = log_t(squares[:, None], np.arange(len(TAILS)), z.shape[-1]) * near[:, None]
    old = lessons.of_draws
    of_draws = DrawLessons(
        old.gradients + jnp.sum(gradients),
        old.draws + len(z),
        old.visits.at[numbers].add(1),
        old.learnt.at[numbers].add(near),
        old.first.at[numbers].add(z),
        old.second.at[numbers].add(products),
        old.fits.at[numbers].add(fits),
    )
    more = jax.tree.map(lambda a, b: a + jnp.sum(b, 0), lessons.of_tries, of_tries)
    return Lessons(more, of_draws)


def learnt(plan: Plan, lessons: Lessons, finds_tries: bool) -> Plan:
    """The plan after a part of the warm-up.

    Args:
        plan: the plan so far.
        lessons: those of this part, of all chains that run together.
        finds_tries: whether the number of tries is found; else it stays.
    """
    draws, of_tries = lessons.of_draws, lessons.of_tries
    modes = _improved(plan.modes, draws)
    gain = of_tries.gain / jnp.maximum(of_tries.tries, 1.0)
    share = gain / jnp.maximum(jnp.sum(gain), jnp.finfo(gain.dtype).tiny)
    share = jnp.where(jnp.isfinite(plan.log_share), jnp.maximum(share, _LEAST_SHARE), 0.0)
    known = jnp.sum(gain) > 0
    log_share = jnp.where(known, jnp.log(share / jnp.sum(share)), plan.log_share)
    tries = plan.tries
    if finds_tries:
        chance = of_tries.changes / jnp.maximum(jnp.sum(of_tries.tries), 1.0)
        affordable = draws.gradients / jnp.maximum(draws.draws, 1.0)
        wanted = _CHANGES / jnp.maximum(chance, 1e-6)
        tries = jnp.ceil(jnp.minimum(wanted, affordable)).astype(plan.tries.dtype)
        tries = jnp.maximum(tries, 1)
    return plan._replace(modes=modes, log_share=log_share, tries=tries)


def _improved(modes: ModeShapes, lessons: DrawLessons) -> ModeShapes:
    """The modes with means, covariances, tails and masses also by the draws in each."""
    number = jnp.maximum(lessons.learnt, 1.0)[:, None]
    middle = lessons.first / number
    second = lessons.second / number.reshape(-1, *[1] * (lessons.second.ndim - 1))
    number = _INDEPENDENT * number[:, 0]
    back: Any
    factor: Any
    if isinstance(modes.factor, LowRank):
        variance = second - middle**2
        kept = _shrinkage(2 * jnp.sum(variance**2, -1), jnp.sum((variance - 1) ** 2, -1), number)
        variance = 1 + (1 - kept)[:, None] * (variance - 1)
        roots = jnp.sqrt(jnp.maximum(variance, _LEAST_VARIANCE))
        factor = modes.factor._replace(scales=modes.factor.scales * roots)
        back = modes.back._replace(scales=modes.back.scales / roots)
        in_sds = middle / roots
    else:
        covariance = second - middle[:, :, None] * middle[:, None, :]
        eye = jnp.eye(middle.shape[-1], dtype=middle.dtype)
        total = jnp.trace(covariance, axis1=1, axis2=2)
        noise = total**2 + jnp.sum(covariance**2, (1, 2))
        kept = _shrinkage(noise, jnp.sum((covariance - eye) ** 2, (1, 2)), number)
        covariance = eye + (1 - kept)[:, None, None] * (covariance - eye)
        values, vectors = lax.map(eigh, covariance)
        roots = jnp.sqrt(jnp.maximum(values, _LEAST_VARIANCE))
        scaled = vectors * roots[:, None]
        factor = modes.factor @ (scaled @ vectors.swapaxes(1, 2))
        back = modes.back @ ((vectors / roots[:, None]) @ vectors.swapaxes(1, 2))
        in_sds = jnp.einsum("kji,kj->ki", vectors, middle) / roots
    size = float(middle.shape[-1])
    middle *= (1 - _shrinkage(size, jnp.sum(in_sds**2, -1), number))[:, None]
    before = jnp.exp(modes.log_mass)
    mass = (lessons.visits + _DRAWS_OF_MASSES * before) / (
        jnp.sum(lessons.visits) + _DRAWS_OF_MASSES
    )
    enough = number > _FEWEST
    tail = jnp.argmax(lessons.fits, -1).astype(modes.tail.dtype)
    return ModeShapes(
        modes.mean + jax.vmap(displacement)(modes.factor, middle),
        factor,
        back,
        modes.log_volume + jnp.sum(jnp.log(roots), -1),
        jnp.where(enough, tail, modes.tail),
        jnp.log(mass),
    )


def _shrinkage(variance: Any, square: jax.Array, number: jax.Array) -> jax.Array:
    r"""How much of what was known is kept, from 0 to 1, (K,).

    .. math:: \min(1, v / (n s))

    Args:
        variance: v, that of an estimate from one draw.
        square: s, the squared distance of the estimate from what was known.
        number: independent draws n.

    Source: Ledoit and Wolf (2004), *A well-conditioned estimator for large-dimensional covariance
    matrices*.
    """
    found = variance / (number * jnp.maximum(square, jnp.finfo(square.dtype).tiny))
    return jnp.where(number > _FEWEST, jnp.minimum(found, 1.0), 1.0)


def pooled_covariance(modes: ModeShapes, dense: bool, places: np.ndarray) -> Any:
    r"""The covariance within modes that suits all of them, for a mass matrix.

    .. math:: \Bigl(\sum_k p_k (F_k F_k^\top)^{-1}\Bigr)^{-1}

    with p the masses of the modes: steps that suit it are not too long for any.

    Args:
        modes: the modes; of NumPy's arrays NumPy makes it.
        dense: whether all of it is asked for, or its diagonal, by the variances alone.
        places: the numbers of the coordinates, (d,).
    """
    on_host = isinstance(modes.mean, np.ndarray)
    xp: Any = np if on_host else jnp
    mass = xp.exp(modes.log_mass)
    if not dense:
        return 1 / (mass @ (1 / modes.sds[:, places] ** 2))
    roots = modes.roots[:, places]
    within = roots @ roots.swapaxes(1, 2)
    precisions = np.linalg.inv(within) if on_host else lax.map(inverse, within)
    pooled = xp.einsum("k,kij->ij", mass, precisions)
    return np.linalg.inv(pooled) if on_host else inverse(pooled)
