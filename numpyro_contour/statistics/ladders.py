"""What the rejected swaps of replica exchange tell of its ladder of temperatures."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import PchipInterpolator

from numpyro_contour import checks

# Less than this share of the whole barrier between two temperatures is not told from none.
_LEAST_SHARE = 1e-3


def communication_barrier(rejection_rates: np.ndarray) -> np.ndarray:
    r"""The global communication barrier of a ladder, :math:`\Lambda = \sum_i r_i`.

    With swaps of exact energies it hardly depends on how many temperatures a ladder has between the
    same ends. Noise of the energies adds to it for every pair.

    Args:
        rejection_rates: the shares :math:`r_i` of offered swaps that each pair of neighbours
            rejected, (..., R - 1).

    Returns:
        The barrier, (...).

    Source: Syed et al. (2022).

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import communication_barrier
        >>> float(communication_barrier(np.array([0.5, 0.25])))
        0.75
    """
    return np.asarray(rejection_rates, np.float64).sum(-1)


def optimal_round_trip_rate(rejection_rates: np.ndarray, swap_window: int = 1) -> np.ndarray:
    r"""Round trips of all replicas in a round of swaps, if moves forget the energy between rounds.

    .. math:: \frac1W \Bigl(2 + 2 \sum_i \frac{\rho_i}{1 - \rho_i}\Bigr)^{-1}, \qquad
              \rho_i = r_i^W

    where even and odd pairs take turns. Two replicas are one pair, which always has its turn: twice
    as much.

    Args:
        rejection_rates: the shares :math:`r_i` of offered swaps that each pair of neighbours
            rejected, (..., R - 1).
        swap_window: W. Defaults to 1.

    Returns:
        The rate, (...); 0 where a pair rejected all swaps.

    Raises:
        ValueError: `swap_window` is below 1.

    Source: Syed et al. (2022) for W = 1, with the same argument for windows of W rounds in which
    each pair swaps at most once.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import optimal_round_trip_rate
        >>> float(optimal_round_trip_rate(np.array([0.5, 0.5])))
        0.16666666666666666
    """
    window = checks.integer("swap_window", swap_window, at_least=1)
    rejected = np.asarray(rejection_rates, np.float64) ** window
    with np.errstate(divide="ignore"):
        rounds = 2 * (1 + (rejected / (1 - rejected)).sum(-1)) * window
    return (2.0 if rejected.shape[-1] == 1 else 1.0) / rounds


def equal_rejection_temperatures(
    temperatures: np.ndarray, rejection_rates: np.ndarray, num_replicas: int | None = None
) -> np.ndarray:
    r"""A ladder between the same ends whose pairs reject equally many swaps.

    The barrier up to each temperature, the sum of the :math:`r_i` below it, is interpolated over
    :math:`\log \tau`, and the new temperatures divide it into equal parts. Rejections between
    temperatures far apart say little of those between, so run again with the new ladder, and
    repeat.

    Args:
        temperatures: the ladder that was run, ascending, (R,).
        rejection_rates: the shares :math:`r_i` of offered swaps that each pair of neighbours
            rejected, (R - 1,), for instance one minus the mean of `swap_rates` over chains.
        num_replicas: number of temperatures of the new ladder, at least 2. None (default) for R.
            Twice the barrier and one more is a good number: then a pair rejects half of its swaps.

    Returns:
        The new ladder, (num_replicas,).

    Raises:
        ValueError: an argument is out of its range.

    Source: Syed et al. (2022), over log tau in place of 1 / tau, which may be 0 there; the monotone
    cubic of Fritsch and Carlson (1980).

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.diagnostics import equal_rejection_temperatures
        >>> equal_rejection_temperatures((1.0, 2.0, 8.0), (0.2, 0.6)).round(2).tolist()
        [1.0, 3.47, 8.0]
    """
    ladder = np.asarray(temperatures, np.float64)
    if ladder.ndim != 1 or len(ladder) < 2 or not (np.diff(ladder, prepend=0.0) > 0).all():
        takes = "two or more numbers above 0, in ascending order"
        raise checks.fail("temperatures", temperatures, takes)
    rejected = np.asarray(rejection_rates, np.float64)
    if rejected.shape != (len(ladder) - 1,) or not ((rejected >= 0) & (rejected <= 1)).all():
        takes = "a share from 0 to 1 of each pair of neighbours"
        raise checks.fail("rejection_rates", rejection_rates, takes)
    number = len(ladder) if num_replicas is None else num_replicas
    number = checks.integer("num_replicas", number, at_least=2)
    # A barrier that does not rise cannot be inverted.
    rises = np.maximum(rejected, max(_LEAST_SHARE * rejected.sum(), 1e-12))
    barrier = np.concatenate([[0.0], np.cumsum(rises)])
    parts = np.linspace(0, barrier[-1], number)
    found = np.exp(PchipInterpolator(barrier, np.log(ladder))(parts))
    found[[0, -1]] = ladder[[0, -1]]
    return found
