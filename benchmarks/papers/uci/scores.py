"""Scores of the weighted predictions of many models."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm


class Scores(NamedTuple):
    """Figures of predictions on held-out rows, one for each chain."""

    rmse: np.ndarray
    #: mean log density of a row
    log_likelihood: np.ndarray
    #: share of the rows within the central 90 %
    coverage: np.ndarray


def average(predicted: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    """The weighted mean over models, (..., rows), of predictions (..., models, rows)."""
    return np.sum(shares(log_weights)[..., None] * predicted, axis=-2)


def shares(log_weights: np.ndarray) -> np.ndarray:
    """Weights of models, (..., models), that add up to 1."""
    return np.exp(log_weights - logsumexp(log_weights, axis=-1, keepdims=True))


def score(
    predicted: np.ndarray, log_weights: np.ndarray, noise_sd: np.ndarray, observed: np.ndarray
) -> Scores:
    """Scores of the mixture of the normal predictions of all models.

    Args:
        predicted: means, (chains, models, rows).
        log_weights: (chains, models).
        noise_sd: sd of each model's noise, (chains, models).
        observed: (chains, rows) or (rows,), in the same unit.
    """
    observed = np.broadcast_to(observed, predicted[:, 0].shape)
    errors = observed - average(predicted, log_weights)
    away = (observed[:, None] - predicted) / noise_sd[..., None]
    weights = shares(log_weights)[..., None]
    density = logsumexp(norm.logpdf(away) - np.log(noise_sd)[..., None], axis=1, b=weights)
    below = np.sum(weights * norm.cdf(away), axis=1)
    inside = (below >= 0.05) & (below <= 0.95)
    return Scores(np.sqrt(np.mean(errors**2, axis=1)), density.mean(1), inside.mean(1))
