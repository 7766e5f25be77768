"""Gradients of models that JAX can differentiate in forward mode only.

A loop whose number of turns depends on the position has no reverse mode: NumPyro's kernels ask for
`forward_mode_differentiation=True` there. Here JAX is asked, and a model that has a reverse mode
never pays for the other, which takes a pass for each coordinate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

Result = TypeVar("Result")


def in_either_mode(compute: Callable[[bool], Result]) -> Result:
    """What is computed in reverse mode, or in forward mode where there is no other.

    Args:
        compute: from whether it takes forward mode to the result.
    """
    try:
        return compute(False)
    except (ValueError, NotImplementedError) as error:
        # So JAX says it, of loops and of primitives that cannot be transposed.
        if "everse-mode differentiation" not in str(error):
            raise
    return compute(True)


def values_and_gradient(function: Callable, flat: jax.Array) -> tuple[Any, jax.Array]:
    """The values of a function, a pytree, and the gradient of the sum of them all, (d,).

    Args:
        function: a function of a vector.
        flat: where, (d,).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from numpyro_contour.models.either_mode import values_and_gradient
        >>> halved = lambda x: jax.lax.while_loop(lambda x: jnp.abs(x[0]) > 1, lambda x: x / 2, x)
        >>> [x.tolist() for x in values_and_gradient(halved, jnp.array([3.0, 1.0]))]
        [[0.75, 0.25], [0.25, 0.25]]
    """

    def compute(forward: bool) -> tuple[Any, jax.Array]:
        if not forward:
            values, pull = jax.vjp(function, flat)
            return values, pull(jax.tree.map(jnp.ones_like, values))[0]
        along = lambda direction: jax.jvp(function, (flat,), (direction,))
        directions = jnp.eye(flat.shape[0], dtype=flat.dtype)
        values, slopes = jax.vmap(along, out_axes=(None, 0))(directions)
        sums = [jnp.sum(x.reshape(len(directions), -1), 1) for x in jax.tree.leaves(slopes)]
        return values, sum(sums[1:], sums[0]).astype(flat.dtype)

    return in_either_mode(compute)
