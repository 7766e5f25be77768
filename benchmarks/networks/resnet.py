"""Residual networks of He, Zhang, Ren and Sun (2016) for small images."""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

#: the width of the first stage in the paper
WIDTH = 16
NORMS = ("batch", "filter")


class FilterResponseNorm(nn.Module):
    """Each channel of an image divided by its root mean square: an image stays by itself.

    Source: Singh and Krishnan (2020), without the thresholded activation, as in Izmailov et al.
    (2021).
    """

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Images of the same shape."""
        scale = self.param("scale", nn.initializers.ones, x.shape[-1:])
        bias = self.param("bias", nn.initializers.zeros, x.shape[-1:])
        square = jnp.mean(x**2, (1, 2), keepdims=True)
        return scale * x * jax.lax.rsqrt(square + 1e-6) + bias


class Conv(nn.Module):
    """A convolution of 3 x 3 pixels without bias.

    Inside a loop XLA's convolutions take seven times as long on a CPU, and more in several chains
    at once. There it is a product of matrices.
    """

    width: int
    stride: int = 1

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Images of `width` channels, smaller by `stride`."""
        shape = (3, 3, x.shape[-1], self.width)
        kernel = self.param("kernel", nn.initializers.he_normal(), shape)
        strides = (self.stride, self.stride)
        if jax.default_backend() != "cpu":
            layout = ("NHWC", "HWIO", "NHWC")
            return jax.lax.conv_general_dilated(x, kernel, strides, "SAME", None, None, layout)
        pads = jax.lax.padtype_to_pads(x.shape[1:3], (3, 3), strides, "SAME")
        padded = jnp.pad(x, ((0, 0), *pads, (0, 0)))
        rows, columns = (-(-size // self.stride) for size in x.shape[1:3])
        seen = [
            padded[:, i :: self.stride, j :: self.stride][:, :rows, :columns]
            for i in range(3)
            for j in range(3)
        ]
        patches = jnp.concatenate(seen, -1)
        return patches @ kernel.reshape(-1, self.width)


class Block(nn.Module):
    """Two convolutions beside an identity, with option A where the size changes: no parameters."""

    width: int
    stride: int
    norm: str

    @nn.compact
    def __call__(self, x: jax.Array, train: bool) -> jax.Array:
        """Images of `width` channels, smaller by `stride`."""
        normalised, activation = _parts(self.norm, train)
        y = activation(normalised()(Conv(self.width, self.stride)(x)))
        y = normalised()(Conv(self.width)(y))
        more = self.width - x.shape[-1]
        short = jnp.pad(x[:, :: self.stride, :: self.stride], ((0, 0),) * 3 + ((0, more),))
        return activation(y + short)


class ResNet(nn.Module):
    """A network of 6 n + 2 layers in three stages.

    Attributes:
        depth: 8, 14, 20, ...
        width: channels of the first stage; the others have twice and four times as many.
        norm: "batch" for batch normalisation and rectified units; "filter" for filter response
            normalisation and swish, where rows do not depend on each other.
        classes: numbers that come out.
    """

    depth: int = 20
    width: int = WIDTH
    norm: str = "batch"
    classes: int = 10

    @nn.compact
    def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
        """Logits, (rows, classes), of images (rows, height, width, channels)."""
        normalised, activation = _parts(self.norm, train)
        x = Conv(self.width)(x)
        x = activation(normalised()(x))
        for stage in range(3):
            for number in range((self.depth - 2) // 6):
                stride = 2 if stage > 0 and number == 0 else 1
                x = Block(self.width * 2**stage, stride, self.norm)(x, train)
        return nn.Dense(self.classes)(x.mean((1, 2)))


def _parts(norm: str, train: bool) -> tuple[Any, Any]:
    if norm == "filter":
        return FilterResponseNorm, nn.swish
    return partial(nn.BatchNorm, use_running_average=not train, momentum=0.9), nn.relu
