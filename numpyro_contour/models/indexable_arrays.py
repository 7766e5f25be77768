"""NumPy arrays that a model may index by the rows of a minibatch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numpyro_contour.models.disk.on_disk import with_stored


class IndexableArray(np.ndarray):
    """A NumPy array that JAX's arrays can index, also while a function is traced.

    `X[idx]` of a plain NumPy array fails there. All else is NumPy's: arithmetic of the model on
    its data keeps NumPy's precision, and what must be known at compile time is known.
    """

    #: the same array as an operand of the program that is compiled, None for a constant of it
    operand: jax.Array | None = None

    def __getitem__(self, index: Any) -> Any:
        """The elements at an index; a JAX array for an index with JAX arrays in it."""
        parts = index if isinstance(index, tuple) else (index,)
        if any(isinstance(part, jax.Array) for part in parts):
            whole = jnp.asarray(np.asarray(self)) if self.operand is None else self.operand
            return whole[index]
        return super().__getitem__(index)


def indexable(arguments: Any) -> Any:
    """Arguments of a model in which JAX's arrays can index every array of numbers.

    Those that stay on disk are `StoredArray`s.
    """
    return jax.tree.map(
        lambda x: x.view(IndexableArray) if type(x) is np.ndarray and _numbers(x) else x,
        with_stored(arguments),
    )


def _numbers(array: np.ndarray) -> bool:
    return array.ndim > 0 and array.dtype.kind not in "OSU"
