"""Effective draws for each gradient on correlated Gaussians, by the form of the preconditioner."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import random
from numpyro.infer import MCMC

from benchmarks.shared.experiment import Experiment
from benchmarks.shared.runs import quiet
from benchmarks.shared.tables import markdown_table
from numpyro_contour import SGLD, diagnostics

FORMS = ("diag", "low-rank", "dense")
CHAINS = 4
STEPS_A_DRAW = 50
#: variance of the gradient's noise in the directions of the Gaussian, in units of the curvature
NOISE = 3.0


def equal_correlation(size: int, correlation: float) -> np.ndarray:
    """The covariance of coordinates of variance 1 that are all equally correlated."""
    return (1 - correlation) * np.eye(size) + correlation


def stiff_directions(size: int, condition: float) -> np.ndarray:
    """A covariance of three directions of variance 1 / `condition` among others of variance 1."""
    turn, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(size, size)))
    return (turn * np.where(np.arange(size) < 3, 1 / condition, 1.0)) @ turn.T


def correlated(size: int, slowdown: float) -> np.ndarray:
    """Equal correlations of which the least eigenvalue of the unit-diagonal precision is 1 / K."""
    return equal_correlation(size, (slowdown - 1) / (slowdown + size - 2))


#: name, covariance, and whether it is sampled on minibatches too
TARGETS = (
    ("2, correlation .99", equal_correlation(2, 0.99), True),
    ("20, equal correlations, K = 10", correlated(20, 10), False),
    ("20, K = 100", correlated(20, 100), True),
    ("20, K = 1,000", correlated(20, 1000), False),
    ("20, K = 10,000", correlated(20, 10_000), True),
    ("100, three directions of variance 1e-4", stiff_directions(100, 1e4), True),
)


def effective_draws(
    covariance: np.ndarray, form: str, noisy: bool, draws: int
) -> tuple[float, float]:
    """Effective draws of the slowest of all principal directions, and the largest R-hat."""
    size = len(covariance)
    values, turn = np.linalg.eigh(covariance)
    root = jnp.asarray((turn / np.sqrt(values)).T, jnp.float32)

    def energy(x: jax.Array) -> jax.Array:
        return 0.5 * jnp.sum((root @ x) ** 2)

    def by_minibatch(key: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        kick, z = NOISE**0.5 * random.normal(key, (size,)), root @ x
        return 0.5 * jnp.sum(z**2) + kick @ z, root.T @ (z + kick)

    estimate: Callable | None = by_minibatch if noisy else None
    kernel = SGLD(potential_fn=energy, energy=estimate, preconditioner=form, num_steps=STEPS_A_DRAW)
    mcmc = MCMC(
        kernel,
        num_warmup=draws // 2,
        num_samples=draws,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    start = random.uniform(random.key(1), (CHAINS, size), minval=-2.0, maxval=2.0)
    with quiet():
        mcmc.run(random.key(0), init_params=start)
    z = np.asarray(mcmc.get_samples(group_by_chain=True), np.float64) @ (turn / np.sqrt(values))
    ones = np.zeros(z.shape[:2])
    return (
        min(float(diagnostics.weighted_ess(z[..., i], ones)) for i in range(size)),
        max(float(diagnostics.weighted_rhat(z[..., i], ones)) for i in range(size)),
    )


def main(experiment: Experiment) -> str:
    """The section of the page."""
    draws = experiment.choose(1000, 40)
    rows = []
    for name, covariance, too in experiment.choose(TARGETS, TARGETS[:1]):
        for noisy in (False, True)[: 1 + too]:
            found = [effective_draws(covariance, form, noisy, draws) for form in FORMS]
            cells = [_cell(*pair, draws * CHAINS * STEPS_A_DRAW) for pair in found]
            rows.append([name, "minibatches" if noisy else "exact", *cells])
    header = ["coordinates", "gradients", *(f'"{form}"' for form in FORMS)]
    return (
        "## Correlated Gaussians\n\nThese are the effective draws of `SGLD` for 100,000 gradients, "
        "of the slowest principal direction, and in brackets the largest R-hat where it is above "
        f"1.05. There are {CHAINS} chains of {draws:,} draws of {STEPS_A_DRAW} steps, after half "
        "as many of warm-up that are not counted, from NumPyro's uniform starts. K is 1 over the "
        "least eigenvalue of the precision with a unit diagonal, how many times a diagonal is too "
        f"slow. On minibatches the gradient's noise has {NOISE:g} times the covariance of the "
        "exact gradient. Up to 16 coordinates a preconditioner of low rank is dense.\n\n"
        + markdown_table(header, rows)
    )


def _cell(effective: float, r_hat: float, gradients: int) -> str:
    rate = f"{1e5 * effective / gradients:,.0f}"
    return rate if r_hat <= 1.05 else f"{rate} ({r_hat:.2f})"
