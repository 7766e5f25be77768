"""An array that stays on disk, as a model sees it."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro.primitives import _PYRO_STACK, apply_stack

from numpyro_contour.models.disk.sources import Source

#: the type of the message by which a model asks for rows, with `args` (array, indices)
ROWS = "stored_rows"


class StoredArray:
    """An array of which a model reads rows only: `X[idx]`, or `numpyro.subsample(X, ...)`.

    Rows are read on the host while the compiled model runs, those of all chains in one call.

    Args:
        source: holds the rows.
        owner: what the user gave. Two arrays on the same one are equal, so that what is compiled
            for one serves the other.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np
        >>> from numpyro_contour import on_disk
        >>> X = on_disk(np.arange(6.0, dtype=np.float32).reshape(3, 2))
        >>> X.shape, len(X)
        ((3, 2), 3)
        >>> jax.jit(lambda idx: X[idx])(jnp.array([2, 0])).tolist()
        [[4.0, 5.0], [0.0, 1.0]]
    """

    def __init__(self, source: Source, owner: Any):
        self._source, self._owner = source, owner
        self.shape, self.dtype = tuple(source.shape), np.dtype(source.dtype)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.size * self.dtype.itemsize

    @property
    def row(self) -> jax.ShapeDtypeStruct:
        """One row as JAX holds it."""
        return jax.ShapeDtypeStruct(self.shape[1:], jax.dtypes.canonicalize_dtype(self.dtype))

    def __len__(self) -> int:
        return self.shape[0]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredArray) and self._owner is other._owner

    def __hash__(self) -> int:
        return hash((StoredArray, id(self._owner)))

    def __repr__(self) -> str:
        return f"StoredArray(shape={self.shape}, dtype={self.dtype})"

    def rows(self, indices: Any) -> np.ndarray:
        """Rows on the host.

        Args:
            indices: their numbers, of any shape; as JAX does, those past an end are taken for it.

        Returns:
            An array (*indices.shape, *shape[1:]), as JAX would hold it.
        """
        indices = np.asarray(indices)
        numbers, size = indices.reshape(-1).astype(np.int64), len(self)
        if numbers.size and (numbers.min() < 0 or numbers.max() >= size):
            numbers = np.clip(np.where(numbers < 0, numbers + size, numbers), 0, size - 1)
        found = self._source.read(numbers)
        return np.asarray(found, self.row.dtype).reshape(*indices.shape, *self.shape[1:])

    def loaded(self) -> np.ndarray:
        """All rows as they are on disk."""
        return self._source.read(np.arange(len(self)))

    def __getitem__(self, index: Any) -> Any:
        """Rows: of NumPy for numbers and slices, and of JAX for an array of JAX."""
        first, *rest = index if isinstance(index, tuple) else (index,)
        if isinstance(first, jax.Array) and jnp.issubdtype(first.dtype, jnp.integer):
            found = read(self, first)
            if not rest:
                return found
            # What else there is to choose is chosen from the rows, each row by its own place.
            places = jnp.arange(first.size).reshape(first.shape)
            return found.reshape(-1, *self.shape[1:])[(places, *rest)]
        if isinstance(first, slice):
            numbers = np.arange(*first.indices(len(self)))
            return self.rows(numbers)[(slice(None), *rest)]
        kind = getattr(first, "dtype", np.asarray(first).dtype).kind if not rest else "O"
        if kind in "iu" and not isinstance(first, jax.Array):
            return self.rows(first)
        raise IndexError(f"{self._said()} takes the numbers of rows, `X[idx]`, but got {index!r}.")

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise TypeError(self._whole())

    def __jax_array__(self) -> jax.Array:
        raise TypeError(self._whole())

    def _said(self) -> str:
        return f"An array of shape {self.shape} that stays on disk"

    def _whole(self) -> str:
        return (
            f"{self._said()} is read by rows only. In the model, index it by the rows of a plate, "
            "`X[idx]`, or use `numpyro.subsample`; `X[:]` reads all of it into memory."
        )


def read(array: StoredArray, indices: jax.Array) -> jax.Array:
    """Rows of an array, asked for by a message: a handler may have them already."""
    message = {"type": ROWS, "fn": gather, "args": (array, indices), "kwargs": {}, "value": None}
    return apply_stack(message)["value"]


def gather(array: StoredArray, indices: jax.Array) -> jax.Array:
    """Rows of an array, read on the host when the compiled program gets there."""
    row = array.row
    shape = jax.ShapeDtypeStruct(indices.shape + row.shape, row.dtype)
    return jax.pure_callback(array.rows, shape, indices, vmap_method="broadcast_all")


def subsample(message: dict[str, Any]) -> None:
    """Answer the message of `numpyro.subsample`, where it is about an array that stays on disk.

    NumPyro's plates would take their rows from the whole array, each after the other.

    Raises:
        ValueError: the array is not as long as a plate.
    """
    array = message["value"] if message["type"] == "subsample" else None
    if not isinstance(array, StoredArray):
        return
    event_dim = message["kwargs"]["event_dim"]
    found: Any = array
    taken = []
    for plate in _PYRO_STACK:
        if not isinstance(plate, numpyro.plate):
            continue
        axis = array.ndim + plate.dim - event_dim
        if axis < 0 or array.shape[axis] == 1:
            continue
        if array.shape[axis] != plate.size:
            raise ValueError(
                f"`numpyro.subsample` takes as many rows as the plate {plate.name!r} has, "
                f"{plate.size:,}, but got an array of shape {array.shape}."
            )
        taken.append((axis, plate._indices))
    for axis, indices in sorted(taken, key=lambda x: x[0]):  # the rows first
        if axis == 0:
            found = array[indices]
        elif found is not array:
            found = jnp.take(found, indices, axis)
    message["value"] = found
    message["kwargs"] = {"event_dim": None}  # so that the plates leave it as it is
