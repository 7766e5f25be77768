"""The state of a run as bytes, in NumPy's own format and without pickles."""

from __future__ import annotations

import io
from typing import Any

import jax
import numpy as np
from jax import random

from numpyro_contour.runs.stored.processes import placed_like


def to_bytes(state: Any) -> bytes:
    """The leaves of a state, in their order; this process can read all of them."""
    leaves = [np.asarray(random.key_data(x) if _is_key(x) else x) for x in jax.tree.leaves(state)]
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{f"leaf{n}": leaf for n, leaf in enumerate(leaves)})
    return file.getvalue()


def from_bytes(kept: bytes, like: Any) -> Any:
    """The state, in the structure of another one of the same run.

    Raises:
        ValueError: the leaves are not those of such a state.
    """
    leaves, structure = jax.tree.flatten(like)
    with np.load(io.BytesIO(kept), allow_pickle=False) as file:
        found = [file[f"leaf{n}"] for n in range(len(file.files))]
    expected = [np.shape(random.key_data(x) if _is_key(x) else x) for x in leaves]
    if [x.shape for x in found] != expected:
        raise ValueError("the kept state has other arrays than a state of this run")
    restored = [_restored(x, leaf) for x, leaf in zip(found, leaves)]
    return jax.tree.unflatten(structure, restored)


def _restored(kept: np.ndarray, like: Any) -> jax.Array:
    """A leaf, on the devices of another one."""
    if not _is_key(like):
        return placed_like(kept.astype(like.dtype, copy=False), like)
    words = placed_like(kept, random.key_data(like))
    return random.wrap_key_data(words, impl=random.key_impl(like))


def _is_key(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
