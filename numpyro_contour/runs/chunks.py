"""Chunks of draws that are evaluated together."""

from __future__ import annotations

from collections.abc import Iterator


def chunks(draws: int, at_once: int) -> Iterator[slice]:
    """Slices of one length, so that they share a compilation; the last one reaches back.

    Example:
        >>> from numpyro_contour.runs.chunks import chunks
        >>> [(rows.start, rows.stop) for rows in chunks(7, 3)]
        [(0, 3), (3, 6), (4, 7)]
    """
    length = min(draws, at_once)
    for begin in range(0, draws, length):
        start = min(begin, draws - length)
        yield slice(start, start + length)
