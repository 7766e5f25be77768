"""The search for modes: rounds of descents, until another round would hardly find more mass."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from numpyro_contour.modes.blocks import Flips, no_flips
from numpyro_contour.modes.known_list import KnownList
from numpyro_contour.modes.landscape import Landscape
from numpyro_contour.modes.shape import Shape
from numpyro_contour.modes.starts import anywhere, around, combinations, copies, unexplained

#: descents of the first round and of each further one
FIRST_ROUND, ROUND = 64, 32
# The search ends where as many descents again would add less than this share of the mass.
_LITTLE = 0.01
# And where less than this is in modes that one or two have ended in.
_THIN = 0.1
# A round looks at places to choose where descents begin: at few, or if the search would end, at a
# number that is this share of its work. The most rounds of the second kind that find something new.
_FEW_PLACES, _PLACES, _LOOKS = 256, 0.1, 3
# How often descents go on that have not arrived.
_ONWARDS = 2


@dataclass(frozen=True)
class Search:
    """What a search has found."""

    shapes: tuple[Shape, ...]
    #: log masses by the normals of the modes, (K,)
    log_mass: np.ndarray
    #: potential energies and gradients at the modes' means, (K,) and (K, d)
    energy: np.ndarray
    gradient: np.ndarray
    #: descents that ended in each mode, (K,)
    counts: np.ndarray
    #: moves of blocks of coordinates that lead from mode to mode
    flips: Flips
    #: all descents, and those that ended in no mode, by why
    descents: int
    nowhere: dict[str, int]
    #: modes that a single descent found, and nothing else
    alone: int
    #: the mass that as many descents again would add, as a share of what is known; NaN where the
    #: modes were given
    unseen: float
    #: evaluations of energy and gradient
    gradients: int


def search(
    landscape: Landscape, rng: np.random.Generator, given: np.ndarray, most_gradients: float
) -> Search:
    """Modes of a density, by descents from many places.

    Args:
        landscape: its energies.
        rng: where descents begin is drawn from it.
        given: places where descents of the first round begin as well, up to half of them, and some
            of each further one, (n, d).
        most_gradients: the number of evaluations after which no further round begins.

    Returns:
        The `Search`, with the modes of more mass first.
    """
    found = KnownList(landscape)
    explore(found, rng, given, most_gradients)
    return _result(found)


def explore(
    found: KnownList, rng: np.random.Generator, given: np.ndarray, most_gradients: float
) -> None:
    """Fill an empty list with the modes of a density, by rounds of descents.

    Args:
        found: the list.
        rng: as for `search`.
        given: as for `search`.
        most_gradients: as for `search`.
    """
    landscape = found.landscape
    first = given[: FIRST_ROUND // 2]
    starts = np.concatenate([first, anywhere(rng, FIRST_ROUND - len(first), landscape.size)])
    looked_with: list[int] = []
    while True:
        go_down(found, starts)
        if not found.shapes or landscape.gradients > most_gradients:
            break
        flips, share = found.flips()
        alone = found.alone(flips, share)
        number, places = len(found.shapes), _FEW_PLACES
        if found.unseen(alone) < _LITTLE and found.thin(alone) < _THIN:
            if number in looked_with or len(looked_with) == _LOOKS:
                break
            looked_with.append(number)
            places = int(_PLACES * most_gradients)
        starts = _further(found, flips, rng, given, places)


def look_again(found: KnownList, rng: np.random.Generator, places: np.ndarray) -> None:
    """Descend from some places, and in one more round from likely ones.

    Args:
        found: the list of modes that are known; there is one at least.
        rng: where descents begin is drawn from it.
        places: where chains are, (n, d).
    """
    flips, _ = found.flips()
    nowhere = places[:0]
    go_down(found, np.concatenate([places, _further(found, flips, rng, nowhere, _FEW_PLACES)]))


def polished(landscape: Landscape, given: np.ndarray) -> Search:
    """The modes to which positions lead, without a search for others.

    Args:
        landscape: the energies.
        given: the positions, (n, d).
    """
    found = KnownList(landscape)
    go_down(found, given)
    return replace(_result(found), alone=0, unseen=math.nan)


def go_down(found: KnownList, starts: np.ndarray) -> None:
    """Descend from some places, and onwards from where descents have not arrived.

    Args:
        found: the list of modes that are known.
        starts: the places, (n, d).
    """
    for left in range(_ONWARDS, -1, -1):
        if not len(starts):
            return
        starts = found.add(found.landscape.descend(starts), last=not left)


def _further(
    found: KnownList, flips: Flips, rng: np.random.Generator, given: np.ndarray, places: int
) -> np.ndarray:
    """Where the descents of a further round begin."""
    shapes = [found.shapes[k] for k in np.flatnonzero(found.relevant)]
    part = ROUND // 4
    parts = [
        combinations(rng, part, shapes, flips),
        copies(rng, part, shapes),
        around(rng, part, shapes),
        unexplained(rng, part, shapes, found.landscape, places),
    ]
    rest = ROUND - sum(map(len, parts))
    again = given[rng.permutation(len(given))[: rest // 2]]
    return np.concatenate([*parts, again, anywhere(rng, rest - len(again), found.landscape.size)])


def _result(found: KnownList) -> Search:
    flips, share = no_flips(found.landscape.size), np.empty(0)
    if found.shapes:
        flips, share = found.flips()
    alone = found.alone(flips, share)
    log_mass, counts = found.log_mass, np.array(found.counts, int)
    order = np.argsort(-log_mass)[: int(found.relevant.sum())]
    shapes = tuple(found.shapes[k] for k in order)
    means = np.array([shape.mean for shape in shapes]).reshape(-1, found.landscape.size)
    return Search(
        shapes,
        log_mass[order],
        *found.landscape.at(means),
        counts[order],
        flips,
        found.descents,
        dict(found.nowhere),
        int((alone & found.relevant).sum()),
        found.unseen(alone),
        found.landscape.gradients,
    )
