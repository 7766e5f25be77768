"""The masses of modes by bridges to their normals, which do not count how often chains were there.

The energies of some draws and of draws from the normal of each mode are evaluated over all data.
"""

from __future__ import annotations

import math

import jax
import numpy as np

from numpyro_contour.checks import warn_user
from numpyro_contour.core.arrays.compensated_sums import Sum
from numpyro_contour.runs.at_draws import AtDraws, EnergyAndGradient
from numpyro_contour.runs.draw_weights import final_temperature
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.known_modes import KnownModes
from numpyro_contour.statistics.bridges import bridge, shares

# The most draws of the run, and of the normal of each mode, and the elementary operations, a few
# seconds' worth, that their energies may take together. With fewer nothing is told.
_DRAWS, _FROM_NORMAL = 4000, 400
_FEWEST, _FEWEST_FROM_NORMAL, _FEWEST_OF_CHAIN = 100, 40, 8
_OPERATIONS = 2e10
# Normals of more coordinates have too little to do with a mode.
_MOST_COORDINATES = 250
# A relative error of an integral from where on the normal has too little to do with the mode.
_MOST_ERROR = 0.3


def masses_by_bridges(
    run: FinishedRun, known: KnownModes, log_weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """The share of each mode in those whose integral is told, and its standard error, (K,) each.

    Modes that their normals do not fit, as narrow ones that hardly any draw belongs to, have NaN.

    Args:
        run: a finished run.
        known: its modes.
        log_weights: the log weights of its draws, (chains, draws).

    Returns:
        None where there are too few draws, no temperature, or so much data that energies over all
        of them would take long; and, with a warning, where an evaluation failed.
    """
    if known.modes.mean.shape[1] > _MOST_COORDINATES:
        return None
    tau = final_temperature(run)
    live = np.flatnonzero(np.isfinite(log_weights).any(1))
    weighed = np.flatnonzero(np.isfinite(log_weights).any(0))
    if tau <= 0 or live.size * weighed.size < _FEWEST or weighed.size < _FEWEST_OF_CHAIN:
        return None
    number = len(known.energy)

    def at_position(energy: EnergyAndGradient, flat: jax.Array) -> tuple[Sum, tuple]:
        return energy(flat)[0], run.place_among(known.modes, flat)

    try:
        draws = weighed[_evenly(weighed.size, _DRAWS // live.size)]
        places = [x.ravel() for x in np.meshgrid(live, draws, indexing="ij")]
        positions = AtDraws(run, lambda _, flat: flat).at((places[0], places[1]))
        from_normals = _from_normals(known)
        every = np.concatenate([positions, from_normals.reshape(-1, positions.shape[1])])
        every = every.astype(known.modes.mean.dtype)[None]
        evaluated = AtDraws(run, at_position, positions=every)
        at_most = _OPERATIONS / evaluated.operations
        # Of both kinds the same part, where there is time for a part only.
        part = min(1.0, at_most / every.shape[1])
        draws = draws[_evenly(draws.size, int(part * draws.size))]
        columns = _evenly(_FROM_NORMAL, int(part * _FROM_NORMAL))
        if columns.size < _FEWEST_FROM_NORMAL or draws.size < _FEWEST_OF_CHAIN:
            return None
        kept = np.isin(places[1], draws)
        of_normals = kept.size + np.arange(number)[:, None] * _FROM_NORMAL + columns
        chosen = np.concatenate([np.flatnonzero(kept), of_normals.ravel()])
        energy, (cells, squares) = evaluated.at((np.zeros_like(chosen), chosen))
    except Exception as error:  # the user did not ask for this pass over the model
        warn_user(
            "The masses of the modes were not compared with those by bridge sampling, which "
            f"failed: {type(error).__name__}: {error}."
        )
        return None
    # Differences first: the energies themselves may be too large for the digits that matter.
    lowest = int(np.argmin(np.where(np.isfinite(energy.high), energy.high, np.inf)))
    rise = energy.high - energy.high[lowest] + (energy.low - energy.low[lowest])
    log_p = np.where(np.isfinite(rise), -rise / tau, -np.inf)
    constant = np.asarray(known.modes.log_volume, np.float64) + 0.5 * _log_2pi(known)
    inside = cells[:, None] == np.arange(number)
    with np.errstate(invalid="ignore"):  # outside, both may be infinite
        log_ratios = np.where(inside, log_p[:, None] + squares + constant, -np.inf)
    shape = live.size, draws.size
    of_draws, of_points = log_ratios[: math.prod(shape)], log_ratios[math.prod(shape) :]
    weights = np.exp(log_weights[np.ix_(live, draws)])
    of_points = of_points.reshape(number, columns.size, number)
    found = [
        bridge(of_draws[:, k].reshape(shape), weights, of_points[k, :, k]) for k in range(number)
    ]
    log_integrals, errors = np.array(found).T
    told = np.isfinite(log_integrals) & (errors < _MOST_ERROR)
    if told.sum() < 2:
        return None
    by_bridge = np.full((2, number), np.nan)
    by_bridge[:, told] = shares(log_integrals[told], errors[told])
    return by_bridge[0], by_bridge[1]


def _from_normals(known: KnownModes) -> np.ndarray:
    """Draws from the normal of each mode, (K, n, d), always the same ones."""
    mean, factor = (np.asarray(x, np.float64) for x in (known.modes.mean, known.modes.factor))
    z = np.random.default_rng(0).standard_normal((len(mean), _FROM_NORMAL, mean.shape[1]))
    moved = z @ factor.swapaxes(-1, -2) if factor.ndim == 3 else z * factor[:, None]
    return mean[:, None] + moved


def _log_2pi(known: KnownModes) -> float:
    return known.modes.mean.shape[1] * math.log(2 * math.pi)


def _evenly(count: int, at_most: int) -> np.ndarray:
    """Numbers below `count`, evenly spaced where there are more than `at_most`."""
    return np.linspace(0, count - 1, min(count, max(at_most, 0))).round().astype(int)
