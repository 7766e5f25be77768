"""The weight of the draws in each of several modes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from numpyro_contour.statistics.errors import weighted_mcse
from numpyro_contour.statistics.weights import normalised


class ModeShares(NamedTuple):
    """Shares of the weight in each mode."""

    #: in the mean of the chains that have weight, (modes,)
    share: np.ndarray
    #: its Monte Carlo standard error, NaN where no chain went there and back, (modes,)
    mcse: np.ndarray
    #: of each chain, NaN where it has no weight, (chains, modes)
    of_chains: np.ndarray


def mode_shares(labels: np.ndarray, log_weights: np.ndarray, number: int) -> ModeShares:
    """The shares of modes in weighted draws.

    Args:
        labels: the mode of each draw, (chains, draws), from 0.
        log_weights: log importance weights, (chains, draws), each finite or -inf.
        number: how many modes there are.

    Example:
        >>> import numpy as np
        >>> from numpyro_contour.statistics.mode_shares import mode_shares
        >>> mode_shares(np.array([[0, 1, 1, 1]]), np.zeros((1, 4)), 2).share.tolist()
        [0.25, 0.75]
    """
    weights = np.exp(normalised(log_weights).log_weights)
    live = weights.any(1)
    within = labels[..., None] == np.arange(number)
    of_chains = (weights[..., None] * within).mean(1)
    of_chains[~live] = np.nan
    if not live.any():
        none = np.full(number, np.nan)
        return ModeShares(none, none, of_chains)
    mcse = weighted_mcse(within[live], log_weights[live])
    return ModeShares(of_chains[live].mean(0), mcse, of_chains)
