"""Draws of several scalars in rising order: what is read off the order once they are sorted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri


class Ranked(NamedTuple):
    """The draws that have weight, of several scalars, in rising order; ties in the order given."""

    #: where each stands among all draws, as they were given, (scalars, draws)
    order: np.ndarray
    #: the draws, (scalars, draws)
    values: np.ndarray
    #: their weights, (scalars, draws)
    weights: np.ndarray
    #: the weight up to each draw, itself included, (scalars, draws)
    reached: np.ndarray

    @classmethod
    def of(cls, flat: np.ndarray, weights: np.ndarray) -> Ranked:
        """Draws (scalars, draws) in rising order, by their weights (draws,)."""
        places = np.flatnonzero(weights > 0)
        kept = flat if places.size == weights.size else flat[:, places]
        order = np.argsort(kept, axis=1)
        values = np.take_along_axis(kept, order, 1)
        _order_ties(order, values)
        order = order if places.size == weights.size else places[order]
        ranked = weights[order]
        return cls(order, values, ranked, np.cumsum(ranked, 1))

    def distances(self, centres: np.ndarray) -> Ranked:
        """The distances from one value of each scalar, (scalars,), in rising order."""
        away = np.abs(self.values - centres[:, None])
        # Two rising runs: a stable sort merges them, where the other one would begin anew.
        at = np.argsort(away, axis=1, kind="stable")
        order, values, weights = (
            np.take_along_axis(x, at, 1) for x in (self.order, away, self.weights)
        )
        return Ranked(order, values, weights, np.cumsum(weights, 1))

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """Quantiles of each scalar, (scalars, *levels); NaN where a draw is."""
        found = np.full((len(self.values), *np.shape(levels)), np.nan)
        for i, (values, weights, reached) in enumerate(
            zip(self.values, self.weights, self.reached)
        ):
            if not np.isnan(values[-1]):
                middle = reached - weights / 2
                middle -= middle[0]
                found[i] = np.interp(np.asarray(levels) * middle[-1], middle, values)
        return found

    def narrowest(self, prob: float) -> np.ndarray:
        """The ends of the narrowest interval of more than this weight, (scalars, 2)."""
        found = np.full((len(self.values), 2), np.nan)
        for i, (values, reached) in enumerate(zip(self.values, self.reached)):
            if not np.isnan(values[-1]):
                found[i] = _narrowest(values, reached, prob)
        return found

    def normal_scores(self, size: int) -> np.ndarray:
        """Normal quantiles at the weighted ranks; Blom's at the average ranks on equal weights.

        Args:
            size: how many draws there are, those without weight included: their score is 0.

        Returns:
            The scores in the order in which the draws were given, (scalars, size).
        """
        ranks = self.reached - self.weights / 2
        for i in np.flatnonzero((self.values[:, 1:] == self.values[:, :-1]).any(1)):
            begins = np.concatenate([[True], self.values[i, 1:] != self.values[i, :-1]])
            tied = np.add.reduceat(self.weights[i], np.flatnonzero(begins))
            ranks[i] = (np.cumsum(tied) - tied / 2)[np.cumsum(begins) - 1]
        ranks += 0.5 - 0.375
        ranks /= self.reached[:, -1:] + 0.25
        scores = np.zeros((len(ranks), size))
        np.put_along_axis(scores, self.order, ndtri(ranks), 1)
        return scores


def _order_ties(order: np.ndarray, values: np.ndarray) -> None:
    """Put equal draws into the order in which they were given, as a stable sort would.

    A stable sort takes several times as long.
    """
    for i in np.flatnonzero((values[:, 1:] == values[:, :-1]).any(1)):
        group = np.cumsum(np.concatenate([[0], values[i, 1:] != values[i, :-1]]))
        keys = group * order.shape[1] + order[i]
        keys.sort()
        order[i] = keys - group * order.shape[1]


def _narrowest(values: np.ndarray, reached: np.ndarray, prob: float) -> list[float]:
    total = reached[-1]
    # No interval of that weight begins later; two more draws, for what rounding does to sums.
    begins = min(int(np.searchsorted(reached, (1 - prob) * total, side="right")) + 3, len(values))
    below = np.concatenate([[0.0], reached[: begins - 1]])
    last = np.searchsorted(reached, prob * total + below, side="right")
    # An interval that would need more weight than there is does not exist, but for all the draws.
    last[0] = min(last[0], len(values) - 1)
    first = np.flatnonzero(last < len(values))
    widths = values[last[first]] - values[first]
    narrowest = first[np.argmin(widths)]
    return [values[narrowest], values[last[narrowest]]]
