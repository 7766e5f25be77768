"""Columns of a Parquet file as an array that can be read row by row."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence

import numpy as np


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
