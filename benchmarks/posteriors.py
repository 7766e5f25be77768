"""Weighted draws beside those of NUTS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax import random
from numpyro.infer import MCMC, NUTS


def by_nuts(
    model: Callable, data: tuple, warmup: int = 1000, samples: int = 5000, chains: int = 4
) -> dict[str, np.ndarray]:
    """Draws of NUTS, (draws, size of the site) a site."""
    nuts = MCMC(
        NUTS(model),
        num_warmup=warmup,
        num_samples=samples,
        num_chains=chains,
        chain_method="vectorized",
        progress_bar=False,
    )
    nuts.run(random.key(9), *data)
    return {
        name: np.asarray(x, np.float64).reshape(len(x), -1)
        for name, x in nuts.get_samples().items()
    }


def errors(samples: Any, weights: np.ndarray, truth: dict[str, np.ndarray]) -> dict[str, float]:
    """Errors of means in posterior sds, and the range of the ratios of sds.

    Args:
        samples: draws, (chains, draws, ...) a site.
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
