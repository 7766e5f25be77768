"""Table 2 at any size: `python -m benchmarks.networks FOLDER [--epochs ...]`.

Runs are kept in FOLDER. The same command goes on where it was interrupted, and prints the table.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from benchmarks.networks.methods import METHODS
from benchmarks.networks.resnet import NORMS
from benchmarks.networks.runs import Size, prepared
from benchmarks.networks.table2 import results, text
from numpyro_contour.examples.images import load_images

#: the paper's, but for the number of draws
PAPER = Size(50_000, 10_000, 1000, 1000, 20, 16, "batch", True, 50)


def main(argv: list[str] | None = None) -> None:
    """Run the methods and print their table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where runs are kept")
    for name in ("subset", "test", "minibatch", "depth", "width", "draws"):
        default = getattr(PAPER, name)
        parser.add_argument(f"--{name}", type=int, default=default, help=f"default {default}")
    parser.add_argument("--epochs", type=float, default=PAPER.epochs, help="default 1000")
    parser.add_argument("--norm", choices=NORMS, default=PAPER.norm, help="default batch")
    parser.add_argument("--plain", action="store_true", help="neither crop nor mirror images")
    parser.add_argument("--seeds", type=int, default=1, help="default 1")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--images", default="cifar10", help="default cifar10")
    parser.add_argument("--files", type=Path, help="the folder of the images' files")
    given = parser.parse_args(argv)
    sizes = ("subset", "test", "epochs", "minibatch", "depth", "width", "norm", "draws")
    size = replace(PAPER, **{name: getattr(given, name) for name in sizes})
    images = load_images(given.images, given.files)
    classes = int(images.train_labels.max()) + 1
    size = replace(size, augmented=not given.plain, classes=classes)
    data = prepared(images, size, {})
    found = results(given.folder, size, data, given.methods, given.seeds)
    print(text(size, given.seeds, found))


if __name__ == "__main__":
    main()
