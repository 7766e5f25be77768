"""Energy bins for figures: the same ones for all chains, and joined where visits are few."""

from __future__ import annotations

import numpy as np


def spread(masses: np.ndarray, edges: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """The mass of each of other bins, if mass is spread evenly within the bins that it is given in.

    What lies outside the other bins counts to the first and to the last of them, as with the bins
    of a partition, so no mass is lost.

    Args:
        masses: mass of each bin, (..., bins).
        edges: their edges in nats, (bins + 1,).
        onto: edges of the other bins in nats, (others + 1,).

    Returns:
        Mass of each of the other bins, (..., others).
    """
    inner = onto[1:-1]
    width = np.diff(edges)
    # The share of each bin that lies below each of the inner edges.
    below = np.clip((inner[:, None] - edges[:-1]) / width, 0.0, 1.0)
    ends = np.zeros((1, len(width))), np.ones((1, len(width)))
    shares = np.diff(np.concatenate([ends[0], below, ends[1]]), axis=0)
    return masses @ shares.T


def common_edges(edges: np.ndarray) -> np.ndarray:
    """Edges of even bins from the lowest to the highest energy of all partitions.

    Args:
        edges: edges of each chain's bins in nats, (chains, bins + 1).

    Returns:
        Edges, those of the chains if they are the same, or else those of bins as wide as the
        chains' in the median.
    """
    if np.all(edges == edges[0]):
        return edges[0]
    low, high = edges.min(), edges.max()
    number = round((high - low) / float(np.median(np.diff(edges))))
    return np.linspace(low, high, number + 1)


def joined_edges(edges: np.ndarray, visits: np.ndarray, least: float) -> np.ndarray:
    """Edges of bins with enough visits each: neighbours are joined, from the left, until they have.

    Args:
        edges: edges of the bins, (bins + 1,).
        visits: visits of each bin, (bins,), not all of them 0.
        least: how many visits are enough.

    Returns:
        Some of the edges, from the left of the first to the right of the last visited bin. Bins at
        the right end that do not have enough together are joined to the last one that has.
    """
    visited = np.flatnonzero(visits > 0)
    chosen, held = [visited[0]], 0.0
    for i in range(visited[0], visited[-1] + 1):
        held += visits[i]
        if held >= least:
            chosen.append(i + 1)
            held = 0.0
    if len(chosen) == 1:
        chosen.append(visited[-1] + 1)
    chosen[-1] = visited[-1] + 1
    return edges[chosen]
