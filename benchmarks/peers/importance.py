"""A truth by importance sampling, for posteriors whose chains hardly mix between their parts."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import gammaln

#: parts of the proposal, draws that the covariance of one is taken from, and degrees of freedom
PARTS, NEAREST, DEGREES = 300, 150, 5.0
#: what covariances are multiplied by, and the share of the whole spread that is added to them
WIDER, ADDED = 1.5, 0.02
BATCH, BATCHES = 5_000, 40


def weighted_draws(
    potential: Callable[[jax.Array], jax.Array], near: np.ndarray, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Independent draws of a mixture of t distributions, with their importance weights.

    How much of each part of the posterior there is, is told by the weights alone: draws of chains
    that are in each of them, in whatever shares, show where to look.

    Args:
        potential: the potential energy of a position, (d,).
        near: draws that have been to all parts, (n, d).
        seed: of the draws. Defaults to 0.

    Returns:
        Positions (200,000, d), and weights that add up to 1.
    """
    rng = np.random.default_rng(seed)
    near = rng.permutation(near)
    size, spread = near.shape[1], near.std(0)
    away = ((near[None] - near[:PARTS, None]) / spread) ** 2
    groups = near[np.argsort(away.sum(-1), 1)[:, :NEAREST]]
    means = groups.mean(1)
    groups = groups - means[:, None]
    covariances = WIDER * np.einsum("kni,knj->kij", groups, groups) / NEAREST
    factors = np.linalg.cholesky(covariances + ADDED * np.diag(spread**2))
    log_det = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(1)
    half = (DEGREES + size) / 2
    constant = gammaln(half) - gammaln(DEGREES / 2) - size / 2 * np.log(DEGREES * np.pi)

    @jax.jit
    def log_ratio(x: jax.Array) -> jax.Array:
        away = jnp.einsum("kij,nkj->nki", np.linalg.inv(factors), x[:, None] - means)
        each = constant - log_det - half * jnp.log1p((away**2).sum(-1) / DEGREES)
        return -jax.vmap(potential)(x) - jax.nn.logsumexp(each, axis=1)

    positions, logs = [], []
    for _ in range(BATCHES):
        part = rng.integers(0, PARTS, BATCH)
        normal = np.einsum("nij,nj->ni", factors[part], rng.normal(size=(BATCH, size)))
        x = means[part] + normal * np.sqrt(DEGREES / rng.chisquare(DEGREES, BATCH))[:, None]
        positions.append(x)
        logs.append(np.asarray(log_ratio(jnp.asarray(x, jnp.result_type(float))), float))
    log_weights = np.concatenate(logs)
    weights = np.exp(log_weights - log_weights.max())
    return np.concatenate(positions), weights / weights.sum()
