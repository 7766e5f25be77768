"""Blocks of coordinates that take one of several places each, where modes are combinations.

Of such modes no list holds more than a few. A block is moved from one of its places to another, and
all other coordinates stay.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from numpyro_contour.modes.landscape import Landscape

# Fewer modes have no combinations that are not known.
_LEAST_MODES = 3
# The most places of a block between which it is moved, and the most moves in all.
_MOST_PLACES, _MOST_FLIPS = 6, 256
# The number of modes from which a flip is tried. It leads to another mode if the energy is at most
# this much higher there, in nats, at all and for each coordinate.
_TRIED = 8
_RISE, _RISE_A_COORDINATE = 8.0, 0.5
# Pairs of modes that differ in at most this share of the coordinates show a block too.
_FEW = 0.5


class Flips(NamedTuple):
    """Moves of a block of coordinates between two places, P in all."""

    #: which coordinates are in the block, (P, d)
    inside: np.ndarray
    #: the two places, (P, 2, d); 0 outside of the block
    place: np.ndarray
    #: the standard deviations there, (P, 2, d); 1 outside of the block
    sd: np.ndarray

    def only(self, which: np.ndarray) -> Flips:
        """Some of the flips."""
        return Flips(*(x[which] for x in tuple(self)))

    def flipped(self, positions: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Positions, (n, d), each moved by one of the flips, (n,), from its nearer place."""
        inside, place, sd = (x[which] for x in tuple(self))
        z = (positions[:, None] - place) / sd
        squares = np.where(inside[:, None], z**2, 0.0).sum(-1)
        row, here = np.arange(len(which)), squares.argmin(1)
        moved = place[row, 1 - here] + sd[row, 1 - here] * z[row, here]
        return np.where(inside, moved, positions)


def flips_of(means: np.ndarray, sds: np.ndarray, log_mass: np.ndarray) -> Flips:
    """The flips that a list of modes shows, the most useful ones first.

    Coordinates that change together from mode to mode are one block, with a place for each cluster
    of modes. Two modes that differ in few coordinates show that these are a block as well.

    Args:
        means: of the modes, (K, d).
        sds: standard deviations of the coordinates in each, (K, d).
        log_mass: log masses of the modes, (K,).

    Returns:
        The `Flips`; none where all coordinates that change do so together.

    Source: ter Braak (2006) for moves along differences of positions, here of known modes.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.modes.blocks import flips_of
        >>> corners = 3.0 * np.array([[-1, -1], [1, -1], [-1, 1]])
        >>> flips_of(corners, np.ones((3, 2)), np.zeros(3)).inside.tolist()
        [[False, True], [True, False]]
    """
    count, size = means.shape
    found: dict[tuple, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
    labels = places_of(means, sds)
    changes = labels.max(1) > 0
    if count < _LEAST_MODES or not changes.any():
        return _stacked([], size)
    weights = np.exp(log_mass - log_mass.max())

    def add(inside: np.ndarray, first: np.ndarray, second: np.ndarray) -> None:
        place, sd = [], []
        for members in (first, second):
            w = weights[members] / weights[members].sum()
            place.append(np.where(inside, w @ means[members], 0.0))
            sd.append(np.where(inside, np.exp(w @ np.log(sds[members])), 1.0))
        ends = tuple(sorted(np.round(x / s.min(), 0).tobytes() for x, s in zip(place, sd)))
        found.setdefault((inside.tobytes(), *ends), (inside, np.stack(place), np.stack(sd)))

    for signature in np.unique(labels[changes], axis=0):
        inside = (labels == signature).all(1)
        if inside.sum() == changes.sum():
            continue
        masses = np.bincount(signature, weights)
        places = np.argsort(-masses)[:_MOST_PLACES]
        for i, one in enumerate(places):
            for other in places[:i]:
                add(inside, signature == one, signature == other)
    numbers = np.arange(count)
    blocks = np.array([inside for inside, _, _ in found.values()], bool).reshape(-1, size)
    for inside, i, j in _telling_pairs(labels, blocks, weights)[: 4 * _MOST_FLIPS]:
        if len(found) >= _MOST_FLIPS:
            break
        add(inside, numbers == i, numbers == j)
    return _stacked(list(found.values())[:_MOST_FLIPS], size)


def places_of(means: np.ndarray, sds: np.ndarray) -> np.ndarray:
    """The number of the place of each coordinate in each mode, (d, K)."""
    return np.stack([_clusters(m, s) for m, s in zip(means.T, sds.T)])


def fitting(
    flips: Flips, means: np.ndarray, energies: np.ndarray, landscape: Landscape
) -> np.ndarray:
    """The share of known modes from which each flip leads to another one, (P,).

    Coordinates may have places of their own although modes are no combinations: those of a mixture,
    whose components have orders, do. Flips lead nowhere then, or from some of the modes only.

    Args:
        flips: flips.
        means: the bottoms of modes, (K, d).
        energies: the potential energies there, (K,).
        landscape: the energies.
    """
    if not len(flips.inside):
        return np.empty(0)
    tried = np.arange(min(len(means), _TRIED))
    which = np.repeat(np.arange(len(flips.inside)), len(tried))
    moved = flips.flipped(means[np.tile(tried, len(flips.inside))], which)
    found, _ = landscape.at(moved)
    rises = found.reshape(-1, len(tried)) - energies[tried]
    return (rises < _RISE + _RISE_A_COORDINATE * means.shape[1]).mean(1)


def _telling_pairs(
    labels: np.ndarray, blocks: np.ndarray, weights: np.ndarray
) -> list[tuple[np.ndarray, int, int]]:
    """Pairs of modes that differ in few coordinates, and in others than blocks together.

    Those that differ in the fewest come first, of these the heaviest.
    """
    i, j = np.tril_indices(len(weights), -1)
    apart, which = np.unique(labels.T[i] != labels.T[j], axis=0, return_inverse=True)
    number = apart.sum(1)
    telling = (number > 0) & (number <= _FEW * (labels.max(1) > 0).sum())
    telling &= np.array([not _is_union(inside, blocks) for inside in apart])
    kept = np.flatnonzero(telling[which.ravel()])
    i, j, which = i[kept], j[kept], which.ravel()[kept]
    order = np.lexsort((-weights[i] - weights[j], number[which]))
    return [(apart[which[n]], int(i[n]), int(j[n])) for n in order]


def _is_union(inside: np.ndarray, blocks: np.ndarray) -> bool:
    """Whether coordinates are those of some of the blocks, (B, d), together."""
    parts = blocks[~(blocks & ~inside).any(1)]
    return len(parts) > 0 and bool((parts.any(0) == inside).all())


def _clusters(means: np.ndarray, sds: np.ndarray) -> np.ndarray:
    """The cluster of each mode in one coordinate, (K,), numbered as they first occur.

    Two modes are apart where the sum of their standard deviations is less than their distance.
    """
    order = np.argsort(means)
    low, high = (means - sds)[order], (means + sds)[order]
    begins = np.maximum.accumulate(high)[:-1] < np.minimum.accumulate(low[::-1])[::-1][1:]
    cluster = np.empty(len(means), int)
    cluster[order] = np.concatenate([[0], np.cumsum(begins)])
    _, first, inverse = np.unique(cluster, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def no_flips(size: int) -> Flips:
    """None, of d coordinates."""
    return Flips(np.empty((0, size), bool), np.empty((0, 2, size)), np.empty((0, 2, size)))


def _stacked(flips: list[tuple[np.ndarray, np.ndarray, np.ndarray]], size: int) -> Flips:
    return Flips(*map(np.stack, zip(*flips))) if flips else no_flips(size)
