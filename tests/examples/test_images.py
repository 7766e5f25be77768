"""Images in the formats in which they are published, and what steps do to them."""

import gzip
import hashlib
import io
import json
import tarfile

import jax
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from numpyro_contour.examples import images
from numpyro_contour.examples.augmentation import random_crop_and_flip
from numpyro_contour.examples.images import load_images

RNG = np.random.default_rng(0)


def pictures(rows):
    return RNG.integers(0, 256, (rows, 32, 32, 3), dtype=np.uint8), RNG.integers(0, 10, rows)


def binary(pixels, *labels):
    """Labels, and then all red, all green and all blue values."""
    planes = pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)
    return np.column_stack([*labels, planes]).astype(np.uint8).tobytes()


def equal(found, train, test):
    for part, (pixels, labels) in {"train": train, "test": test}.items():
        np.testing.assert_array_equal(getattr(found, part), pixels)
        np.testing.assert_array_equal(getattr(found, f"{part}_labels"), labels)


def test_cifar_10_and_100(tmp_path):
    parts, test = [pictures(2) for _ in range(5)], pictures(3)
    for number, part in enumerate(parts, 1):
        (tmp_path / f"data_batch_{number}.bin").write_bytes(binary(*part))
    (tmp_path / "test_batch.bin.gz").write_bytes(gzip.compress(binary(*test)))
    train = tuple(np.concatenate(x) for x in zip(*parts))
    equal(load_images("cifar10", tmp_path), train, test)
    coarse = np.full(3, 19)
    (tmp_path / "train.bin").write_bytes(binary(test[0], coarse, test[1] + 80))
    (tmp_path / "test.bin").write_bytes(binary(test[0], coarse, test[1]))
    equal(load_images("cifar100", tmp_path), (test[0], test[1] + 80), test)


def test_svhn(tmp_path):
    """The digit 0 has the label 10 there."""
    for name in ("train", "test"):
        pixels, labels = pictures(11)
        labels[0] = 10
        content = {"X": pixels.transpose(1, 2, 3, 0), "y": labels[:, None]}
        savemat(tmp_path / f"{name}_32x32.mat", content)
    found = load_images("svhn", tmp_path)
    np.testing.assert_array_equal(found.test, pixels)
    np.testing.assert_array_equal(found.test_labels, labels % 10)
    assert found.test_labels[0] == 0


def idx(values):
    header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">i4").tobytes()
    return header + values.astype(np.uint8).tobytes()


def test_mnist(tmp_path):
    digits, labels = RNG.integers(0, 256, (4, 28, 28)), RNG.integers(0, 10, 4)
    for part in ("train", "t10k"):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx(digits))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    found = load_images("mnist", tmp_path)
    np.testing.assert_array_equal(found.train_labels, labels)
    for colour in range(3):
        np.testing.assert_array_equal(found.test[:, 2:30, 2:30, colour], digits)
    assert found.test.shape == (4, 32, 32, 3)
    assert found.test[:, :2].max() == 0


def test_cifar_10_of_the_package_is_fetched_once(tmp_path, monkeypatch):
    parts, test, packed = [pictures(2) for _ in range(5)], pictures(3), io.BytesIO()
    train = tuple(np.concatenate(x) for x in zip(*parts))
    with tarfile.open(fileobj=packed, mode="w:gz") as members:

        def add(name, content):
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(content)
            members.addfile(info, io.BytesIO(content))

        batches = {f"data_batch_{number}": part for number, part in enumerate(parts, 1)}
        for name, (pixels, _) in (batches | {"test_batch": test}).items():
            picture = io.BytesIO()
            Image.fromarray(pixels.reshape(len(pixels), 1024, 3)).save(picture, "png")
            add(f"{name}.png", picture.getvalue())
        for name, labels in {"train": train[1], "test": test[1]}.items():
            add(f"{name}_lables.json", json.dumps(labels.tolist()).encode())
    asked = []

    def urlopen(url, timeout):
        asked.append(url)
        return io.BytesIO(packed.getvalue())

    monkeypatch.setenv("NUMPYRO_CONTOUR_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    with pytest.raises(ValueError, match="SHA-256"):
        load_images("cifar10")
    known = hashlib.sha256(packed.getvalue()).hexdigest()
    source = (images.CIFAR10[0], known), images._cifar10_of_package
    monkeypatch.setitem(images._FETCHED, "cifar10", source)
    for _ in range(2):
        equal(load_images("cifar10"), train, test)
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("name", "files", "message"),
    [
        ("cifar10", {}, r"data_batch_1.bin"),
        ("cifar100", {"train.bin": b"1234"}, r"has 4 bytes.*no multiple of 3074"),
        ("cifar100", {"train.bin": b""}, r"has 0 bytes"),
        ("mnist", {"train-images-idx3-ubyte": b"\0\0"}, r"not a file of bytes"),
        ("mnist", {"train-images-idx3-ubyte": idx(np.ones((2, 28, 28)))[:-1]}, r"not a file"),
    ],
)
def test_files_that_are_not_of_their_format_are_refused(tmp_path, name, files, message):
    for file, content in files.items():
        (tmp_path / file).write_bytes(content)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load_images(name, tmp_path)


def test_sets_without_a_package_say_what_to_fetch():
    with pytest.raises(FileNotFoundError, match=r"train_32x32.mat.*load_images\('svhn', folder\)"):
        load_images("svhn")
    with pytest.raises(ValueError, match=r"`name`.*'cifar'"):
        load_images("cifar")


def test_crops_and_mirrors_are_uniform():
    """An image with one bright pixel tells where it went."""
    one = np.zeros((3000, 9, 9, 1), np.float32)
    one[:, 4, 3] = 1
    found = np.asarray(random_crop_and_flip(jax.random.key(1), one, margin=2))[..., 0]
    assert (found.sum((1, 2)) == 1).all()
    rows, columns = (np.argwhere(found)[:, axis] for axis in (1, 2))
    # Moved by -2 to 2 from 4 and 3; column c of a mirrored image is column 8 - c.
    expected = np.zeros((9, 9))
    for move in range(-2, 3):
        for column in (3 + move, 8 - 3 - move):
            expected[2:7, column] += 1 / 50
    counts = np.histogram2d(rows, columns, bins=[range(10)] * 2)[0]
    inside = expected > 0
    assert (counts[~inside] == 0).all()
    chi_square = ((counts - 3000 * expected)[inside] ** 2 / (3000 * expected)[inside]).sum()
    assert chi_square < inside.sum() + 5 * np.sqrt(2 * inside.sum())


def test_what_is_moved_in_is_black():
    ones = np.ones((200, 6, 6, 2), np.float32)
    found = np.asarray(random_crop_and_flip(jax.random.key(2), ones, margin=1))
    assert found[:, 1:5, 1:5].min() == 1
    assert 0 < (found[:, 0] == 0).mean() < 1
