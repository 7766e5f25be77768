"""The Zarr store of a run: arrays that grow by whole segments, and the state behind the last one.

Every write that counts is that of the attributes of the root: they say how many draws there are and
which of two states belongs to them. What lies behind that is not yet part of the run.
"""

from __future__ import annotations

import math
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import numpy as np

#: the form of the store
FORMAT = 1
# Bytes of a chunk of an array. Its draws are read together.
_CHUNK_BYTES = 2**20
# Bytes of an array from which on all its draws are unpacked into a file instead of memory, and of
# what is unpacked at once.
_IN_MEMORY = 2**28
_AT_ONCE = 2**26
_SLOTS = ("a", "b")
#: groups of arrays (chains, draws, ...): draws, what was collected with them, what follows from it
DRAWS = ("posterior", "fields", "stats")


class Progress(NamedTuple):
    """What of a run is in its store."""

    #: segments that were written
    segments: int = 0
    #: draws of the warm-up that were made
    warmup: int = 0
    #: draws that were kept
    kept: int = 0
    #: the check sum of the state
    checksum: int = 0
    #: seconds that the run took so far
    seconds: float = 0.0


class RunStore:
    """The store of a run. Arrays (chains, draws, ...) have names as "posterior/x"."""

    def __init__(self, path: Any, root: Any):
        self.path, self._root = path, root

    @classmethod
    def create(cls, path: Path, identity: Mapping[str, Any]) -> RunStore:
        """A new store, in a folder that is empty or does not exist."""
        attributes = {"identity": dict(identity), "numpyro_contour_format": FORMAT}
        none: dict[str, Any] = {
            "progress": Progress()._asdict(),
            "before": None,
            "checks": None,
            "arrays": [],
        }
        # One file, and all that makes the folder the store of a run is in it.
        return cls(path, _zarr().create_group(path, attributes=attributes | none))

    @staticmethod
    def is_new(path: Path) -> bool:
        """Whether there is nothing yet, but for what a process left that was killed at once."""
        return not path.exists() or all(x.suffix == ".partial" for x in path.iterdir())

    @classmethod
    def open(cls, path: Path, read_only: bool = True) -> RunStore:
        """The store that is there.

        Raises:
            ValueError: there is none, or it has another form.
        """
        takes = "the Zarr store of a run, as `run_stored` writes it"
        if not path.exists():
            raise ValueError(f"`path` takes {takes}, but there is nothing at {str(path)!r}.")
        try:
            root = _zarr().open_group(path, mode="r" if read_only else "r+")
        except Exception as error:
            raise ValueError(
                f"`path` takes {takes}, but {str(path)!r} cannot be read as one: {error}"
            ) from error
        known = dict(root.attrs)
        if "numpyro_contour_format" not in known or "progress" not in known:
            raise ValueError(f"`path` takes {takes}, but {str(path)!r} is another Zarr group.")
        if known["numpyro_contour_format"] != FORMAT:
            raise ValueError(
                f"`path` takes a store of form {FORMAT}, but {str(path)!r} has form "
                f"{known['numpyro_contour_format']}: read it with the version that wrote it."
            )
        return cls(path, root)

    def refresh(self) -> None:
        """See what another process has written since this was opened, or before."""
        self._root = _zarr().open_group(self.path, mode="r" if self._root.read_only else "r+")

    # ------------------------------------------------------------------ what is there

    @property
    def identity(self) -> dict[str, Any]:
        """What the run is recognized by."""
        return dict(self._root.attrs["identity"])

    @property
    def progress(self) -> Progress:
        """What of the run is there."""
        return Progress(**self._root.attrs["progress"])

    def names(self, group: str) -> list[str]:
        """The names of the arrays of a group of draws, without that of the group."""
        # As they were written: an array whose files are gone is missed.
        names = [name.split("/", 1) for name in self._root.attrs["arrays"]]
        return [name for of_group, name in names if of_group == group]

    def layout(self, name: str) -> tuple[tuple[int, ...], np.dtype]:
        """The shape and the type of an array.

        Raises:
            ValueError: it is shorter than the run, or chunks of it are missing.
        """
        kept = self.progress.kept
        try:
            array = self._root[_quoted(name)]
            chunks = -(-kept // array.chunks[1]) if array.size else 0
            whole = array.shape[1] >= kept and array.nchunks_initialized >= chunks
        except Exception as error:  # whatever Zarr says of a torn file
            raise self._lost(name) from error
        if not whole:
            raise self._lost(name)
        return (array.shape[0], kept, *array.shape[2:]), _in_use(array.dtype)

    def part(self, name: str, key: Any) -> np.ndarray:
        """A part of an array by numbers, slices and arrays of numbers, one for each axis.

        Raises:
            ValueError: what is there cannot be read.
        """
        try:
            found = np.asarray(self._root[_quoted(name)].oindex[key])
        except Exception as error:  # whatever the codec says of a torn file
            raise self._lost(name) from error
        return found.astype(_in_use(found.dtype), copy=False)

    def draws(self, name: str) -> np.ndarray:
        """An array of the draws, (chains, draws, ...); a large one lies in a temporary file.

        Raises:
            ValueError: parts of it are missing.
        """
        shape, dtype = self.layout(name)
        size = math.prod(shape) * dtype.itemsize
        if size < _IN_MEMORY:
            return self.part(name, (slice(None), slice(0, shape[1])))
        # Nobody else sees the file, and it is gone with the array.
        with tempfile.TemporaryFile() as file:
            found = np.memmap(file, dtype, "w+", shape=shape)
        at_once = max(1, shape[1] * _AT_ONCE // size)
        for begin in range(0, shape[1], at_once):
            rows = slice(begin, min(begin + at_once, shape[1]))
            found[:, rows] = self.part(name, (slice(None), rows))
        return found

    def chosen(self, name: str, numbers: np.ndarray) -> np.ndarray:
        """Some draws of all chains by their numbers, which ascend."""
        self.layout(name)
        return self.part(name, (slice(None), numbers))

    def _lost(self, name: str) -> ValueError:
        return ValueError(
            f"The store {str(self.path)!r} has lost draws of {name!r}: it says that there are "
            f"{self.progress.kept}. Copy it again from where it is whole."
        )

    @property
    def before(self) -> Progress | None:
        """What of the run was there before the last segment; None where that was its beginning."""
        known = self._root.attrs["before"]
        return Progress(**known) if known and known["segments"] else None

    def state(self, progress: Progress) -> bytes | None:
        """The state behind the draws that there were, as bytes; None where it is torn."""
        try:
            kept = self._root["state"][_SLOTS[progress.segments % 2]][:].tobytes()
        except Exception:  # whatever the codec says of a torn file
            return None
        return kept if zlib.crc32(kept) == progress.checksum else None

    def check_draws(self) -> None:
        """Refuse a store that has lost draws.

        Raises:
            ValueError: an array is shorter than the run, or its last draw cannot be read.
        """
        last = np.array([self.progress.kept - 1])
        if last[0] < 0:
            return
        for group in DRAWS:
            for name in self.names(group):
                self.chosen(f"{group}/{name}", last)

    # ------------------------------------------------------------------ the checks of a run

    def write_checks(self, groups: Mapping[str, Any]) -> None:
        """Keep what was found of the run so far, instead of what was found before."""
        known = self._root.attrs["checks"]
        slot = "b" if known and known["slot"] == "a" else "a"
        place = self._root.require_group("checks").create_group(slot, overwrite=True)
        for name, group in groups.items():
            group.to_zarr(place.store, group=f"checks/{slot}/{name}", mode="w", consolidated=False)
        orders = {name: list(group.data_vars) for name, group in groups.items()}
        found = {"slot": slot, "groups": orders, "kept": self.progress.kept}
        self._root.update_attributes({"checks": found})

    @property
    def checks(self) -> dict[str, Any]:
        """Where what was last found is, `{"slot", "groups", "kept"}`; {} where nothing is.

        Each group has the names of its variables in their order.
        """
        return self._root.attrs["checks"] or {}

    # ------------------------------------------------------------------ what is written

    def append(self, draws: Mapping[str, np.ndarray], state: bytes, progress: Progress) -> None:
        """Add the draws of a segment and the state behind them; there are both, or none.

        Args:
            draws: arrays (chains, draws, ...) by name; none during the warm-up.
            state: the state behind them, as bytes.
            progress: what there is with them.
        """
        before = self.progress.kept
        zarr = _zarr()
        # Chunks of zeros are written too: a missing chunk is a loss.
        with zarr.config.set({"array.write_empty_chunks": True}):
            for name, values in draws.items():
                array = self._array(_quoted(name), values)
                if array.shape[1] != progress.kept:
                    array.resize((values.shape[0], progress.kept, *values.shape[2:]))
                array[:, before:] = values
            slot = _SLOTS[progress.segments % 2]
            kept = np.frombuffer(state, np.uint8)
            self._root.require_group("state").create_array(
                slot, data=kept, chunks=kept.shape, overwrite=True
            )
        written = progress._replace(checksum=zlib.crc32(state))
        changed: dict[str, Any] = {
            "progress": written._asdict(),
            "before": self.progress._asdict(),
        }
        if draws:
            changed["arrays"] = list(draws)
        self._root.update_attributes(changed)

    def go_back(self) -> None:
        """Forget the last segment."""
        assert self.before is not None
        self._root.update_attributes({"progress": self.before._asdict(), "before": None})

    def _array(self, name: str, values: np.ndarray) -> Any:
        if name in self._root:
            return self._root[name]
        size = max(values[:, 0].nbytes, 1)
        chunk = max(1, min(4096, _CHUNK_BYTES // size))
        group, quoted = name.split("/")
        of_variable = unquote(quoted)
        dims = ["chain", "draw", *[f"{of_variable}_dim_{i}" for i in range(values.ndim - 2)]]
        return self._root.require_group(group).create_array(
            quoted,
            shape=(values.shape[0], 0, *values.shape[2:]),
            chunks=(values.shape[0], chunk, *[max(n, 1) for n in values.shape[2:]]),
            dtype=values.dtype,
            # With a check sum: what a disk changes is noticed.
            compressors=_zarr().codecs.ZstdCodec(checksum=True),
            dimension_names=dims,
        )

    def remove_partial(self) -> None:
        """Remove what a process left that was killed while it wrote."""
        for path in Path(self.path).rglob("*.partial"):
            path.unlink(missing_ok=True)


def _in_use(dtype: np.dtype) -> np.dtype:
    """The type of an array as it is read: half precision is for the disk."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _quoted(name: str) -> str:
    """The path of an array: names of sites may contain slashes."""
    group, variable = name.split("/", 1)
    return f"{group}/{quote(variable, safe='[]')}"


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError(
            "Stored runs need Zarr: pip install 'numpyro_contour[io]'.", name="zarr"
        ) from error
    return zarr
