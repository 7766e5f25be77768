"""Table 2 of the paper: how good are averages of networks, method by method?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.networks.methods import METHODS
from benchmarks.networks.published import TABLE_2
from benchmarks.networks.runs import Data, Result, Size, prepared, run
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from numpyro_contour.examples.images import Images, load_images

#: two cores finish it in about an hour
SMALL = Size(
    subset=3000,
    test=2000,
    epochs=20,
    minibatch=100,
    depth=8,
    width=4,
    norm="batch",
    augmented=True,
    draws=10,
)
QUICK = replace(SMALL, subset=40, test=20, epochs=2, minibatch=20, width=2, draws=2)
SEEDS = 3


def images_like(rows: int, test: int) -> Images:
    """Images of two patterns in noise, in place of photographs for the short form."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, rows + test).astype(np.int32)
    pixels = rng.integers(0, 100, (rows + test, 32, 32, 3)) + 15 * labels[:, None, None, None]
    pixels = pixels.astype(np.uint8)
    return Images(pixels[:rows], labels[:rows], pixels[rows:], labels[rows:])


def results(
    folder: Path, size: Size, data: Data, names: Sequence[str], seeds: int
) -> dict[str, list[Result]]:
    """The results of all methods, one for each seed; those that are in the folder are read."""
    found: dict[str, list[Result]] = {name: [] for name in names}
    for seed in range(seeds):
        for name in names:
            found[name].append(run(folder, name, seed, size, data)[0])
            print(f"{name}, seed {seed}: {found[name][-1]}", flush=True)
    return found


def _with_error(values: Sequence[float], scale: float, digits: int) -> str:
    values = scale * np.array(values, float)
    if len(values) < 2:
        return f"{values.mean():.{digits}f}"
    error = values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():.{digits}f} ± {error:.{digits}f}"


def table(found: dict[str, list[Result]]) -> str:
    """Accuracies in per cent, beside the paper's, and the other scores of the averages."""
    columns: list[tuple[str, Callable[[Result], float], float, int]] = [
        ("best", lambda r: r.best, 100, 1),
        ("last", lambda r: r.last, 100, 1),
        ("members", lambda r: r.members, 100, 1),
        ("average", lambda r: r.average.accuracy, 100, 1),
        ("average, equal weights", lambda r: r.equal, 100, 1),
        ("log likelihood", lambda r: r.average.log_likelihood, 1, 3),
        ("calibration error", lambda r: r.average.calibration_error, 1, 3),
        ("draws that count", lambda r: r.kish, 1, 2),
        ("energy, nats", lambda r: r.energy[0], 1, 0),
        ("its sd", lambda r: r.energy[1], 1, 0),
    ]
    others = list(next(iter(found.values()))[0].others)
    columns += [(f"entropy, {part}", lambda r, part=part: r.others[part], 1, 2) for part in others]
    rows = []
    for name, runs in found.items():
        published = TABLE_2.get(name)
        cells = [published.best, published.average] if published else ["not there"] * 2
        cells += [_with_error([of(r) for r in runs], scale, d) for _, of, scale, d in columns]
        # A median: a machine may have other work.
        rows.append([name, *cells, f"{np.median([r.seconds for r in runs]):.0f}"])
    heads = ["method", "paper, best", "paper, average", *(head for head, *_ in columns), "seconds"]
    return markdown_table(heads, rows)


def text(size: Size, seeds: int, found: dict[str, list[Result]]) -> str:
    """The section: what was run, and its table."""
    return (
        "## Table 2 of the paper\n\n"
        f"{size.subset:,} images of CIFAR-10, {size.epochs:g} epochs in minibatches of "
        f"{size.minibatch}, a residual network of {size.depth} layers and width {size.width} with "
        f"{size.norm} normalisation{', cropped and mirrored' if size.augmented else ''}; the paper "
        "has 50,000 images, 1,000 epochs in minibatches of 1,000, 20 layers and width 16, so that "
        "its figures are far better, and only the order of methods can be compared. Step sizes, "
        "bins, zeta and weight decay are the paper's in proportion to the number of images, and "
        "annealing is by shares of the run. All methods take the same number of gradients: an "
        "ensemble has four members of a quarter of the epochs each, and replica exchange two "
        f"temperatures with half of them. The average is over {size.draws} draws of the second "
        f"half; test: {size.test:,} images. Accuracies are in per cent, with the standard error "
        f"over {seeds} seeds. The best point is the best draw by the test, as in the paper. "
        "Members is the mean accuracy of what is averaged, and draws that count is Kish's share of "
        "them by their weights. The energy is that of minibatches in the last quarter.\n\n"
        + table(found)
    )


def main(experiment: Experiment) -> str:
    """The section of the page."""
    size = experiment.choose(SMALL, QUICK)
    seeds = experiment.choose(SEEDS, 1)
    names = experiment.choose(list(METHODS), ["saCSGHMC", "ensemble"])
    images = images_like(size.subset, size.test) if experiment.quick else load_images("cifar10")
    others = {} if experiment.quick else {"MNIST": load_images("mnist").test}
    data = prepared(images, size, others)
    with TemporaryDirectory() as folder:
        found = results(Path(folder), size, data, names, seeds)
    return text(size, seeds, found)
