"""The NumPyro model of a network that classifies images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.contrib.module import random_flax_module

import numpyro_contour as nc
from numpyro_contour.examples.augmentation import random_crop_and_flip

#: precision of the prior of each weight for all of CIFAR-10, the paper's weight decay
WEIGHT_DECAY, ROWS = 25.0, 50_000


@dataclass(frozen=True)
class Classifier:
    """A model of the classes of images, (rows, height, width, channels) in units of their spread.

    Attributes:
        network: a flax module that takes images and `train`.
        minibatch: images of a step.
        weight_decay: precision of the prior of each weight.
        augmented: whether steps crop and mirror images at random.
    """

    network: Any
    minibatch: int
    weight_decay: float
    augmented: bool

    def __call__(self, images: Any, labels: Any = None) -> None:
        """The model; probabilities are the site "p"."""
        training = nc.training()
        mutable = {"mutable": ["batch_stats"]} if self.network.norm == "batch" else {}
        prior = dist.Normal(0.0, self.weight_decay**-0.5)
        net = random_flax_module("net", self.network, prior, images[:1], train=False, **mutable)
        with numpyro.plate("images", len(images), subsample_size=self.minibatch) as idx:
            x = images[idx]
            if training and self.augmented:
                x = random_crop_and_flip(nc.step_key(), x)
            logits = net(x, train=training)
            numpyro.deterministic("p", jax.nn.softmax(logits))
            observed = None if labels is None else labels[idx]
            numpyro.sample("labels", dist.Categorical(logits=logits), obs=observed)


def start(network: Any, images: Any, key: jax.Array) -> dict[str, jax.Array]:
    """The position where a network's own initializers begin, by name of site."""
    params = jax.jit(network.init)(key, images[:1])["params"]
    return {
        f"net/{'.'.join(part.key for part in path)}": jnp.asarray(value)
        for path, value in jax.tree_util.tree_leaves_with_path(params)
    }
