"""The importance weights of a finished run."""

from __future__ import annotations

import numpy as np

from numpyro_contour import checks
from numpyro_contour.runs.draw_temperatures import at_final_temperature
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.weights_over_all_rows import full_data_correction
from numpyro_contour.statistics.weights import NormalisedWeights, normalised

_THETAS = ("online", "final")
# If the last theta would change the log weights of a chain by more than this (standard deviation
# over its draws), the draws were shaped by a different theta.
_MOST_CHANGE = 0.2


def weights_of_run(run: FinishedRun, theta: str, energy: str | None) -> NormalisedWeights:
    """The normalised log weights of `weighted_samples`, and each chain's log normaliser.

    A chain whose moves were all refused has no weight, and a normaliser of -inf.
    """
    checks.one_of("theta", theta, _THETAS)
    if energy is not None:
        checks.one_of("energy", energy, ("estimate",))
    found = normalised(_log_weights(run, theta, energy))
    if theta == "final":
        online = normalised(_log_weights(run, "online", energy))
        _refuse_drift(found.log_weights, online.log_weights)
    return found


def raw_log_weights(run: FinishedRun, theta: str, energy: str | None) -> np.ndarray:
    """The log weights of all draws, (chains, draws), of any temperature and not normalised."""
    log_weight = run.per_draw("log_weight").astype(np.float64)
    if theta == "final" and run.is_contour:
        log_weight = _by_final_theta(run, log_weight)
    if energy is None and run.has_full_data_weights:
        log_weight = log_weight + full_data_correction(run, theta)
    return log_weight


def _log_weights(run: FinishedRun, theta: str, energy: str | None) -> np.ndarray:
    log_weight = raw_log_weights(run, theta, energy)
    final = at_final_temperature(run)
    return log_weight if final is None else np.where(final, log_weight, -np.inf)


def _by_final_theta(run: FinishedRun, online: np.ndarray) -> np.ndarray:
    """Log weights by the last theta, from the online ones and the two weights of each draw."""
    final = run.log_flattening(run.fields["potential_energy_estimate"])
    draw = run.per_draw("draw_log_weight").astype(np.float64)
    own = final + run.per_draw("log_time_weight").astype(np.float64)
    weighed = np.isfinite(draw)
    return np.where(weighed, online - np.where(weighed, draw, 0.0) + own, -np.inf)


def _refuse_drift(final: np.ndarray, online: np.ndarray) -> None:
    """Refuse the last theta if the draws were shaped by a different one.

    Raises:
        ValueError: the weights would change by more than `_MOST_CHANGE`.
    """
    weighed = np.isfinite(online)
    change = np.where(weighed, final, 0.0) - np.where(weighed, online, 0.0)
    weights = np.exp(online)
    mean = np.mean(weights * change, axis=1, keepdims=True)
    sd = np.sqrt(np.mean(weights * (change - mean) ** 2, axis=1))
    if sd.max() > _MOST_CHANGE:
        raise ValueError(
            "`theta` takes 'final' only where theta has settled, but that of chain "
            f"{int(sd.argmax())} moved while draws were collected: the logarithms of their weights "
            f"would change by {sd.max():.2f} (standard deviation), at most {_MOST_CHANGE} is "
            "taken. Use 'online', which is always valid, or raise `num_warmup`."
        )
