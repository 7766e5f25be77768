"""Where descents begin: a list of functions, each with one idea of where a mode may be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from numpyro_contour.modes.blocks import Flips
from numpyro_contour.modes.landscape import Landscape
from numpyro_contour.modes.shape import Shape

# The width of NumPyro's own starts, and the largest standard deviation of starts beyond them.
_NUMPYROS, _WIDEST = 2.0, 30.0
# So many times as far from a mode as its draws at most.
_FURTHEST = 16.0
# Candidates for each place that known modes do not explain.
_CANDIDATES = 32


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
    chosen = rng.integers(len(shapes), size=number)
    distance = _FURTHEST ** rng.uniform(size=(number, 1))
    normal = rng.standard_normal((number, len(shapes[0].mean)))
    return np.stack([shapes[k].placed(z) for k, z in zip(chosen, distance * normal)])


def unexplained(
    rng: np.random.Generator, number: int, shapes: Sequence[Shape], landscape: Landscape
) -> np.ndarray:
    r"""Of many places around known modes, those where the density is highest above theirs.

    .. math:: \arg\max_x\; -U(x) - \log \sum_k e^{-U_k - |F_k^{-1} (x - m_k)|^2 / 2}

    A narrow mode draws descents from its neighbourhood only, which one place seldom hits. There
    the density is much higher than that of the others.
    """
    candidates = around(rng, number * _CANDIDATES, shapes)
    energies, _ = landscape.at(candidates)
    known = np.stack([-k.energy - 0.5 * k.squares(candidates) for k in shapes])
    above = -energies - np.logaddexp.reduce(known, axis=0)
    above = np.where(np.isfinite(above), above, -np.inf).reshape(number, _CANDIDATES)
    places = candidates.reshape(number, _CANDIDATES, -1)
    return places[np.arange(number), above.argmax(1)]


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
