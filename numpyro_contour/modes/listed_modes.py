"""The modes that a search on the host has found, in the slots of those that chains jump between."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from numpyro_contour.core.samplers.known_modes import Modes
from numpyro_contour.modes.copies import SAME
from numpyro_contour.modes.found_modes import (
    ABOUT,
    AS_GOOD,
    EVENNESS,
    FAR_LIGHTER,
    LEAST_SHARE,
    FoundModes,
    directions_around,
    slots,
)
from numpyro_contour.modes.known_list import KnownList
from numpyro_contour.modes.landscape import Landscape
from numpyro_contour.modes.shape import Shape
from numpyro_contour.modes.way_down import MOST_FULL_SHAPE


def with_new_modes(numbers: list[int], found: KnownList) -> list[int]:
    """The modes of a list that chains know, one in each slot, with those that are new.

    A mode keeps its slot, by which tries to jump are counted. Where all are taken, one gives way
    that is lighter than the new one, and is not the only one on its side in a coordinate.

    Args:
        numbers: those that they know so far, by their numbers in the list.
        found: the list.
    """
    numbers, most = list(numbers), slots(found.landscape.size)
    for k in map(int, np.argsort(-found.log_mass)):
        if not found.relevant[k] or k in numbers:
            continue
        if len(numbers) < most:
            numbers.append(k)
            continue
        slot = _least_needed(found, [*numbers, k])
        if slot < most:
            numbers[slot] = k
    return numbers


def _least_needed(found: KnownList, numbers: list[int]) -> int:
    """The place in a list of modes of the lightest one that others can replace everywhere.

    Others can if the same coordinates have modes that are apart in them without it: chains move
    single coordinates between the places that known modes have them at.
    """
    shapes = [found.shapes[k] for k in numbers]
    log_mass = found.log_mass[numbers]
    means, sds = np.stack([s.mean for s in shapes]), np.stack([s.sds for s in shapes])
    low, high = means - sds, means + sds

    def without(k: int) -> np.ndarray:
        return np.delete(low, k, 0).max(0) > np.delete(high, k, 0).min(0)

    splits = low.max(0) > high.min(0)
    heavy = log_mass > log_mass.max() - FAR_LIGHTER - found.landscape.size / 2
    needed = np.array([heavy[k] and (splits & ~without(k)).any() for k in range(len(numbers))])
    return int(np.argmin(np.where(needed & ~needed.all(), np.inf, log_mass)))


def found_modes(found: KnownList, numbers: list[int], base: float = 0.0) -> FoundModes:
    r"""The modes of a list by the arrays that chains jump with.

    In up to 40 coordinates each has a factor of its own, or that of another mode if the energies
    around both show that it is a copy by an order and signs of coordinates. In more, one diagonal
    serves all: what many coordinates are off by would add up.

    Args:
        found: the list.
        numbers: which modes of it, one in each slot.
        base: what is taken from their energies, in nats. Defaults to 0.

    Source: Pompe, Holmes and Latuszynski (2020), section 2, for jumps by the modes' shapes.
    """
    size, landscape = found.landscape.size, found.landscape
    dtype, most = jnp.result_type(float), slots(size)
    shapes = [found.shapes[k] for k in numbers]
    dense = size <= MOST_FULL_SHAPE
    one = np.eye(size) if dense else np.ones(size)
    mean, energy = np.zeros((most, size)), np.full(most, np.nan)
    factor, inverse = (np.repeat(one[None], most, 0) for _ in range(2))
    log_volume, is_normal = np.zeros(most), np.zeros(most, bool)
    number = len(shapes)
    for slot, shape in enumerate(shapes):
        energy[slot] = shape.energy - base
        mean[slot] = shape.mean
        if not dense:
            factor[slot] = shapes[0].sds
            inverse[slot], log_volume[slot] = 1 / factor[slot], np.log(factor[slot]).sum()
            continue
        before = mean[:slot], factor[:slot]
        copy, is_normal[slot] = _compared(landscape, shape, before)
        log_volume[slot] = shape.log_volume
        factor[slot], inverse[slot] = shape.factor, _inverse(shape)
        if copy is not None:
            original, turn = copy
            log_volume[slot] = log_volume[original]
            mean[slot], factor[slot] = turn @ mean[original], turn @ factor[original]
            inverse[slot] = inverse[original] @ turn.T
    known = np.arange(most) < number
    log_mass = np.where(known, log_volume - np.nan_to_num(energy), -np.inf)
    share = np.where(known, np.maximum(EVENNESS * (log_mass - log_mass.max()), LEAST_SHARE), 0.0)
    modes = known, mean, factor, inverse, log_volume, share
    of_type = lambda x: jnp.asarray(x.astype(dtype) if x.dtype.kind == "f" else x)
    nowhere = np.zeros(most, np.int32)
    rest = log_mass, energy, is_normal, np.zeros(most), nowhere, np.int32(found.descents)
    return FoundModes(Modes(*map(of_type, modes)), *map(of_type, map(np.asarray, rest)))


def _inverse(shape: Shape) -> np.ndarray:
    assert shape.inverse is not None
    return shape.inverse


def _compared(
    landscape: Landscape, shape: Shape, before: tuple[np.ndarray, np.ndarray]
) -> tuple[tuple[int, np.ndarray] | None, bool]:
    """The mode that one is a copy of with the turn that leads there, and whether it is a normal.

    Args:
        landscape: the energies.
        shape: the shape of the mode.
        before: means, (k, d), and factors, (k, d, d), of the modes before it.
    """
    size = landscape.size
    offsets = np.concatenate([np.zeros((1, size)), directions_around(size, float)])
    places = [shape.mean + offsets @ shape.factor.T]
    found = _as_copy(shape, *before)
    if found is not None:
        k, turn = found
        original = before[0][k] + offsets @ before[1][k].T
        places += [original, original @ turn.T]
    energies, _ = landscape.at(np.concatenate(places))
    around = energies.reshape(len(places), -1)
    with np.errstate(invalid="ignore", divide="ignore"):
        rises = around[:, 1:] - around[:, :1]
        apart = np.log(rises[0]) - np.log(0.5 * (offsets[1:] ** 2).sum(1))
    is_normal = bool((np.abs(apart) < ABOUT).all())
    if found is None:
        return None, is_normal
    by_shape, by_order = np.sqrt(np.mean((rises[[0, 2]] - rises[1]) ** 2, 1))
    rounding = 16 * landscape.epsilon * abs(shape.energy)
    alike = np.isfinite(by_order) and not by_order > max(by_shape, AS_GOOD + rounding)
    return (found if alike else None), is_normal


def _as_copy(shape: Shape, means: np.ndarray, factors: np.ndarray) -> tuple[int, np.ndarray] | None:
    """A mode with the same coordinates but for their order and signs, and the turn to it.

    Returns:
        The number of the mode, and the signed permutation P, (d, d), with the mean P m; None where
        there is none.
    """
    if not len(means):
        return None
    sizes = np.argsort(np.abs(shape.mean), kind="stable")
    ranks = np.argsort(np.argsort(np.abs(means), 1, kind="stable"), 1)
    orders = sizes[ranks]
    there = shape.mean[orders]
    signs = np.where(means * there < 0, -1.0, 1.0)
    sds = np.sqrt((factors**2).sum(-1))
    away = np.max(np.abs(signs * there - means) / sds, -1)
    nearest = int(np.argmin(away))
    if not away[nearest] < SAME:
        return None
    turn = np.zeros(factors.shape[1:])
    turn[orders[nearest], np.arange(len(turn))] = signs[nearest]
    return nearest, turn


def spread_of(shape: Shape) -> np.ndarray:
    r"""The diagonal of a first preconditioner in a mode, (d,).

    .. math:: M_i = \sqrt{C_{ii} / H_{ii}}

    with C the covariance of its normal and H its inverse: what the spreads of positions and
    gradients come to in it.

    Args:
        shape: the shape of the mode.
    """
    if shape.inverse is not None:
        curvatures = (shape.inverse**2).sum(0)
    else:
        scales, directions, stretches = shape.factor
        curvatures = (1 + directions**2 @ (1 / stretches**2 - 1)) / scales**2
    return shape.sds / np.sqrt(curvatures)
