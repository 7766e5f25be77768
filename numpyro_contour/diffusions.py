"""Diffusions: one step of a discretised stochastic differential equation each.

A diffusion is a pair of functions, `init(key, position) -> memory` and
`propose(key, position, memory, gradient, step_size, temperature, multiplier) -> Proposal`, over
positions of any pytree. It proposes only; samplers/base.py decides whether the move is made.
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


def clip_drift(drift: Any, scale: jax.Array) -> tuple[Any, jax.Array]:
    """`drift` within `DRIFT_LIMIT` times `scale`, and whether that changed a coordinate.

    `scale` is the standard deviation of the injected noise; without noise nothing is clipped.
    """
    limit = jnp.where(scale > 0, DRIFT_LIMIT * scale, jnp.inf)
    clipped = jax.tree.reduce(
        jnp.logical_or, jax.tree.map(lambda d: jnp.any(jnp.abs(d) > limit), drift)
    )
    return jax.tree.map(lambda d: jnp.clip(d, -limit, limit), drift), clipped


def langevin(noise: str = "averaged") -> Diffusion:
    r"""The overdamped Langevin diffusion.

    .. math:: x_{k+1} = x_k - \epsilon\, \lambda_k \nabla \tilde U(x_k)
              + \sqrt{2 \tau \epsilon}\, \xi_k

    with :math:`\lambda_k` the gradient multiplier (1 for plain Langevin). The noise is
    :math:`\xi_k = (R_k + R_{k+1}) / 2` when "averaged" and :math:`\xi_k = R_{k+1}` when
    "independent", R standard normal. At the same single gradient a step, averaging lowers the bias
    of a step from first to second order, so that steps may be 8 to 20 times larger.

    Args:
        noise: "averaged" (default) or "independent".

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
    ) -> Proposal:
        scale = jnp.sqrt(2 * temperature * step_size)
        drift, clipped = clip_drift(
            jax.tree.map(lambda g: (step_size * multiplier) * g, gradient), scale
        )
        fresh = normal_like(key, position)
        xi = jax.tree.map(lambda r, s: 0.5 * (r + s), memory, fresh) if averaged else fresh
        moved = jax.tree.map(lambda x, d, n: x - d + scale * n, position, drift, xi)
        return Proposal(moved, fresh if averaged else (), clipped)

    return Diffusion(init, propose)
