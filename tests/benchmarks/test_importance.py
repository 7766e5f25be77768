"""Importance sampling around draws finds the shares of a posterior's parts, whatever theirs are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.peers.importance import weighted_draws

FAR, SHARE, NARROW = 8.0, 0.3, 0.5


def potential(x):
    """A share of .3 around 0, and a narrower part around (8, 8)."""
    wide = jnp.log(SHARE) - 0.5 * (x**2).sum()
    narrow = jnp.log(1 - SHARE) - 0.5 * (((x - FAR) / NARROW) ** 2).sum() - 2 * jnp.log(NARROW)
    return -jnp.logaddexp(wide, narrow)


def test_shares_are_told_by_the_weights_alone():
    rng = np.random.default_rng(1)
    near = np.concatenate([rng.normal(size=(2700, 2)), FAR + NARROW * rng.normal(size=(300, 2))])
    x, weights = weighted_draws(jax.jit(potential), near)
    assert 1 / (weights**2).sum() > 10_000
    first = x[:, 0] < FAR / 2
    error = np.sqrt((weights**2 * (first - SHARE) ** 2).sum())
    assert weights @ first == pytest.approx(SHARE, abs=4 * error)
    inside = weights * first / (weights @ first)
    for moment, exact in ((x[:, 0], 0.0), (x[:, 0] ** 2, 1.0), (x[:, 0] * x[:, 1], 0.0)):
        error = np.sqrt((inside**2 * (moment - exact) ** 2).sum())
        assert inside @ moment == pytest.approx(exact, abs=4 * error)
    # Without weights the shares are those of the draws, far off.
    assert first.mean() > 0.8
