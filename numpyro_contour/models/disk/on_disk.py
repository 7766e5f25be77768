"""Arguments of a model that stay on disk: which ones do, and what the user asks for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from numpyro_contour import checks
from numpyro_contour.models.disk.sources import (
    Beside,
    Chunked,
    DatasetColumn,
    Mapped,
    Source,
    arrow_column,
    copied,
)
from numpyro_contour.models.disk.stored_array import StoredArray

#: Arguments that are smaller than this, in bytes, are read into memory unless `on_disk` is asked
#: for: there they are faster.
IN_MEMORY = 2**28


def on_disk(source: Any, columns: str | Sequence[str] | None = None) -> StoredArray:
    """Data of any size that stay on disk, as an argument of a model.

    A model indexes them by the rows of a plate, `X[idx]`, or uses `numpyro.subsample`, as it would
    do with an array. The rows of the minibatches to come are read while the device is busy with
    those before. `np.memmap`, Zarr and h5py arrays, and columns or tables of Arrow, need not be
    wrapped: as arguments of a model they stay where they are from 256 MiB on.

    Args:
        source: an array with rows along its first axis, such as `np.memmap` or a Zarr array; a
            table or column of Arrow, mapped from its file; a Hugging Face data set; or the path of
            a file .npy, .arrow, .feather or .parquet. A Parquet file cannot be read row by row: its
            columns are copied once, in pieces, to a file that ends with the process.
        columns: of tables and data sets: the name of a column, for an array (N,) or (N, k), or
            names, for a matrix. None (default) for all columns.

    Returns:
        A `StoredArray`.

    Raises:
        ValueError: the source has no rows or is not of numbers, or a column is missing.

    Example:
        >>> import numpy as np, tempfile
        >>> from numpyro_contour import on_disk
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/x.npy", np.ones((1000, 8), np.float32))
        ...     print(on_disk(f"{folder}/x.npy"))
        StoredArray(shape=(1000, 8), dtype=float32)
    """
    if isinstance(source, StoredArray):
        return source
    return _stored(source, columns, "`source`")


def with_stored(arguments: Any) -> Any:
    """Arguments of a model, in which those that stay on disk are `StoredArray`s.

    Raises:
        ValueError: one of them is not of numbers.
    """

    def converted(path: Any, leaf: Any) -> Any:
        if isinstance(leaf, np.memmap):
            # Results of NumPy on such arrays are of this type too, and lie in memory.
            if leaf._mmap is None or leaf.nbytes < IN_MEMORY:  # type: ignore[attr-defined]
                return np.asarray(leaf)
        elif not _is_stored(leaf):
            return leaf
        found = _stored(leaf, None, f"The argument {jax.tree_util.keystr(path)} of the model")
        return found if found.nbytes >= IN_MEMORY else found.loaded()

    return jax.tree_util.tree_map_with_path(converted, arguments)


def stored_of(arguments: Any) -> list[StoredArray]:
    """The arrays among some arguments that stay on disk, each once."""
    leaves = [leaf for leaf in jax.tree.leaves(arguments) if isinstance(leaf, StoredArray)]
    return list(dict.fromkeys(leaves))


def _is_stored(leaf: Any) -> bool:
    package = type(leaf).__module__.partition(".")[0]
    return package in ("zarr", "h5py", "pyarrow") and hasattr(leaf, "__getitem__")


def _stored(source: Any, columns: str | Sequence[str] | None, name: str) -> StoredArray:
    opened = _opened(source, columns) if isinstance(source, str | os.PathLike) else source
    found = _source(opened, columns, name)
    if not found.shape or not found.shape[0]:
        raise ValueError(f"{name} takes rows along the first axis, but its shape is {found.shape}.")
    if found.dtype.kind not in "biufc":
        raise ValueError(f"{name} takes numbers, but it is of {found.dtype}; give codes.")
    return StoredArray(found, source)


def _opened(path: str | os.PathLike, columns: str | Sequence[str] | None) -> Any:
    """What a file holds."""
    ending = Path(path).suffix
    if ending == ".npy":
        return np.load(path, mmap_mode="r")
    if ending == ".parquet":
        return copied(path, columns)
    if ending in (".arrow", ".feather"):
        import pyarrow

        return pyarrow.ipc.open_file(pyarrow.memory_map(os.fspath(path))).read_all()
    raise checks.fail("source", os.fspath(path), "a file .npy, .arrow, .feather or .parquet")


def _source(source: Any, columns: str | Sequence[str] | None, name: str) -> Source:
    known = getattr(source, "column_names", None)
    if known is not None:
        names = [columns] if isinstance(columns, str) else list(columns or known)
        for column in names:
            if column not in known:
                raise ValueError(
                    f"`columns` takes names among {', '.join(map(repr, known))}, but got "
                    f"{column!r}."
                )
        parts = [_column(source, column, name) for column in names]
        if isinstance(columns, str):
            return parts[0]
        return Beside(parts)
    if hasattr(source, "null_count"):
        return arrow_column(source, name)
    if isinstance(source, np.ndarray):
        return Mapped(source)
    if all(hasattr(source, part) for part in ("shape", "dtype", "__getitem__")):
        return Chunked(source)
    raise ValueError(
        f"{name} takes an array with rows, a table of Arrow, a Hugging Face data set or the path "
        f"of a file, but got {type(source).__name__}."
    )


def _column(table: Any, column: str, name: str) -> Source:
    where = f"The column {column!r} of {name[0].lower()}{name[1:]}"
    if hasattr(table, "with_format"):
        return DatasetColumn(table, column)
    return arrow_column(table.column(column), where)
