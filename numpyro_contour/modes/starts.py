"""Where descents begin: a list of functions, each with one idea of where a mode may be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment

from numpyro_contour.modes.blocks import Flips
from numpyro_contour.modes.landscape import Landscape
from numpyro_contour.modes.shape import Shape

# The width of NumPyro's own starts, and the largest standard deviation of starts beyond them.
_NUMPYROS, _WIDEST = 2.0, 30.0
# The largest distance from a mode, in multiples of that of its draws.
_FURTHEST = 16.0
# Energies and log volumes of copies are so near; energies of float32 are rounded.
_ALIKE, _ROUNDING = 0.1, 1e-5
# Coordinates that are farther apart, in standard deviations, are of no copy, however far.
_FAR = 10.0
# Coordinates that are nearer are the same. Places whose same coordinates are all nearer to those of
# a known mode are in it, in standard deviations. The number looked at for each that is wanted.
_SAME, _APART, _TRIES_OF_COPIES = 1.0, 3.0, 8
# Signs have to bring coordinates nearer by this distance, in standard deviations.
_NEARER = 0.5


def anywhere(rng: np.random.Generator, number: int, size: int) -> np.ndarray:
    """Places that know nothing: half within 2 of 0 in each coordinate, half normal and wider.

    The logarithms of the standard deviations are uniform between those of 1 and 30.
    """
    near = rng.uniform(-_NUMPYROS, _NUMPYROS, (number - number // 2, size))
    widths = _WIDEST ** rng.uniform(size=(number // 2, 1))
    return np.concatenate([near, widths * rng.standard_normal((number // 2, size))])


def around(rng: np.random.Generator, number: int, shapes: Sequence[Shape]) -> np.ndarray:
    r"""Places around known modes, near and far.

    .. math:: x = m_k + \gamma F_k \xi

    with :math:`\xi` standard normal, :math:`\log\gamma` uniform between 0 and log 16, and k any of
    the modes.
    """
    return _at_distances(rng, rng.uniform(size=number), shapes)


def _at_distances(rng: np.random.Generator, way: np.ndarray, shapes: Sequence[Shape]) -> np.ndarray:
    """Places around known modes, with log distances as shares of their largest."""
    chosen = rng.integers(len(shapes), size=len(way))
    normal = rng.standard_normal((len(way), len(shapes[0].mean)))
    away = _FURTHEST ** way[:, None] * normal
    return np.stack([shapes[k].placed(z) for k, z in zip(chosen, away)])


def unexplained(
    rng: np.random.Generator,
    number: int,
    shapes: Sequence[Shape],
    landscape: Landscape,
    candidates: int,
) -> np.ndarray:
    r"""Of many places around known modes, those where the density is highest above theirs.

    .. math:: \arg\max_x\; -U(x) - \log \sum_k e^{-U_k - |F_k^{-1} (x - m_k)|^2 / 2}

    at each of a number of distances. A narrow mode draws descents from its neighbourhood only,
    which few places hit. There the density is much higher than that of the others. Tails that are
    heavier than normal also are above, but at all places of one distance.
    """
    each = max(candidates // number, 1)
    way = (np.arange(number)[:, None] + rng.uniform(size=(number, each))) / number
    places = _at_distances(rng, way.ravel(), shapes)
    energies, _ = landscape.at(places)
    known = np.stack([-k.energy - 0.5 * k.squares(places) for k in shapes])
    above = -energies - np.logaddexp.reduce(known, axis=0)
    above = np.where(np.isfinite(above), above, -np.inf).reshape(number, each)
    return places.reshape(number, each, -1)[np.arange(number), above.argmax(1)]


def copies(rng: np.random.Generator, number: int, shapes: Sequence[Shape]) -> np.ndarray:
    r"""Places of further copies of known modes, where some are copies by an order of coordinates.

    .. math:: x = P m_k, \quad P m_i \approx m_j

    with i and j modes of one energy and volume, P the signed permutation that brings them nearest,
    and k any mode. Coordinates that are no permutation, as those of a Dirichlet's, are left to the
    descent. No place is in a known mode.
    """
    energies = np.array([k.energy for k in shapes])
    volumes = np.array([k.log_volume for k in shapes])
    alike = np.abs(energies[:, None] - energies) < _ALIKE + _ROUNDING * np.abs(energies)
    alike &= np.abs(volumes[:, None] - volumes) < _ALIKE
    pairs = np.argwhere(np.triu(alike, 1))
    places: list[np.ndarray] = []
    for _ in range(_TRIES_OF_COPIES * number if len(pairs) else 0):
        i, j = (int(k) for k in rng.permutation(pairs[rng.integers(len(pairs))]))
        columns, signs, same = _order(shapes[i], shapes[j])
        place = signs * shapes[int(rng.integers(len(shapes)))].mean[columns]
        if all((np.abs(place - k.mean) > _APART * k.sds)[same].any() for k in shapes):
            places.append(place)
        if len(places) == number:
            break
    return np.array(places).reshape(-1, len(shapes[0].mean))


def _order(one: Shape, other: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The order of one mode's coordinates that is nearest to another mode, with their signs.

    Returns:
        The number of the coordinate that stands at each place, (d,); its sign; and whether it is
        the same as there.
    """
    plain = np.abs(other.mean[:, None] - one.mean)
    signed = np.minimum(plain, np.abs(other.mean[:, None] + one.mean))
    rows = np.arange(len(one.mean))
    costs = [np.minimum(away / other.sds[:, None], _FAR) for away in (plain, signed)]
    orders = [linear_sum_assignment(cost)[1] for cost in costs]
    left = [cost[rows, order] for cost, order in zip(costs, orders)]
    # Signs only where they bring all of it nearer: without them fewer coordinates are confused.
    with_signs = int(left[0].sum() > left[1].sum() + len(rows) * _NEARER)
    order = orders[with_signs]
    opposite = with_signs & (other.mean * one.mean[order] < 0)
    return order, np.where(opposite, -1.0, 1.0), left[with_signs] < _SAME


def combinations(
    rng: np.random.Generator, number: int, shapes: Sequence[Shape], flips: Flips
) -> np.ndarray:
    """Places with one block of coordinates of a known mode where another one has it."""
    if not len(flips.inside):
        return np.empty((0, len(shapes[0].mean)))
    chosen = rng.integers(len(shapes), size=number)
    means = np.stack([shapes[k].mean for k in chosen])
    which = rng.integers(len(flips.inside), size=number)
    return flips.flipped(means, which)
