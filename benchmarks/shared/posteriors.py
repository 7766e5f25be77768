"""Weighted draws compared with NUTS, and masses of modes compared with exact ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpyro.infer import NUTS

from benchmarks.shared.runs import run
from benchmarks.shared.tables import total_variation
from numpyro_contour.examples import nine_modes

Errors = Callable[[Any, np.ndarray], dict[str, float]]


def by_nuts(
    model: Callable, data: tuple, warmup: int = 1000, samples: int = 5000, chains: int = 4
) -> dict[str, np.ndarray]:
    """Draws of NUTS by site, (draws, size of the site) each."""
    nuts = run(NUTS(model), warmup, samples, chains, *data, seed=9)
    return {
        name: np.asarray(x, np.float64).reshape(len(x), -1)
        for name, x in nuts.get_samples().items()
    }


def errors(samples: Any, weights: np.ndarray, truth: dict[str, np.ndarray]) -> dict[str, float]:
    """Errors of means in posterior sds, and the range of the ratios of sds.

    Args:
        samples: draws by site, (chains, draws, ...) each.
        weights: their importance weights, (chains, draws).
        truth: draws of the same posterior, (draws, size of the site).
    """
    w = weights / weights.mean(1, keepdims=True)
    chains, pooled, ratios = [], [], []
    for name, true in truth.items():
        ours = np.asarray(samples[name], np.float64).reshape(*w.shape, -1)
        means = (w[..., None] * ours).mean(1)
        z = (means - true.mean(0)) / true.std(0)
        sd = np.sqrt((w[..., None] * (ours - means.mean(0)) ** 2).mean((0, 1)))
        chains += list(np.sqrt((z**2).mean(0)))
        pooled += list(np.abs(z.mean(0)))
        ratios += list(sd / true.std(0))
    return {
        "worst mean a chain": max(chains),
        "pooled": max(pooled),
        "sd ratio min": min(ratios),
        "max": max(ratios),
    }


def two_draws(mean: Any, sd: Any, name: str = "x") -> dict[str, np.ndarray]:
    """Two draws that have this mean and sd, in the form that `errors` takes."""
    mean, sd = np.broadcast_arrays(np.atleast_1d(mean), np.atleast_1d(sd))
    return {name: np.stack([mean - sd, mean + sd])}


def tv_of(masses: Callable, exact: np.ndarray) -> Errors:
    """Total variation of mode masses, for single chains and pooled."""

    def found_errors(x: Any, weights: np.ndarray) -> dict[str, float]:
        found = masses(x, weights / weights.mean(1, keepdims=True))
        return {
            "TV a chain": total_variation(found, exact).mean(),
            "TV pooled": total_variation(found.mean(0), exact),
            "its error": found.std(0).max() / np.sqrt(len(found)),
        }

    return found_errors


def share(indicator: Callable) -> Callable:
    """The masses of a mode and of its complement."""

    def masses(x: Any, weights: np.ndarray) -> np.ndarray:
        mass = (weights * indicator(x)).mean(1)
        return np.stack([mass, 1 - mass], -1)

    return masses


def of_nine(x: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """The masses of the nine modes, (chains, 9)."""
    weights = np.ones(x.shape[:2]) if weights is None else weights
    return np.stack([nine_modes.mode_masses(a, w).ravel() for a, w in zip(x, weights)])


def halves(indicator: Callable, mass: float) -> Errors:
    """Total variation of the masses of a mode and of the rest."""
    return tv_of(share(indicator), np.array([mass, 1 - mass]))
