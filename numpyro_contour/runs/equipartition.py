r"""A check of the draws against the gradient of the potential energy, whatever made them.

Where draws are of the density :math:`\propto e^{-U/\tau}`, the mean of
:math:`(x_i - \mu_i)\, \partial U / \partial x_i` is :math:`\tau` for each unconstrained coordinate:
the theorem of equipartition, an identity of Stein. Steps that are too large, gradients that are too
noisy and weights that do not belong to the drift move it: for a Gaussian it is the draws' variance
over the true one. It holds in each mode by itself, so that it says nothing of modes that were not
found, and for densities without jumps only: not behind hard walls.
"""

from __future__ import annotations

import math

import jax
import numpy as np
import xarray as xr

from numpyro_contour.checks import warn_user
from numpyro_contour.core.arrays.vectors import coordinate_names
from numpyro_contour.runs.at_draws import AtDraws, EnergyAndGradient
from numpyro_contour.runs.draw_weights import final_temperature
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.statistics.blocks import Block
from numpyro_contour.statistics.errors import mcse_of_mean

# The most draws at which gradients over all data are computed, and the most elementary
# operations, a few seconds' worth, that they may take together.
_DRAWS = 2000
_OPERATIONS = 2e10
# With fewer draws the check has no power; with fewer in a chain there is no standard error.
_FEWEST = 100
_FEWEST_OF_CHAIN = 4
# The most coordinates that are checked; of more, evenly spaced ones are.
_COORDINATES = 200
# Draws without a finite gradient are left out if their share of the weight is at most this.
_MOST_LEFT_OUT = 0.01


def equipartition(run: FinishedRun, log_weights: np.ndarray) -> xr.Dataset | None:
    r"""For each unconstrained coordinate, the mean of :math:`(x_i - \mu_i) \partial_i U / \tau`.

    Args:
        run: a finished run.
        log_weights: the log weights of its draws, (chains, draws), of mean 1 in each chain.

    Returns:
        The variables `ratio`, 1 where draws are right, and `mcse`, its standard error, both
        (coordinate,), and the same of the mean over coordinates, `mean_ratio` and `mean_mcse`; of
        more than 200 coordinates, evenly spaced ones. None where there are too few draws, no
        temperature, a chain without weight, or so much data that gradients over all of them would
        take long; and, with a warning, where gradients failed.
    """
    tau = final_temperature(run)
    weighed = np.flatnonzero(np.isfinite(log_weights).any(0))
    if tau <= 0 or weighed.size * len(log_weights) < _FEWEST:
        return None
    names = coordinate_names(run.like)
    chosen = _evenly(len(names), _COORDINATES)
    try:
        gradients = _gradients(run, chosen)
        at_most = int(min(_DRAWS, _OPERATIONS // gradients.operations))
        if at_most < _FEWEST:
            return None
        chains = _evenly(len(log_weights), at_most // _FEWEST_OF_CHAIN)
        draws = weighed[_evenly(weighed.size, at_most // chains.size)]
        shape = (chains.size, draws.size, chosen.size)
        places = np.meshgrid(chains, draws, indexing="ij")
        x, slope = (
            found.reshape(shape) for found in gradients.at(tuple(p.ravel() for p in places))
        )
    except Exception as error:  # the user did not ask for this pass over the model
        _warn(f"gradients over all data failed: {type(error).__name__}: {error}")
        return None
    weights = np.exp(log_weights[np.ix_(chains, draws)])
    usable = np.isfinite(x).all(-1) & np.isfinite(slope).all(-1)
    left_out = np.where(usable, 0.0, weights).sum() / max(weights.sum(), 1e-300)
    if left_out > _MOST_LEFT_OUT:
        _warn(f"the gradient over all data is not finite at {left_out:.0%} of them")
        return None
    weights = np.where(usable, weights, 0.0)
    if weights.sum(1).min() <= 0:
        return None
    weights /= weights.mean(1, keepdims=True)
    x, slope = (np.where(usable[..., None], values, 0.0) for values in (x, slope))
    products = (x - (weights[..., None] * x).mean((0, 1))) * slope / tau
    ratio, mcse = _means(products, weights)
    (mean_ratio,), (mean_mcse,) = _means(products.mean(-1, keepdims=True), weights)
    return xr.Dataset(
        {"ratio": (("coordinate",), ratio), "mcse": (("coordinate",), mcse)}
        | {"mean_ratio": mean_ratio, "mean_mcse": mean_mcse},
        {"coordinate": [names[i] for i in chosen]},
    )


def _warn(why: str) -> None:
    warn_user(f"The variances of the draws were not checked: {why}.")


def _evenly(count: int, at_most: int) -> np.ndarray:
    """Numbers below `count`, evenly spaced where there are more than `at_most`."""
    return np.linspace(0, count - 1, min(count, at_most)).round().astype(int)


def _means(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weighted means and their standard errors, NaN with too few draws a chain."""
    block = Block(values, weights)
    if values.shape[1] < _FEWEST_OF_CHAIN:
        return block.mean, np.full(values.shape[2], math.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        return block.mean, mcse_of_mean(block)


def _gradients(run: FinishedRun, chosen: np.ndarray) -> AtDraws:
    """Positions and the gradients there, of chosen coordinates."""

    def of_draw(
        energy_and_gradient: EnergyAndGradient, flat: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        return flat[chosen], energy_and_gradient(flat)[1][chosen]

    return AtDraws(run, of_draw)
