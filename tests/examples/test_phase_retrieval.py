import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.infer.util import log_density

from numpyro_contour.examples import phase_retrieval


@pytest.fixture(scope="module")
def rows():
    return tuple(np.asarray(a, np.float64) for a in phase_retrieval.load())


def potential(w, x, y):
    """The potential energy over all rows, without constants, and that of the prior alone."""
    prior = ((w - np.array([0.3, 0, 0])) ** 2).sum(-1) / (2 * 0.4**2)
    return (((w @ x.T) ** 2 - y) ** 2).sum(-1) / 18 + prior, prior


def test_exact_mass_is_that_of_weighted_mirror_images(rows):
    """Draws of one half-space, whose mirror images have the same likelihood, give it as well."""
    x, y = rows
    signal = phase_retrieval.SIGNAL
    fisher = 4 / 9 * (x * (x @ signal)[:, None] ** 2).T @ x + np.eye(3) / 0.16
    best = signal
    for _ in range(20):
        f = x @ best
        gradient = 2 / 9 * ((f**2 - y) * f) @ x + (best - [0.3, 0, 0]) / 0.16
        best = best - np.linalg.solve(fisher, gradient)
    # Normal draws of twice the variance of the mode.
    normal = np.random.default_rng(0).standard_normal((300, 3))
    w = best + np.sqrt(2) * np.linalg.solve(np.linalg.cholesky(fisher).T, normal.T).T
    energy, prior = potential(w, x, y)
    mirrored = potential(-w[:1], x, y)[1] - prior[:1]
    np.testing.assert_allclose(potential(-w[:1], x, y)[0] - energy[:1], mirrored, atol=1e-6)
    log_ratio = -energy + (normal**2).sum(1) / 2
    weight = np.where(w @ signal > 0, np.exp(log_ratio - log_ratio.max()), 0)
    assert weight.sum() ** 2 / (weight**2).sum() > 60
    # The share of each pair: its own prior density against that of its image.
    opposite = ((w + np.array([0.3, 0, 0])) ** 2).sum(1) / (2 * 0.4**2)
    both = weight * (1 + np.exp(prior - opposite))
    share = 1 / (1 + np.exp(prior - opposite))
    mass = (both * share).sum() / both.sum()
    error = np.sqrt((both**2 * (share - mass) ** 2).sum()) / both.sum()
    assert error < 0.005
    assert phase_retrieval.exact_mass() == pytest.approx(mass, abs=4 * error)


def test_the_model_is_the_one_that_was_integrated(rows):
    x, y = (jnp.asarray(a, jnp.float32) for a in rows)
    w = np.array([phase_retrieval.SIGNAL, -phase_retrieval.SIGNAL, [0.02, -0.1, 0.05]])
    energies = [
        -float(log_density(phase_retrieval.model, (x, y, None), {}, {"w": jnp.asarray(at)})[0])
        for at in w
    ]
    expected = potential(w, *rows)[0]
    # Sums of 100,000 terms in float32.
    np.testing.assert_allclose(np.diff(energies), np.diff(expected), atol=0.15)
    assert energies[2] - energies[0] > 5


def test_the_barrier_is_the_stated_one(rows):
    """Of the places between the modes, those at a right angle to the signal, the lowest one."""
    direction = phase_retrieval.SIGNAL / np.linalg.norm(phase_retrieval.SIGNAL)
    across = np.linalg.svd(direction[None])[2][1:]
    axis = np.linspace(-0.2, 0.2, 9)
    ring = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2) @ across
    line = np.linspace(0.1, 0.2, 11)[:, None] * direction
    saddle, mode = (potential(w, *rows)[0].min() for w in (ring, line))
    # The mode is a little lower than the lowest energy on the line through the signal.
    assert saddle - mode == pytest.approx(8.4, abs=1.2)


def test_minibatches_are_of_less_than_a_hundredth_of_the_rows():
    assert phase_retrieval.MINIBATCH <= 0.01 * phase_retrieval.ROWS
    assert len(phase_retrieval.load()[1]) == phase_retrieval.ROWS >= 100_000


def test_the_sign_is_that_of_the_signal():
    w = jnp.stack([phase_retrieval.SIGNAL * k for k in (2.0, 0.1, -0.1)])
    assert phase_retrieval.has_sign_of_signal(jax.device_get(w)).tolist() == [True, True, False]
