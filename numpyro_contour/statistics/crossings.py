"""Two sides of one scalar, and how often chains went from one to the other and back.

Draws in two modes say how probable each is only through the visits: a mode that was found once, by
chance, has a weight that nobody knows, however many draws lie in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, polygamma

# The range between these quantiles, and a tenth more at both ends, is divided into bins.
_TAILS = (0.002, 0.998)
_MOST_BINS, _DRAWS_OF_A_BIN = 40, 10
# A valley's density is at most this share of both peaks beside it,
_DEPTH = 0.2
# and the lower peak's at least this share of the higher one's: less is a tail.
_LEAST_PEAK = 0.01
# A side on which there are fewer draws, or on which a visit takes fewer, is no mode.
_FEWEST_DRAWS = 5
_SHORTEST_VISIT = 3.0
# In a mode a chain forgets where it is before it leaves: a visit takes at least so many of the
# times that this needs. A chain that is slow everywhere has heaps of draws, and no modes.
_FORGETS = 5.0
# From so many round trips on autocorrelations tell the error as well.
_MANY = 25


class Valley(NamedTuple):
    """A scalar's values with next to no draws, between two peaks of their density."""

    #: the value at which the density is lowest
    cut: float
    #: the values at the peaks below and above
    low: float
    high: float
    #: the weight of the draws above
    share: float
    #: whole trips from one side to the other and back of each chain, (chains,)
    trips: np.ndarray
    #: draws of a visit in the mean, to the side above and to that below
    stays: tuple[float, float]


#: the draws of a scalar that have weight, in rising order, and their weights
InOrder = tuple[np.ndarray, np.ndarray]


def valleys(x: np.ndarray, weights: np.ndarray, in_order: InOrder | None = None) -> list[Valley]:
    """The valleys between the modes of a scalar.

    Args:
        x: draws, (chains, draws).
        weights: their weights, (chains, draws), each chain's of mean 1.
        in_order: those with weight in rising order, where they are known. None (default) to sort
            them.

    Returns:
        A `Valley` for each, from low values to high ones; none where there is one mode.
    """
    counted = weights > 0
    if counted.sum() < 4 * _FEWEST_DRAWS or not np.isfinite(x).all():
        return []
    if in_order is None:
        order = np.argsort(x[counted])
        in_order = x[counted][order], weights[counted][order]
    found = []
    for cut, low, high in _between_peaks(*in_order):
        above = (x > cut) & counted
        if not _FEWEST_DRAWS <= above.sum() <= counted.sum() - _FEWEST_DRAWS:
            continue
        # On the slope near the valley a draw is on neither side: it may turn round.
        clear = [of_chain[has] for of_chain, has in zip(x, counted)]
        clear = [one[(one <= 0.5 * (low + cut)) | (one >= 0.5 * (high + cut))] for one in clear]
        sides = [one > cut for one in clear]
        changes = np.array([np.count_nonzero(np.diff(side)) for side in sides])
        stays = (_stay(sides, True), _stay(sides, False))
        if min(stays) >= max(_SHORTEST_VISIT, _FORGETS * _relaxation(clear, sides)):
            share = float(weights[above].sum() / weights[counted].sum())
            found.append(Valley(cut, low, high, share, changes // 2, stays))
    return found


def has_peaks(x: np.ndarray, weights: np.ndarray) -> bool:
    """Whether the density of a scalar has several peaks, however often chains change them.

    Args:
        x: draws, (chains, draws).
        weights: their weights, (chains, draws).
    """
    counted = weights > 0
    order = np.argsort(x[counted])
    return len(_between_peaks(x[counted][order], weights[counted][order])) > 0


def error_of_visits(x: np.ndarray, weights: np.ndarray, in_order: InOrder | None = None) -> float:
    r"""The part of the standard error of a mean that comes from the weights of two modes.

    .. math:: |\mu_2 - \mu_1| \, p (1 - p) s, \qquad
              s^2 = (2 - 1 / \ell_1 - 1 / \ell_2) \, \psi'(n)

    for n round trips between modes of weights p and 1 - p, whose visits take :math:`\ell_1` and
    :math:`\ell_2` draws. A chain that leaves each mode at a constant rate stays for exponential
    times, whose sums have logarithms of variance :math:`\psi'(n)`, the trigamma function, nearly
    1 / n: s is the error of the logit of p. Where few trips make it large, the error is a third of
    what three s on the logit leave open, if that is more: a mode that was visited once, and soon
    left, may be as probable as the other. Autocorrelations tell the same where there are many
    visits. Of a few they tell little, and mostly too little.

    Args:
        x: draws, (chains, draws).
        weights: their weights, (chains, draws), each chain's of mean 1.
        in_order: as in `valleys`.

    Returns:
        The largest such error over the scalar's valleys; 0 where there is one mode or where there
        are many trips, NaN where no chain made a round trip: nothing tells the weights then.

    Source: the delta method for an alternating renewal process (Asmussen 2003, section VI.3).
    """
    errors = [0.0]
    for valley in valleys(x, weights, in_order):
        trips = int(valley.trips.sum())
        if trips == 0:
            return float("nan")
        if trips < _MANY:
            above = x > valley.cut
            apart = np.average(x[above], weights=weights[above]) - np.average(
                x[~above], weights=weights[~above]
            )
            errors.append(abs(apart) * _error_of_share(valley, trips))
    return max(errors)


def _error_of_share(valley: Valley, trips: int) -> float:
    spread = 2 - sum(1 / stay for stay in valley.stays)
    s = np.sqrt(spread * polygamma(1, trips))
    p = np.clip(valley.share, 1e-12, 1 - 1e-12)
    ends = expit(logit(p) + 3 * s * np.array([-1, 1]))
    return float(max(p * (1 - p) * s, *np.abs(ends - p) / 3))


def _between_peaks(x: np.ndarray, weights: np.ndarray) -> list[tuple[float, float, float]]:
    """Where the density is low between two peaks: the place, and those of the peaks.

    Draws are in rising order.
    """
    reached = np.cumsum(weights)
    ends = np.searchsorted(reached, np.array(_TAILS) * reached[-1])
    begin, end = x[np.minimum(ends, len(x) - 1)]
    if not end > begin:  # two values, as of an event that is rare
        begin, end = x[0], x[-1]
    more = 0.1 * (end - begin)
    bins = int(np.clip(len(x) // _DRAWS_OF_A_BIN, 8, _MOST_BINS))
    if not more > 0:
        return []
    edges = np.linspace(begin - more, end + more, bins + 1)
    first = np.searchsorted(x, edges[:-1], side="left")
    places = np.append(first, np.searchsorted(x, edges[-1], side="right"))
    mass = np.diff(np.concatenate([[0.0], reached])[places])
    density = np.convolve(mass, [0.25, 0.5, 0.25], "same")
    lower = np.maximum.accumulate(density)
    upper = np.maximum.accumulate(density[::-1])[::-1]
    peak = np.minimum(lower, upper)
    is_low = (density <= _DEPTH * peak) & (peak >= _LEAST_PEAK * density.max())
    middle = 0.5 * (edges[1:] + edges[:-1])
    found = []
    for places in np.split(np.arange(bins), np.flatnonzero(np.diff(is_low)) + 1):
        if is_low[places[0]]:
            lowest = places[density[places] == density[places].min()]
            at = lowest[len(lowest) // 2]
            low, high = density[:at].argmax(), at + density[at:].argmax()
            found.append((float(middle[at]), float(middle[low]), float(middle[high])))
    return found


def _stay(sides: list[np.ndarray], above: bool) -> float:
    """Draws of a visit in the mean, over the chains; of no visit, none."""
    draws = sum(np.count_nonzero(side == above) for side in sides)
    visits = sum(
        np.count_nonzero(np.diff(np.concatenate([[not above], side])) & (side == above))
        for side in sides
        if side.size
    )
    return draws / visits if visits else 0.0


def _relaxation(x: list[np.ndarray], sides: list[np.ndarray]) -> float:
    """In how many draws a chain forgets where it is, on the side where it does so sooner.

    The other side may hold several modes.
    """
    times = []
    for above in (True, False):
        here = np.concatenate(x)[np.concatenate(sides) == above]
        products = squares = 0.0
        for values, side in zip(x, sides):
            away = values - here.mean()
            stays = (side[1:] == above) & (side[:-1] == above)
            products += float((away[1:] * away[:-1])[stays].sum())
            squares += float((0.5 * (away[1:] ** 2 + away[:-1] ** 2))[stays].sum())
        r = max(products / squares, 0.0) if squares > 0 else 0.0
        times.append((1 + r) / max(1 - r, 1e-12))
    return min(times)
