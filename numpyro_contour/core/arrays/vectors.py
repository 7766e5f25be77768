"""Positions as vectors: a step is then one fused operation instead of one for each site."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def ravel(tree: Any) -> jax.Array:
    """The leaves of a pytree as one vector."""
    leaves = [jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)]
    return leaves[0] if len(leaves) == 1 else jnp.concatenate(leaves)


def unravel_like(vector: jax.Array, tree: Any) -> Any:
    """The inverse of `ravel`, in the shapes of `tree`; leading axes of `vector` are batches."""
    leaves, structure = jax.tree.flatten(tree)
    batch = jnp.ndim(vector) - 1
    shapes = [jnp.shape(leaf)[batch:] for leaf in leaves]
    ends = [0]
    for shape in shapes:
        ends.append(ends[-1] + math.prod(shape))
    return jax.tree.unflatten(
        structure,
        [
            vector[..., a:b].reshape(vector.shape[:batch] + shape).astype(jnp.result_type(leaf))
            for a, b, shape, leaf in zip(ends, ends[1:], shapes, leaves)
        ],
    )


def leaf_names(tree: Any) -> list[str]:
    """Names of the leaves of a pytree, after their places in it.

    They have dots where names of sites have slashes, as in modules: "net.Dense_0.kernel". Groups of
    arrays take slashes for folders, those of `xarray.DataTree` and of Zarr.
    """
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    root = "" if isinstance(tree, dict) else "z."
    names = [root + jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in paths]
    return [name.removesuffix(".").replace("/", ".") for name in names]


def coordinate_names(tree: Any) -> list[str]:
    """Names of the coordinates of `ravel`, as `name[i, j]`."""
    return [
        f"{name}[{', '.join(map(str, place))}]" if place else name
        for name, leaf in zip(leaf_names(tree), jax.tree.leaves(tree))
        for place in np.ndindex(jnp.shape(leaf))
    ]
