"""Factors L of a matrix M = L L': between a position x and coordinates z in which M is 1."""

from __future__ import annotations

from typing import Any

import jax


def displacement(factor: Any, move: jax.Array) -> jax.Array:
    """L v: a move in the coordinates z as one of the position.

    Args:
        factor: L, (d, d), or () for the identity.
        move: v, (d,).
    """
    return move if isinstance(factor, tuple) else factor @ move


def slope(factor: Any, gradient: jax.Array) -> jax.Array:
    """L' g: a gradient in the position as one in the coordinates z.

    Args:
        factor: L, (d, d), or () for the identity.
        gradient: g, (d,).
    """
    return gradient if isinstance(factor, tuple) else gradient @ factor


def diagonal(factor: Any, scales: jax.Array) -> jax.Array:
    """The diagonal of L D L', (d,).

    Args:
        factor: L, (d, d), or () for the identity.
        scales: the diagonal of D, (d,).
    """
    return scales if isinstance(factor, tuple) else factor**2 @ scales
