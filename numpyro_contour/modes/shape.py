r"""The shape of a mode: a normal at its bottom, as wide as the energy rises by half a nat.

The Hessian gives the directions. How far the energy takes to rise by half a nat on either side
gives the widths: those of the Hessian where the mode is about a normal, and also something sensible
where the bottom is flat, a kink, or part of a ring. In many coordinates a few directions are told
apart, and all others have one width in units of the coordinates' scales.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from numpyro_contour.core.arrays.factors import LowRank
from numpyro_contour.modes.landscape import Landscape, Places

#: the most coordinates of a shape that is a matrix
MOST_DENSE = 250
# Directions that are told apart where it is not, and rounds in which they are found.
_DIRECTIONS, _POWERS = 24, 4
# How far from the bottom gradients are compared, in standard deviations of a coordinate.
_APART = 0.3
# Scales of coordinates are found again where curvatures by them are not within this of 1.
_WITHIN, _ROUNDS = 30.0, 3
# The least curvature of a direction as a share of the largest, and one that is below 0.
_LEAST_CURVATURE, _FALLS_AWAY = 1e-6, -1e-3
# How far from the bottom a descent may have ended: the fall in nats that a step of Newton's method
# promises, for each coordinate and at least.
_FALL_A_COORDINATE, _LEAST_FALL = 0.02, 0.25
# Of that, what it may be where the descent can go on.
_CLOSER = 0.1
# A rise is about half a nat within these. The most steps that look for it, and the largest factor
# of each.
_LOW, _HALF, _HIGH = 0.2, 0.5, 1.25
_LOOKS, _STRETCH = 20, 4.0
# If curvatures differ by this factor a descent may rest on the floor of a valley. The number of the
# softest directions that are kept to look along it.
_BENT, _SOFTEST = 1e-4, 3

#: why an end of a descent is no mode
SLOPE, SADDLE, FLAT, EDGE = "still falls", "saddle", "flat", "edge"


class Shape(NamedTuple):
    """The normal of a mode."""

    #: m, (d,)
    mean: np.ndarray
    #: a root F of the covariance F F', (d, d) or a `LowRank`
    factor: Any
    #: the inverse of F, (d, d); None for a `LowRank`
    inverse: np.ndarray | None
    #: log of the determinant of F
    log_volume: float
    #: the energy at m in nats
    energy: float
    #: a standard deviation in each of the softest directions, (d, r), where m may only be on the
    #: floor of a valley; None elsewhere
    softest: np.ndarray | None = None

    @property
    def log_integral(self) -> float:
        """Log of the integral of exp(-U) by the normal (Laplace's method)."""
        return 0.5 * len(self.mean) * np.log(2 * np.pi) + self.log_volume - self.energy

    @property
    def sds(self) -> np.ndarray:
        """Standard deviations of the coordinates, (d,)."""
        if self.inverse is not None:
            return np.sqrt((self.factor**2).sum(1))
        scales, directions, stretches = self.factor
        return scales * np.sqrt(1 + directions**2 @ (stretches**2 - 1))

    def placed(self, z: np.ndarray) -> np.ndarray:
        """M + F z, (..., d)."""
        if self.inverse is not None:
            return self.mean + z @ self.factor.T
        scales, directions, stretches = self.factor
        return self.mean + scales * _stretched(z, directions, stretches)

    def standardised(self, positions: np.ndarray) -> np.ndarray:
        """F^-1 (x - m), (..., d)."""
        away = positions - self.mean
        if self.inverse is not None:
            return away @ self.inverse.T
        scales, directions, stretches = self.factor
        return _stretched(away / scales, directions, 1 / stretches)

    def squares(self, positions: np.ndarray) -> np.ndarray:
        """Squared distances from the mean in standard deviations, (...,), of (..., d)."""
        return (self.standardised(positions) ** 2).sum(-1)


def _stretched(v: np.ndarray, directions: np.ndarray, stretches: np.ndarray) -> np.ndarray:
    return v + ((v @ directions) * (stretches - 1)) @ directions.T


class NoMode(NamedTuple):
    """An end of a descent that is no mode."""

    #: one of `SLOPE`, `SADDLE`, `FLAT`, `EDGE`
    why: str
    #: where a further descent is to begin, (n, d); none where that is of no use
    onwards: np.ndarray


class _Curvatures(NamedTuple):
    """Directions at a place, and the curvatures along them in units of scales."""

    #: (d,)
    scales: np.ndarray
    #: orthonormal columns, (d, r)
    directions: np.ndarray
    #: rising, (r,)
    values: np.ndarray
    #: that of all other directions, of which r = d leaves none
    other: float


def shape_at(
    landscape: Landscape, end: Places, scales: np.ndarray | None = None, last: bool = True
) -> Shape | NoMode:
    """The shape of the mode in which a descent has ended.

    Args:
        landscape: the energies.
        end: the end of one descent.
        scales: the scales of the coordinates in another mode, (d,): modes of one shape then have
            one root F, and errors of their volumes are the same. None (default) where no other
            mode is known.
        last: whether no descent goes on from here; else it has to have arrived more precisely.
            Defaults to True.

    Returns:
        The `Shape`; or a `NoMode` where the energy still falls, the end is a saddle, the energy
        does not rise in some direction, or it is not finite close by.

    Source: Tierney and Kadane (1986) for the normal at a mode.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np
        >>> from numpyro_contour.modes.descent import descend
        >>> from numpyro_contour.modes.landscape import Landscape
        >>> from numpyro_contour.modes.shape import shape_at
        >>> energy = jax.value_and_grad(lambda x: 2 * jnp.sum((x - 1) ** 2))
        >>> land = Landscape(jax.jit(lambda x, most: descend(energy, x, most)), size=1, lanes=8)
        >>> shape = shape_at(land, land.descend(np.zeros((1, 1))).only(0))
        >>> shape.mean.round(3).tolist(), shape.factor.round(3).tolist()
        ([1.0], [[0.5]])
    """
    if scales is None:
        scales = np.sqrt(np.clip(end.inverse_curvature, 1e-24, 1e24))
    found = _curvatures(landscape, end, scales)
    none = np.empty((0, landscape.size))
    if found is None:
        return NoMode(EDGE, none)
    scales, directions, values, other = found
    top = values[-1]
    if not top > 0:
        return NoMode(FLAT, none)
    if values[0] < _FALLS_AWAY * top:
        away = scales * directions[:, 0] / np.sqrt(-values[0])
        return NoMode(SADDLE, end.position + np.array([[1.0], [-1.0]]) * away)
    values = np.maximum(values, _LEAST_CURVATURE * top)
    steps = scales[:, None] * directions / np.sqrt(values)
    along = end.gradient @ steps
    slopes = end.gradient * scales
    rest = (slopes - directions @ (directions.T @ slopes)) / np.sqrt(other)
    fall = 0.5 * ((along**2).sum() + (rest**2).sum())
    move = -steps @ along - scales * rest / np.sqrt(other)
    most = max(_LEAST_FALL, _FALL_A_COORDINATE * landscape.size)
    most *= 1.0 if last else _CLOSER
    if not fall < most:
        there = (end.position + move)[None]
        if landscape.at(there)[0][0] < end.energy - most:
            return NoMode(SLOPE, there)
        # On a kink the slope of one side says nothing about the bottom.
        move, fall = np.zeros_like(move), 0.0
    mean, energy = end.position + move, float(end.energy - fall)
    widths = _widths(landscape, mean, energy, steps)
    if widths is None:
        return NoMode(FLAT, none)
    softest = (steps * widths)[:, :_SOFTEST] if values[0] < _BENT * top else None
    sds = widths / np.sqrt(values)
    if directions.shape[1] < landscape.size:
        width = 1 / np.sqrt(other)
        parts: Any = width * scales, directions, sds / width
        factor: Any = LowRank(*parts)
        log_volume = np.log(factor.scales).sum() + np.log(factor.stretches).sum()
        return Shape(mean, factor, None, float(log_volume), energy, softest)
    log_volume = np.log(scales).sum() + np.log(sds).sum()
    factor = scales[:, None] * (directions * sds) @ directions.T
    inverse = (directions / sds) @ (directions.T / scales)
    return Shape(mean, factor, inverse, float(log_volume), energy, softest)


def _curvatures(landscape: Landscape, end: Places, scales: np.ndarray) -> _Curvatures | None:
    """The curvatures at the end of a descent, None where gradients are not finite around it."""
    size = landscape.size
    for _ in range(_ROUNDS):
        if size <= MOST_DENSE:
            hessian = _along(landscape, end.position, scales, np.eye(size))
            sizes = np.abs(np.diag(hessian))
        else:
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (size, _DIRECTIONS))
            signs /= np.sqrt(size)
            hessian = _along(landscape, end.position, scales, signs)
            mean = (signs * hessian).sum() / _DIRECTIONS
            sizes = np.abs([mean])
        if not np.isfinite(hessian).all():
            scales = scales * 0.1
            continue
        if ((sizes < _WITHIN) & (sizes > 1 / _WITHIN)).all():
            break
        scales = scales / np.sqrt(np.clip(sizes, 1e-4, 1e8))
    if not np.isfinite(hessian).all():
        return None
    if size <= MOST_DENSE:
        values, directions = np.linalg.eigh(0.5 * (hessian + hessian.T))
        return _Curvatures(scales, directions, values, 1.0)
    # The directions are those in which curvatures are least like the mean one.
    directions = np.linalg.qr(hessian - mean * signs)[0]
    for power in range(_POWERS + 1):
        image = _along(landscape, end.position, scales, directions)
        if not np.isfinite(image).all():
            return None
        if power < _POWERS:
            directions = np.linalg.qr(image - mean * directions)[0]
    within = directions.T @ image
    values, turn = np.linalg.eigh(0.5 * (within + within.T))
    other = (mean * size - values.sum()) / (size - _DIRECTIONS)
    other = max(other, _LEAST_CURVATURE * max(values[-1], np.finfo(float).tiny))
    return _Curvatures(scales, directions @ turn, values, other)


def _along(
    landscape: Landscape, place: np.ndarray, scales: np.ndarray, directions: np.ndarray
) -> np.ndarray:
    """The Hessian in units of scales times directions, (d, r), by differences of gradients."""
    sides = _APART * (scales[:, None] * directions).T
    _, gradients = landscape.at(np.concatenate([place + sides, place - sides]))
    count = len(sides)
    with np.errstate(invalid="ignore"):  # of gradients that are not finite
        return ((gradients[:count] - gradients[count:]) * scales / (2 * _APART)).T


def _widths(
    landscape: Landscape, mean: np.ndarray, energy: float, steps: np.ndarray
) -> np.ndarray | None:
    """The multiples of steps, columns of (d, r), at which energies have risen by half a nat.

    None where there is no such multiple.
    """
    size = steps.shape[1]
    widths, low, high = np.ones(size), np.zeros(size), np.full(size, np.inf)
    left = np.arange(size)
    rounding = 8 * landscape.epsilon * abs(energy)
    for _ in range(_LOOKS):
        rises = _rises(landscape, mean, energy, (steps[:, left] * widths[left]).T)
        good = (rises > _LOW - rounding) & (rises < _HIGH + rounding)
        left, rises = left[~good], rises[~good]
        if not left.size:
            return widths
        now, short = widths[left], rises < _HALF
        low[left], high[left] = np.where(short, now, low[left]), np.where(short, high[left], now)
        bracketed = (low[left] > 0) & np.isfinite(high[left])
        by_square = now * np.sqrt(_HALF / np.maximum(rises, 1e-30))
        by_square = np.clip(by_square, now / _STRETCH, now * _STRETCH)
        with np.errstate(invalid="ignore"):
            between = np.sqrt(low[left] * high[left])
        widths[left] = np.where(bracketed, between, by_square)
    return None


def _rises(landscape: Landscape, mean: np.ndarray, energy: float, moves: np.ndarray) -> np.ndarray:
    """How much higher energies are on average at both ends of each move, (n, d), in nats."""
    energies, _ = landscape.at(np.concatenate([mean + moves, mean - moves]))
    both = (energies - energy).reshape(2, -1)
    finite = np.isfinite(both)
    # If one side is beyond an edge, the other one counts.
    rises = np.where(finite, both, 0.0).sum(0) / np.maximum(finite.sum(0), 1)
    return np.where(finite.any(0), rises, np.inf)
