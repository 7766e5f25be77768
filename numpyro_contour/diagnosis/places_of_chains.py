"""Groups of chains that sit in different places, and how to say which are where."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# At most this many groups, and chains of a group, are named.
_MOST_GROUPS, _MOST_CHAINS = 4, 4


class Place(NamedTuple):
    """Where some of the chains are."""

    #: the mean of a scalar over these chains
    value: float
    #: their numbers
    chains: list[int]


def places(values: np.ndarray, weights: np.ndarray) -> list[Place]:
    """The groups of chains whose values of a scalar do not overlap, the largest group first.

    Two chains are apart if their means differ by more than their standard deviations together. A
    chain that holds two modes has a large one, and so joins them.

    Args:
        values: draws, (chains, draws).
        weights: their weights, (chains, draws), each chain's of mean 1.
    """
    means = (weights * values).mean(1)
    spreads = np.sqrt((weights * (values - means[:, None]) ** 2).mean(1))
    order = np.argsort(means)
    # What chains on the left reach up to, and from where on those on the right begin.
    reached = np.maximum.accumulate((means + spreads)[order])
    begins = np.minimum.accumulate((means - spreads)[order][::-1])[::-1]
    groups = np.split(order, np.flatnonzero(begins[1:] > reached[:-1]) + 1)
    found = [Place(float(means[group].mean()), sorted(map(int, group))) for group in groups]
    return sorted(found, key=lambda place: -len(place.chains))


def in_words(found: list[Place]) -> str:
    """Which chains are where, at most four places of them."""
    named = [f"near {place.value:.3g} in {_chains(place.chains)}" for place in found[:_MOST_GROUPS]]
    more = len(found) - _MOST_GROUPS
    if more > 0:
        named.append(f"elsewhere in {sum(len(p.chains) for p in found[_MOST_GROUPS:])} others")
    return _listed(named)


def _chains(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"chain {numbers[0]}"
    if len(numbers) > _MOST_CHAINS:
        return f"{len(numbers)} chains ({', '.join(map(str, numbers[:2]))}, ...)"
    return f"chains {_listed([str(n) for n in numbers])}"


def _listed(words: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
