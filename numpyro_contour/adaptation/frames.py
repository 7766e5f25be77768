"""The coordinates in which a chain is tuned, where its preconditioner is dense.

They are z with x = x_0 + L z. Everything that is tuned by coordinate, the diagonal preconditioner
and the noise of the gradient among them, belongs to these coordinates. Without a frame they are
those of the position.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from numpyro_contour.adaptation.moments import Moments


class Frame(NamedTuple):
    """The coordinates z of one chain, and the second moments there over the steps of a stage."""

    #: L, (d, d)
    factor: jax.Array
    #: x_0, (d,)
    origin: jax.Array
    #: z where the chain is, (d,): summed from its moves, so that L is never inverted; without
    #: meaning before L was renewed, when z is the position
    place: jax.Array
    #: sums of the products of deviations from the mean, of z and of the gradient, (d, d) each
    places: jax.Array
    gradients: jax.Array
    #: summed products of the gradient's noise between minibatches, (d, d)
    noise: jax.Array
    #: the condition number that a diagonal has to leave for L to be renewed first
    turns_from: jax.Array
    #: whether it was renewed
    turned: jax.Array

    def at(self, position: jax.Array) -> jax.Array:
        """Where the chain is in these coordinates, (d,)."""
        return jnp.where(self.turned, self.place, position)


def first_frame(position: jax.Array, turns_from: float = 0.0) -> Frame:
    """The coordinates of the position itself.

    Args:
        position: where the chain starts, (d,).
        turns_from: the condition number that a diagonal preconditioner has to leave for another one
            to be taken. Defaults to 0, for any.
    """
    size = position.shape[0]
    zeros = jnp.zeros((size, size), position.dtype)
    eye = jnp.eye(size, dtype=position.dtype)
    least = jnp.asarray(turns_from, position.dtype)
    return Frame(
        eye, jnp.zeros_like(position), position, zeros, zeros, zeros, least, jnp.zeros((), bool)
    )


def with_products(
    frame: Frame,
    place: jax.Array,
    before: Moments,
    after: Moments,
    gradient: jax.Array,
    noise: jax.Array | None,
) -> Frame:
    """The frame with the second moments after one more step.

    Args:
        frame: the frame.
        place: z where the step begins, (d,).
        before: the moments before the step, in the frame.
        after: the moments after it.
        gradient: the gradient in the frame, (d,).
        noise: the difference between it and the gradient of another minibatch, None where
            gradients are exact.
    """
    places = jnp.outer(place - before.position, place - after.position)
    gradients = jnp.outer(gradient - before.gradient, gradient - after.gradient)
    frame = frame._replace(places=frame.places + places, gradients=frame.gradients + gradients)
    if noise is None:
        return frame
    # As for the moments: the first gradient may be that of another estimator.
    new = jnp.where(before.steps == 0, 0.0, 0.5 * jnp.outer(noise, noise))
    return frame._replace(noise=frame.noise + new)


def without_products(frame: Frame) -> Frame:
    """The frame at the start of a stage."""
    zeros = jnp.zeros_like(frame.places)
    return frame._replace(places=zeros, gradients=zeros, noise=zeros)
