"""What may hold rows on disk, read by NumPy on the host: never by JAX, which may be waiting."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np


class Source(Protocol):
    """Rows along the first axis of an array."""

    #: the shape of all rows together
    shape: tuple[int, ...]
    #: of what the rows are
    dtype: np.dtype

    def read(self, indices: np.ndarray) -> np.ndarray:
        """Some rows, (n, ...), by their numbers, (n,), in any order and any of them repeated."""
        ...


class Mapped:
    """A NumPy array, for instance one that is mapped from a file."""

    def __init__(self, array: np.ndarray):
        self._array = array.view(np.ndarray)
        self.shape, self.dtype = array.shape, array.dtype

    def read(self, indices: np.ndarray) -> np.ndarray:
        """See `Source`."""
        rows = as_slice(indices)
        return self._array.take(indices, 0) if rows is None else self._array[rows]


class Chunked:
    """An array that is stored in chunks, of Zarr or h5py: each chunk is read once for all rows."""

    def __init__(self, array: Any):
        self._array = array
        self.shape, self.dtype = tuple(array.shape), np.dtype(array.dtype)

    def read(self, indices: np.ndarray) -> np.ndarray:
        """See `Source`."""
        distinct, places = np.unique(indices, return_inverse=True)
        rows = as_slice(distinct)
        if rows is not None:
            found = self._array[rows]
        else:  # Zarr's name for what h5py does by itself
            found = getattr(self._array, "oindex", self._array)[distinct]
        return np.asarray(found)[places]


class Joined:
    """Arrays one below the other, as the batches of an Arrow table are."""

    def __init__(self, parts: Sequence[np.ndarray]):
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])
        self.shape = (int(self._ends[-1]), *parts[0].shape[1:])
        self.dtype = np.result_type(*(part.dtype for part in parts))

    def read(self, indices: np.ndarray) -> np.ndarray:
        """See `Source`."""
        found = np.empty((len(indices), *self.shape[1:]), self.dtype)
        order = np.argsort(indices, kind="stable")
        ends = np.searchsorted(indices[order], self._ends)
        begin = 0
        for part, first, end in zip(self._parts, self._ends - [*map(len, self._parts)], ends):
            if end > begin:
                places = order[begin:end]
                found[places] = part[indices[places] - first]
            begin = end
        return found


class Beside:
    """Columns (N,) or (N, k) that make one matrix."""

    def __init__(self, columns: Sequence[Source]):
        self._columns = columns
        widths = [column.shape[1] if len(column.shape) > 1 else 1 for column in columns]
        self._ends = np.cumsum(widths)
        self.shape: tuple[int, ...] = (columns[0].shape[0], int(self._ends[-1]))
        self.dtype = np.result_type(*(column.dtype for column in columns))

    def read(self, indices: np.ndarray) -> np.ndarray:
        """See `Source`."""
        found = np.empty((len(indices), self.shape[1]), self.dtype)
        for column, end, width in zip(self._columns, self._ends, np.diff(self._ends, prepend=0)):
            found[:, end - width : end] = column.read(indices).reshape(len(indices), width)
        return found


class DatasetColumn:
    """A column of a Hugging Face data set, or of what reads as one."""

    def __init__(self, dataset: Any, name: str):
        self._rows, self._name = dataset.with_format("numpy", columns=[name]), name
        one = self.read(np.zeros(1, np.int64))
        self.shape, self.dtype = (len(dataset), *one.shape[1:]), one.dtype

    def read(self, indices: np.ndarray) -> np.ndarray:
        """See `Source`."""
        batch: Mapping[str, Any] = self._rows[indices.tolist()]
        return np.asarray(batch[self._name])


def arrow_column(column: Any, name: str) -> Source:
    """A column of an Arrow table, without a copy: what is mapped from a file stays there.

    Raises:
        ValueError: it is not of numbers, or some are missing.
    """
    chunks = getattr(column, "chunks", [column])
    if column.null_count:
        raise ValueError(f"{name} takes numbers, but {column.null_count:,} of its rows are null.")
    parts = [_of_chunk(chunk, name) for chunk in chunks if len(chunk)]
    if not parts:
        raise ValueError(f"{name} has no rows.")
    return Joined(parts) if len(parts) > 1 else Mapped(parts[0])


def _of_chunk(chunk: Any, name: str) -> np.ndarray:
    values = chunk.flatten() if hasattr(chunk.type, "list_size") else chunk
    try:
        found = values.to_numpy(zero_copy_only=True)
    except (ValueError, NotImplementedError, TypeError) as error:  # of Arrow, with its own reason
        raise ValueError(
            f"{name} takes numbers of one size, as Arrow and NumPy both hold them, but it is of "
            f"Arrow's type {chunk.type}."
        ) from error
    return found.reshape(len(chunk), -1) if values is not chunk else found


def as_slice(indices: np.ndarray) -> slice | None:
    """Row numbers that follow one another as a slice; None for others."""
    if not len(indices) or indices[-1] - indices[0] != len(indices) - 1:
        return None
    follow = (np.diff(indices) == 1).all()
    return slice(int(indices[0]), int(indices[-1]) + 1) if follow else None


def copied(path: str | os.PathLike, columns: str | Sequence[str] | None) -> np.memmap:
    """Columns of a Parquet file, copied to a file without a name that ends with the process.

    A Parquet file is compressed in groups of rows, and a minibatch has rows of all of them. One
    group is in memory at a time.

    Args:
        path: the file.
        columns: a column, for an array (N,), or several, for a matrix. None for all.

    Raises:
        ValueError: a column is missing, or is not of numbers.
    """
    from pyarrow.parquet import ParquetFile

    file = ParquetFile(path)
    known = file.schema_arrow.names
    names = [columns] if isinstance(columns, str) else list(columns or known)
    for name in names:
        if name not in known:
            raise ValueError(
                f"`columns` takes names among {', '.join(map(repr, known))}, but got {name!r}."
            )
    kinds = {name: file.schema_arrow.field(name).type for name in names}
    try:
        dtype = np.result_type(*(np.dtype(kind.to_pandas_dtype()) for kind in kinds.values()))
    except (TypeError, NotImplementedError):
        dtype = np.dtype(object)
    if dtype.kind not in "biuf":
        found = ", ".join(f"{name!r}: {kind}" for name, kind in kinds.items())
        raise ValueError(f"`columns` takes columns of numbers, but got {{{found}}}.")
    shape = (file.metadata.num_rows, *([] if isinstance(columns, str) else [len(names)]))
    with tempfile.TemporaryFile() as held:
        array = np.memmap(held, dtype, "w+", shape=shape)
    begin = 0
    for group in range(file.num_row_groups):
        table = file.read_row_group(group, columns=names)
        end = begin + table.num_rows
        for place, name in enumerate(names):
            column = table.column(name)
            if column.null_count:
                raise ValueError(
                    f"`columns` takes columns of numbers, but {column.null_count:,} rows of "
                    f"{name!r} are null."
                )
            values = column.to_numpy()
            if len(shape) == 1:
                array[begin:end] = values
            else:
                array[begin:end, place] = values
        begin = end
    return array
