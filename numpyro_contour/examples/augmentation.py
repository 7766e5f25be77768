"""Random changes of images that leave their class as it is, for steps of a sampler."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax, random


def random_crop_and_flip(key: jax.Array, images: jax.Array, margin: int = 4) -> jax.Array:
    """Each image moved by up to some pixels in both directions, and mirrored with probability 1/2.

    What is moved in from outside is 0.

    Args:
        key: random key, in a model that of `step_key()`.
        images: (rows, height, width, channels).
        margin: the largest move in pixels. Defaults to 4.

    Returns:
        Images of the same shape.

    Source: He, Zhang, Ren and Sun (2016), section 4.2.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.examples.augmentation import random_crop_and_flip
        >>> images = jnp.arange(12.0).reshape(1, 3, 4, 1)
        >>> random_crop_and_flip(jax.random.key(0), images, margin=0)[0, 0, :, 0].tolist()
        [3.0, 2.0, 1.0, 0.0]
    """
    rows, height, width, channels = images.shape
    key_move, key_flip = random.split(key)
    moves = random.randint(key_move, (rows, 2), 0, 2 * margin + 1)
    flips = random.bernoulli(key_flip, 0.5, (rows, 1, 1, 1))
    padded = jnp.pad(images, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
    cut = partial(lax.dynamic_slice, slice_sizes=(height, width, channels))
    cropped = jax.vmap(lambda image, move: cut(image, (move[0], move[1], 0)))(padded, moves)
    return jnp.where(flips, cropped[:, :, ::-1], cropped)
