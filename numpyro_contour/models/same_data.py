"""Whether the arrays among a model's arguments are those of before."""

from __future__ import annotations

import zlib

import jax
import numpy as np

from numpyro_contour.core.arrays.hosts import everywhere
from numpyro_contour.models.disk.on_disk import with_stored
from numpyro_contour.models.disk.stored_array import StoredArray

#: for arrays whose values this process does not have
UNKNOWN = 0

# Elements of an array that are looked at, evenly spread over it: data may be gigabytes.
_ELEMENTS = 100_000
# Rows of an array that stays on disk: each of them may be a page to read.
_ROWS = 1000


def checksum(model_args: tuple, model_kwargs: dict) -> int:
    """A number that arguments with other data do not have, as good as certainly.

    Args:
        model_args: arguments of the model.
        model_kwargs: its keyword arguments.

    Returns:
        A positive number below 2**31; `UNKNOWN` where an array is traced.
    """
    total = 0
    for leaf in jax.tree.leaves(with_stored((model_args, model_kwargs))):
        if not np.ndim(leaf) or getattr(getattr(leaf, "dtype", None), "kind", "O") in "OSU":
            continue  # an option, or nothing that a model computes with
        if isinstance(leaf, jax.core.Tracer):
            return UNKNOWN
        if isinstance(leaf, StoredArray):
            leaf = leaf[:: 1 + len(leaf) // _ROWS]
        # Chosen where the array lies: it may be large, and on other devices or hosts.
        flat = leaf.reshape(-1) if hasattr(leaf, "reshape") else np.ravel(leaf)
        values = np.asarray(everywhere(flat[:: 1 + flat.size // _ELEMENTS]))
        if values.dtype.kind == "f":  # the same data may have come in double precision before
            with np.errstate(over="ignore"):
                values = values.astype(np.float32)
        total = zlib.crc32(f"{np.shape(leaf)}".encode() + values.tobytes(), total)
    return 1 + total % (2**31 - 2)
