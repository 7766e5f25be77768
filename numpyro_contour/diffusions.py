"""Diffusions: one step of a discretised stochastic differential equation each.

A diffusion is a pair of functions, `init(key, position) -> memory` and
`propose(key, position, memory, gradient, step_size, temperature, multiplier, multiplier_noise)`, a
`Proposal`, over positions of any pytree. It proposes only; samplers/base.py decides whether the
move is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from numpyro_contour import checks
from numpyro_contour.random_bits import normal

#: The drift is clipped to this many standard deviations of the injected noise, per coordinate.
DRIFT_LIMIT = 3.0

NOISES = ("averaged", "independent")


class Proposal(NamedTuple):
    """Where a diffusion would move."""

    position: Any
    #: what the diffusion remembers from step to step (the last normals, a momentum)
    memory: Any
    #: whether the drift was clipped in any coordinate
    clipped: jax.Array


class Diffusion(NamedTuple):
    """A pair of pure functions; see the module's text."""

    init: Callable[..., Any]
    propose: Callable[..., Proposal]


def normal_like(key: jax.Array, tree: Any) -> Any:
    """Standard normals in the shape of `tree`."""
    leaves, structure = jax.tree.flatten(tree)
    keys = [key] if len(leaves) == 1 else random.split(key, len(leaves))
    return jax.tree.unflatten(
        structure,
        [normal(k, jnp.shape(x), jnp.result_type(x)) for k, x in zip(keys, leaves)],
    )


def clip_drift(drift: Any, scale: Any) -> tuple[Any, jax.Array]:
    """`drift` within `DRIFT_LIMIT` times `scale`, and whether that changed a coordinate.

    `scale` is the standard deviation of the injected noise, in the structure of `drift`; without
    noise nothing is clipped.
    """
    limit = jax.tree.map(lambda s: jnp.where(s > 0, DRIFT_LIMIT * s, jnp.inf), scale)
    clipped = jax.tree.reduce(
        jnp.logical_or, jax.tree.map(lambda d, b: jnp.any(jnp.abs(d) > b), drift, limit)
    )
    return jax.tree.map(lambda d, b: jnp.clip(d, -b, b), drift, limit), clipped


def _remaining(noise: jax.Array, temperature: jax.Array) -> jax.Array:
    """What is left of the injected noise's standard deviation beside the gradient's noise."""
    share = jnp.where(temperature > 0, noise / jnp.maximum(2 * temperature, 1e-30), 0.0)
    return jnp.sqrt(jnp.maximum(1 - share, 0.05))


def langevin(
    noise: str = "averaged", preconditioner: Any = None, gradient_noise: Any = None
) -> Diffusion:
    r"""The overdamped Langevin diffusion.

    .. math:: x_{k+1} = x_k - \epsilon\, \lambda_k M \nabla \tilde U(x_k)
              + \sqrt{2 \tau \epsilon M}\, \xi_k

    with :math:`\lambda_k` the gradient multiplier (1 for plain Langevin). The noise is
    :math:`\xi_k = (R_k + R_{k+1}) / 2` when "averaged" and :math:`\xi_k = R_{k+1}` when
    "independent", R standard normal. At the same single gradient a step, averaging lowers the bias
    of a step from first to second order, so that steps may be 8 to 20 times larger.

    Args:
        noise: "averaged" (default) or "independent".
        preconditioner: the diagonal of M > 0, in the structure of a position. None (default) for 1.
        gradient_noise: V, the variance of the gradient estimate in each coordinate. The injected
            noise is made smaller by what the noise of the drift adds, of its variance
            :math:`\epsilon M (\lambda^2 V + W g^2) / (2 \tau)` with W the variance of the
            multiplier, up to 95 %. None (default) for no such correction.

    Returns:
        A `Diffusion`; its memory is R_k.

    Raises:
        ValueError: `noise` is neither.

    Source: Leimkuhler and Matthews (2013), "averaged"; Welling and Teh (2011), "independent".

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.diffusions import langevin
        >>> diffusion = langevin()
        >>> x = jnp.ones(2)
        >>> memory = diffusion.init(jax.random.key(0), x)
        >>> proposal = diffusion.propose(jax.random.key(1), x, memory, x, 0.1, 1.0, 1.0)
        >>> proposal.position.shape
        (2,)
    """
    averaged = checks.one_of("noise", noise, NOISES) == "averaged"

    def init(key: jax.Array, position: Any) -> Any:
        return normal_like(key, position) if averaged else ()

    def propose(
        key: jax.Array,
        position: Any,
        memory: Any,
        gradient: Any,
        step_size: jax.Array,
        temperature: jax.Array,
        multiplier: jax.Array | float,
        multiplier_noise: jax.Array | float = 0.0,
    ) -> Proposal:
        if preconditioner is None:
            drift = jax.tree.map(lambda g: (step_size * multiplier) * g, gradient)
            common = jnp.sqrt(2 * temperature * step_size)
            scale = jax.tree.map(lambda d: common, drift)
            drift, clipped = clip_drift(drift, scale)
        else:
            rate = jax.tree.map(lambda m: step_size * m, preconditioner)
            scale = jax.tree.map(lambda r: jnp.sqrt(2 * temperature * r), rate)
            drift = jax.tree.map(lambda r, g: (r * multiplier) * g, rate, gradient)
            drift, clipped = clip_drift(drift, scale)
            if gradient_noise is not None:
                noise = jax.tree.map(
                    lambda r, v, g: r * (multiplier**2 * v + multiplier_noise * g**2),
                    *(rate, gradient_noise, gradient),
                )
                scale = jax.tree.map(lambda s, n: s * _remaining(n, temperature), scale, noise)
        fresh = normal_like(key, position)
        xi = jax.tree.map(lambda r, s: 0.5 * (r + s), memory, fresh) if averaged else fresh
        moved = jax.tree.map(lambda x, d, s, n: x - d + s * n, position, drift, scale, xi)
        return Proposal(moved, fresh if averaged else (), clipped)

    return Diffusion(init, propose)
