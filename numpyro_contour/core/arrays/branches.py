"""A branch that is taken in a compiled program, or while it is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jax import lax


def either(condition: Any, then: Callable, otherwise: Callable, *operands: Any) -> Any:
    """As `jax.lax.cond`, but a Python bool decides at once: the other branch is not traced.

    Args:
        condition: a bool, or a scalar array.
        then: a function of the operands.
        otherwise: another one, which returns the same shapes.
        *operands: the operands.

    Example:
        >>> from numpyro_contour.core.arrays.branches import either
        >>> either(True, lambda x: x + 1, lambda x: x / "no number", 1)
        2
    """
    if isinstance(condition, bool):
        return then(*operands) if condition else otherwise(*operands)
    return lax.cond(condition, then, otherwise, *operands)
