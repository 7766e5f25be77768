"""Positions as flat vectors: one fused operation a step instead of one for each site."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp


def ravel(tree: Any) -> jax.Array:
    """The leaves of a pytree as one vector."""
    leaves = [jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)]
    return leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves)


def unravel_like(flat: jax.Array, tree: Any) -> Any:
    """The inverse of `ravel`, in the shapes of `tree`; leading axes of `flat` are batches."""
    leaves, structure = jax.tree.flatten(tree)
    batch = jnp.ndim(flat) - 1
    shapes = [jnp.shape(leaf)[batch:] for leaf in leaves]
    ends = [0]
    for shape in shapes:
        ends.append(ends[-1] + math.prod(shape))
    return jax.tree.unflatten(
        structure,
        [
            flat[..., a:b].reshape(flat.shape[:batch] + shape).astype(jnp.result_type(leaf))
            for a, b, shape, leaf in zip(ends, ends[1:], shapes, leaves)
        ],
    )
