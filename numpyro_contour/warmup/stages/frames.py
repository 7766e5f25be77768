"""The coordinates in which a chain is tuned, where its preconditioner is dense or of low rank.

They are z with x = x_0 + L z. Everything that is tuned by coordinate, the diagonal preconditioner
and the noise of the gradient among them, belongs to these coordinates. Without a frame they are
those of the position.

Steps of a stage that are kept whole, evenly spaced, take memory in proportion to the dimension, in
which all second moments would take its square.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from numpyro_contour.core.arrays.factors import LowRank, displacement, inverse_transposed, slope
from numpyro_contour.warmup.stages.moments import Moments


class Products(NamedTuple):
    """The second moments in a frame over the steps of a stage."""

    #: sums of the products of deviations from the mean, of z and of the gradient, (d, d) each
    places: jax.Array
    gradients: jax.Array
    #: summed products of the gradient's noise between minibatches, (d, d)
    noise: jax.Array


class Frame(NamedTuple):
    """The coordinates z of one chain, and what is kept of the steps of a stage to renew them."""

    #: L, (d, d) or of low rank
    factor: jax.Array | LowRank
    #: x_0, (d,)
    origin: jax.Array
    #: z where the chain is, (d,): summed from its moves, so that L is never inverted; without
    #: meaning before L was renewed, when z is the position
    place: jax.Array
    #: what is kept of the steps: rows where L is of low rank; () once the warm-up is over
    seen: Products | Rows
    #: what all steps say of the directions of L, as `with_sweep` sums it, (d, r) where L is of low
    #: rank
    swept: jax.Array | tuple[()]
    #: the condition number that a diagonal has to leave for L to be renewed first
    turns_from: jax.Array
    #: whether it was renewed
    turned: jax.Array

    def at(self, position: jax.Array) -> jax.Array:
        """Where the chain is in these coordinates, (d,)."""
        return jnp.where(self.turned, self.place, position)


def first_frame(position: jax.Array, turns_from: float = 0.0, rank: int | None = None) -> Frame:
    """The coordinates of the position itself.

    Args:
        position: where the chain starts, (d,).
        turns_from: the condition number that a diagonal preconditioner has to leave for another one
            to be taken. Defaults to 0, for any.
        rank: the most directions in which L may differ from a diagonal. Defaults to None, for a
            dense L.
    """
    size, dtype = position.shape[0], position.dtype
    factor: jax.Array | LowRank
    seen: Products | Rows
    swept: jax.Array | tuple[()] = ()
    if rank is None:
        factor, seen = jnp.eye(size, dtype=dtype), _no_products(position)
    else:
        rank = min(rank, size)
        factor = LowRank(
            jnp.ones_like(position), jnp.zeros((size, rank), dtype), jnp.ones((rank,), dtype)
        )
        seen, swept = no_rows(position), jnp.zeros((size, rank), dtype)
    least, origin = jnp.asarray(turns_from, dtype), jnp.zeros_like(position)
    return Frame(factor, origin, position, seen, swept, least, jnp.zeros((), bool))


def with_products(
    seen: Products,
    place: jax.Array,
    before: Moments,
    after: Moments,
    gradient: jax.Array,
    noise: jax.Array | None,
) -> Products:
    """The second moments after one more step.

    Args:
        seen: the second moments.
        place: z where the step begins, (d,).
        before: the moments before the step, in the frame.
        after: the moments after it.
        gradient: the gradient in the frame, (d,).
        noise: the difference between it and the gradient of another minibatch, None where
            gradients are exact.
    """
    places = jnp.outer(place - before.position, place - after.position)
    gradients = jnp.outer(gradient - before.gradient, gradient - after.gradient)
    seen = seen._replace(places=seen.places + places, gradients=seen.gradients + gradients)
    if noise is None:
        return seen
    # As for the moments: the first gradient may be that of another estimator.
    new = jnp.where(before.steps == 0, 0.0, 0.5 * jnp.outer(noise, noise))
    return seen._replace(noise=seen.noise + new)


def with_sweep(
    swept: jax.Array,
    factor: LowRank,
    curvature: jax.Array,
    place: jax.Array,
    moments: Moments,
    gradient: jax.Array,
) -> jax.Array:
    r"""The sums by which a stage improves the directions of L, after one more step.

    .. math:: \sum_t r_t\, (r_t^\top U), \qquad r = D g - p D^{-1} x

    With n steps or rows directions are off by the root of d / n over that of their condition
    number, and this is one block power iteration over all steps, for O(d r) each. r is what the
    gradient has beyond that of a Gaussian without directions: along a stiff direction that is the
    gradient itself, along a slack one the position, and across both nothing but noise. So the
    positions of a chain may be correlated by chance, as those of a few hundred steps are.

    Args:
        swept: the sums, (d, r).
        factor: L.
        curvature: p, the curvature in the frame.
        place: z where the step begins, (d,).
        moments: the moments in the frame before the step.
        gradient: the gradient in the frame, (d,).
    """
    slopes, moved = gradient - moments.gradient, place - moments.position
    along = jnp.stack([slopes, moved]) @ factor.directions
    # L' and the inverse of L are undone along the directions, D is left.
    beyond = along[0] / factor.stretches - curvature * factor.stretches * along[1]
    more = beyond - along[0] + curvature * along[1]
    rest = slopes - curvature * moved + factor.directions @ more
    # Products of deviations from the means before and after the step.
    weight = moments.steps / (moments.steps + 1)
    return swept + jnp.outer(rest, weight * beyond)


def with_gradients_scaled(frame: Frame, scale: jax.Array) -> Frame:
    """The frame as if the gradients of the stage had been so many times as large in z.

    Not its sweep, which has to say where directions lie and not how stiff they are.

    Args:
        frame: the frame.
        scale: the factor for each coordinate of z, (d,).
    """
    if isinstance(frame.seen, Products):
        gradients = frame.seen.gradients * jnp.outer(scale, scale)
    else:
        back = inverse_transposed(frame.factor)
        scaled = lambda gradient: displacement(back, scale * slope(frame.factor, gradient))
        gradients = jax.vmap(scaled)(frame.seen.gradients)
    return frame._replace(seen=frame.seen._replace(gradients=gradients))


def unseen(frame: Frame) -> Frame:
    """The frame at the start of a stage."""
    seen, swept = jax.tree.map(jnp.zeros_like, (frame.seen, frame.swept))
    return frame._replace(seen=seen, swept=swept)


def _no_products(position: jax.Array) -> Products:
    zeros = jnp.zeros((position.shape[0],) * 2, position.dtype)
    return Products(zeros, zeros, zeros)


#: steps that are kept of a stage
ROWS = 256


class Rows(NamedTuple):
    """Steps of a stage; a row of zeros where none was kept."""

    #: positions and gradients there, (rows, d)
    places: jax.Array
    gradients: jax.Array
    #: differences to the gradient of another minibatch there, over the root of 2, (rows, d)
    noise: jax.Array


def no_rows(position: jax.Array) -> Rows:
    """Rows of a stage that has not begun."""
    zeros = jnp.zeros((ROWS, *position.shape), position.dtype)
    return Rows(zeros, zeros, zeros)


def with_row(
    rows: Rows,
    progress: jax.Array,
    place: jax.Array,
    gradient: jax.Array,
    difference: jax.Array | None,
    counts: jax.Array,
) -> Rows:
    """The rows with one more step, which takes the place of those just before it.

    Args:
        rows: the rows.
        progress: share of the stage that is done.
        place: the position, (d,).
        gradient: the gradient there, (d,).
        difference: between it and the gradient of another minibatch there, None where gradients
            are exact.
        counts: whether the step says anything; else the row is left empty.
    """
    number = jnp.clip((progress * ROWS).astype(jnp.int32), 0, ROWS - 1)

    def put(old: jax.Array, new: jax.Array) -> jax.Array:
        return lax.dynamic_update_index_in_dim(old, jnp.where(counts, new, 0.0), number, 0)

    noise = rows.noise if difference is None else put(rows.noise, difference / 2**0.5)
    return Rows(put(rows.places, place), put(rows.gradients, gradient), noise)
