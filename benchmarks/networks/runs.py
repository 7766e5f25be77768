"""Runs of a method on images: stored, so that a run that was killed goes on, and scored."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import MCMC

from benchmarks.networks.methods import METHODS, Length
from benchmarks.networks.model import ROWS, WEIGHT_DECAY, Classifier, start
from benchmarks.networks.resnet import ResNet
from benchmarks.networks.scores import Scores, entropy, scores
from numpyro_contour import predictive, run_stored
from numpyro_contour.examples.images import Images

# Images whose probabilities are computed at once.
_AT_ONCE = 1000


@dataclass(frozen=True)
class Size:
    """How large an experiment is."""

    #: images of training and of the test that are taken
    subset: int
    test: int
    epochs: float
    minibatch: int
    #: the network
    depth: int
    width: int
    #: "batch" or "filter"
    norm: str
    augmented: bool
    #: draws of the second half of a run, over which is averaged; as many are made before
    draws: int
    classes: int = 10

    def network(self) -> ResNet:
        """The network."""
        return ResNet(self.depth, self.width, self.norm, self.classes)

    def model(self) -> Classifier:
        """The model: its weight decay is as many times the paper's as there are images."""
        decay = WEIGHT_DECAY * self.subset / ROWS
        return Classifier(self.network(), self.minibatch, decay, self.augmented)


@dataclass(frozen=True)
class Data:
    """Images in units of the spread of each colour, and their classes."""

    train: np.ndarray
    labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    #: images of no class, by name
    others: dict[str, np.ndarray]


def prepared(images: Images, size: Size, others: dict[str, np.ndarray]) -> Data:
    """The first images of each part, standardised by the mean and the spread of training."""
    train = images.train[: size.subset] / np.float32(255)
    mean, sd = train.mean((0, 1, 2)), train.std((0, 1, 2))

    def standardised(pixels: np.ndarray) -> np.ndarray:
        return ((pixels / np.float32(255) - mean) / sd).astype(np.float32)

    test = images.test[: size.test]
    noise = np.random.default_rng(0).integers(0, 256, test.shape, np.uint8)
    known = {"rotated": np.rot90(test, axes=(1, 2)), "noise": noise} | others
    return Data(
        standardised(images.train[: size.subset]),
        images.train_labels[: size.subset],
        standardised(test),
        images.test_labels[: size.test],
        {name: standardised(pixels[: size.test]) for name, pixels in known.items()},
    )


@dataclass(frozen=True)
class Result:
    """What was found of a run."""

    #: the best accuracy of a draw, as the paper's best point estimate: chosen by the test
    best: float
    #: the accuracy of the last draw of the first chain
    last: float
    #: of the weighted mean of the probabilities of all draws
    average: Scores
    #: the accuracy of their mean with equal weights, and their own mean accuracy
    equal: float
    members: float
    #: mean entropies of the average on images of no class, in nats
    others: dict[str, float]
    #: Kish's effective share of the draws by their weights
    kish: float
    #: mean and sd of the energies that the steps of the last quarter saw, in nats
    energy: tuple[float, float]
    #: of the last call that made steps, with compiling
    seconds: float


def run(folder: Path, name: str, seed: int, size: Size, data: Data) -> tuple[Result, np.ndarray]:
    """The scores of a method, and its probabilities of the test images.

    Args:
        folder: where the run is kept. A run that was killed goes on; a finished one is read.
        name: the method.
        seed: seed.
        size: how large the experiment is.
        data: the images.

    Raises:
        ValueError: the folder has this run at another size.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{seed}"
    found, table = path.with_suffix(".json"), path.with_suffix(".npy")
    asked = asdict(size)
    if not found.exists():
        result, probabilities = _run(path.with_suffix(".zarr"), name, seed, size, data)
        np.save(table, probabilities)
        # Complete as soon as it is there: a run may be killed at any time.
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"size": asked, "result": asdict(result)}))
        part.replace(found)
    kept = json.loads(found.read_text())
    differs = [key for key in asked if kept["size"].get(key) != asked[key]]
    if differs:
        was, now = ({key: x.get(key) for key in differs} for x in (kept["size"], asked))
        raise ValueError(
            f"{found} is of a run with {was}, but this one has {now}. Take another folder."
        )
    known = kept["result"]
    known = {**known, "average": Scores(*known["average"]), "energy": tuple(known["energy"])}
    return Result(**known), np.load(table)


def _run(path: Path, name: str, seed: int, size: Size, data: Data) -> tuple[Result, np.ndarray]:
    method = METHODS[name]
    length = method.share(Length(size.subset, size.minibatch, size.epochs))
    steps = max(1, length.steps // (2 * size.draws))
    length = replace(length, epochs=2 * size.draws * steps * size.minibatch / size.subset)
    kernel = method.kernel(size.model(), length, {"num_steps": steps, "draw": "last"})
    mcmc = MCMC(
        kernel,
        num_warmup=size.draws,
        num_samples=size.draws,
        num_chains=method.chains,
        chain_method="vectorized",
        progress_bar=True,
    )
    keys = random.split(random.key(seed), method.chains + 1)
    begin = [start(size.network(), jnp.asarray(data.train), key) for key in keys[1:]]
    begin = begin[0] if method.chains == 1 else jax.tree.map(lambda *x: jnp.stack(x), *begin)
    begun = time.perf_counter()
    with warnings.catch_warnings():
        # A network's weights depend on where they began; what it predicts is looked at here.
        warnings.simplefilter("ignore")
        run_stored(mcmc, path, keys[0], data.train, data.labels, init_params=begin)
        seconds = time.perf_counter() - begun
        parts = {"test": data.test} | data.others
        probabilities = {part: _probabilities(mcmc, x) for part, x in parts.items()}
    fields = mcmc.get_extra_fields(group_by_chain=True)
    # As the kernel gives them: `weighted_samples` takes the draws of one temperature only.
    log_weights = np.asarray(fields["log_weight"], np.float64)
    shares = np.exp(log_weights - log_weights.max())
    shares /= shares.sum()
    counted = np.isfinite(log_weights) / np.isfinite(log_weights).sum()
    equal = np.einsum("cd,cdrk->rk", counted, probabilities["test"])
    means = {part: np.einsum("cd,cdrk->rk", shares, p) for part, p in probabilities.items()}
    accuracy = (probabilities["test"].argmax(-1) == data.test_labels).mean(-1)
    energy = np.asarray(fields["potential_energy_estimate"])
    late = energy[:, -max(1, size.draws // 2) :]
    result = Result(
        best=float(accuracy.max()),
        last=float(accuracy[0, -1]),
        average=scores(means["test"], data.test_labels),
        equal=float((equal.argmax(-1) == data.test_labels).mean()),
        members=float((counted * accuracy).sum()),
        others={part: float(entropy(means[part]).mean()) for part in data.others},
        kish=float(1 / (shares**2).sum() / shares.size),
        energy=(float(late.mean()), float(late.std())),
        seconds=seconds,
    )
    return result, means["test"]


def _probabilities(mcmc: MCMC, images: np.ndarray) -> np.ndarray:
    """Of all draws, (chains, draws, rows, classes)."""
    at = range(0, len(images), _AT_ONCE)
    parts: list[Any] = [
        predictive(mcmc, random.key(0), images[k : k + _AT_ONCE], return_sites=["p"])["p"]
        for k in at
    ]
    return np.concatenate([np.asarray(part, np.float64) for part in parts], 2)
