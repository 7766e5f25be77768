"""Values of arrays of which this process holds only some parts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import random
from jax.experimental import multihost_utils


def is_here(array: Any) -> bool:
    """Whether this process can read all values of an array."""
    return not isinstance(array, jax.Array) or (
        array.is_fully_addressable or array.is_fully_replicated
    )


def everywhere(tree: Any) -> Any:
    """A pytree whose values every process can read.

    Arrays that lie on several hosts are gathered, and all else stays what it is. All processes must
    come here together, as to everything that `jax.distributed` runs.

    Args:
        tree: a pytree, of traced arrays too.
    """
    return jax.tree.map(_everywhere, tree)


def _everywhere(array: Any) -> Any:
    if isinstance(array, jax.core.Tracer) or not isinstance(array, jax.Array):
        return array
    if array.is_fully_addressable:
        return array
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        words = multihost_utils.process_allgather(random.key_data(array), tiled=True)
        return random.wrap_key_data(words, impl=random.key_impl(array))
    if array.is_fully_replicated:  # a part has all values, and nothing needs to be sent
        return jnp.asarray(array.addressable_data(0))
    return jnp.asarray(multihost_utils.process_allgather(array, tiled=True))
