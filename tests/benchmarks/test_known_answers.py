"""Densities of the literature in the comparison with peers: their truths by other ways."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import integrate, special, stats


@pytest.fixture(autouse=True)
def _from_the_root(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))


def target_of(start):
    from benchmarks.peers.targets import targets

    return next(target for target in targets() if target.name.startswith(start))


def energies(target, x):
    return np.asarray(
        jax.lax.map(target.potential, jnp.asarray(x, jnp.float32), batch_size=4096), np.float64
    )


def agree(target, x, log_proposal, share=0.999):
    """The truth within five standard errors of importance draws, of which a share is effective."""
    log_w = -energies(target, x) - log_proposal
    w = np.exp(log_w - log_w.max())
    w /= w.sum()
    # Draws from the density itself have equal weights.
    assert 1 / (w**2).sum() > share * len(x)
    truth = target.truth
    inside = target.mode(np.asarray(x))[:, None] == np.arange(len(truth.masses))
    values = np.c_[inside, x, (x - truth.means) ** 2]
    exact = np.r_[truth.masses, truth.means, truth.sds**2]
    errors = np.sqrt((w**2) @ (values - exact) ** 2)
    # Modes that hardly one draw is in: the error of a count, and one draw.
    masses = errors[: len(truth.masses)]
    np.maximum(masses, np.sqrt(truth.masses * (w**2).sum()), out=masses)
    assert np.all(np.abs(w @ values - exact) < 5 * errors + w.max())
    assert truth.masses.sum() == pytest.approx(1, abs=1e-9)


DRAWS = 50_000


def test_many_wells_are_those_of_the_literature():
    target = target_of("many wells")
    density = lambda x: math.exp(0.5 * x + 6 * x**2 - x**4)
    halves = [integrate.quad(density, *ends)[0] for ends in ((-5, -0.0417), (-0.0417, 5))]
    assert halves[1] / sum(halves) == pytest.approx(0.844311, abs=1e-6)
    # The log of the normalising constant that the papers give.
    log_z = 16 * (math.log(sum(halves)) + 0.5 * math.log(2 * math.pi))
    assert log_z == pytest.approx(164.69568, abs=1e-4)
    rng = np.random.default_rng(0)
    # Draws of a coordinate on a line, by its distribution function.
    line = np.linspace(-3.5, 3.5, 70_001)
    below = np.cumsum(np.exp(0.5 * line + 6 * line**2 - line**4))
    wells = np.interp(rng.random((DRAWS, 16)), below / below[-1], line)
    x = np.c_[wells, rng.standard_normal((DRAWS, 16))]
    log_p = (0.5 * wells + 6 * wells**2 - wells**4).sum(1) - 0.5 * (x[:, 16:] ** 2).sum(1)
    agree(target, x, log_p)
    top = np.flatnonzero(np.diff(np.sign(0.5 + 12 * line - 4 * line**3)) > 0)
    assert line[top] == pytest.approx(-0.0417, abs=2e-4)


@pytest.mark.parametrize("size", [2, 50])
def test_forty_normals(size):
    target = target_of(f"forty normals, {size}-d")
    means = np.asarray(random.uniform(random.PRNGKey(0), (40, size), minval=-1, maxval=1), float)
    rng = np.random.default_rng(1)
    x = means[rng.integers(0, 40, DRAWS)] + rng.standard_normal((DRAWS, size))
    squares = (x**2).sum(1)[:, None] - 2 * x @ means.T + (means**2).sum(1)
    agree(target, x, special.logsumexp(-0.5 * squares, axis=1))


def test_log_gamma():
    target = target_of("LogGamma")
    rng = np.random.default_rng(2)
    # As the densities are defined: the log of an exponential variable, and normals.
    skewed = np.log(rng.exponential(size=(DRAWS, 10)))
    normal = rng.standard_normal((DRAWS, 10))
    is_skewed = np.arange(1, 11) <= 6
    is_skewed[1] = False
    place = np.full((DRAWS, 10), 2 / 3)
    place[:, :2] -= (rng.random((DRAWS, 2)) < 0.5) / 3
    y = place + np.where(is_skewed, skewed, normal) / 30
    y = y[((y > 0) & (y < 1)).all(1)]
    assert len(y) > 0.99 * DRAWS
    z = special.ndtri(y)
    u = [(y - place) * 30 for place in (1 / 3, 2 / 3)]
    logs = [np.where(is_skewed, v - np.exp(v), stats.norm.logpdf(v)) for v in u]
    log_p = logs[1].copy()
    log_p[:, :2] = np.logaddexp(*(log[:, :2] - math.log(2) for log in logs))
    agree(target, z, (log_p + stats.norm.logpdf(z)).sum(1))
    np.testing.assert_allclose(target.truth.masses, 0.25, atol=5e-4)


@pytest.mark.parametrize("size", [2, 10])
def test_two_shells(size):
    target = target_of(f"two shells, {size}-d")
    rng = np.random.default_rng(3)
    way = rng.standard_normal((DRAWS, size))
    radius = 2 + 0.12 * rng.standard_normal(DRAWS)
    x = radius[:, None] * way / np.linalg.norm(way, axis=1)[:, None]
    log_p = stats.norm.logpdf(radius, 2, 0.12) - (size - 1) * np.log(radius)
    x[:, 0] += np.where(rng.random(DRAWS) < 0.5, -3.5, 3.5)
    agree(target, x, log_p, share=0.8)
    density = lambda r: r ** (size - 1) * math.exp(-0.5 * ((r - 2) / 0.1) ** 2)
    total, square = (integrate.quad(lambda r, n=n: r**n * density(r), 1, 3)[0] for n in (0, 2))
    assert target.truth.sds[1] ** 2 == pytest.approx(square / total / size, rel=1e-6)
    # In the middle of a shell, and with no gradient that is not finite.
    middle = jnp.zeros(size).at[0].set(3.5)
    assert float(target.potential(middle)) == pytest.approx(0.5 * 20**2, rel=1e-4)
    assert jnp.isfinite(jax.grad(target.potential)(middle)).all()


def test_egg_box():
    target = target_of("egg-box")
    rng = np.random.default_rng(4)
    peaks = np.array([(i, j) for i in range(6) for j in range(6) if (i + j) % 2 == 0])
    at = peaks[rng.integers(0, 18, 4 * DRAWS)] * 2 * np.pi
    x = at + 0.115 * rng.standard_normal(at.shape)
    x = x[((x > 0) & (x < 10 * np.pi)).all(1)]
    nearest = np.round(x / (2 * np.pi)) * 2 * np.pi
    z = special.ndtri(x / (10 * np.pi))
    log_p = stats.norm.logpdf((x - nearest) / 0.115).sum(1) + stats.norm.logpdf(z).sum(1)
    agree(target, z, log_p, share=0.8)
    borders = ((peaks == 0) | (peaks == 5)).sum(1)
    np.testing.assert_allclose(target.truth.masses, 0.08 / 2**borders, atol=2e-4)
    # The barrier between two peaks: both waves are 0 there, so that 3^5 falls to 2^5.
    fall = energies(target, special.ndtri(np.array([[2.5, 2.5], [2, 2]]) / 5))
    assert fall[0] - fall[1] == pytest.approx(3**5 - 2**5, abs=1)


# ---------------------------------------------------------------- gradients of jumps


def test_tries_to_jump_and_searches_are_within_the_gradients(monkeypatch):
    pytest.importorskip("blackjax")
    from benchmarks.peers.ours import NUM_STEPS, sample, steps_of
    from numpyro_contour.warmup import host, search

    mixture, normal = target_of("mixture"), target_of("normal")
    assert steps_of("CyclicalSGLD", mixture, 1000) == 1000
    assert steps_of("SGLD", mixture, 1000, jumps=False) == 1000
    assert steps_of("ReplicaExchangeSGLD", mixture, 1000, jumps=False) == 500
    assert steps_of("ReplicaExchangeSGLD", mixture, 1115) == 500
    assert steps_of("SGLD", normal, 1015) == 1000
    chains, gradients = 4, 10_000
    searches = []

    def begun(*args):
        state, found = search.begun_in_modes(*args)
        searches.append(found)
        return state, found

    monkeypatch.setattr(host, "begun_in_modes", begun)
    mcmc = sample("SGLD", target_of("two components, 30"), gradients, chains=chains)
    state = mcmc.last_state
    assert np.asarray(state.warmup.modes.several).all()
    steps = int(np.asarray(state.sampler.chain.steps)[0])
    # Of the draws that are kept: one try for each.
    tried = int(np.asarray(state.warmup.jumps.tried).sum()) / chains
    assert tried == mcmc.num_samples
    in_warmup = mcmc.num_warmup
    spent = steps + tried + in_warmup
    assert 0.97 * gradients < spent <= gradients
    # A search takes its share of the warm-up, or in so short a run a number for all chains.
    (found,) = searches
    assert found._list.landscape.gradients < search._FEWEST
    assert steps == NUM_STEPS * (mcmc.num_samples + mcmc.num_warmup)


def test_a_line_says_what_was_known_and_what_was_accepted(tmp_path):
    pytest.importorskip("blackjax")
    from benchmarks.peers.known_modes import KERNEL, Jumped, jobs, keep, kept_in, row
    from benchmarks.peers.methods import Method, Outcome
    from benchmarks.peers.targets import targets

    def outcome(variation):
        runs = np.full(3, variation)
        return Outcome(Method(KERNEL, None), runs, 2 * runs, 3 * runs, 1.0, 1.0, 0.0)

    first, second = outcome(0.1), outcome(0.2)
    several = row(target_of("mixture"), KERNEL, Jumped(first, second, 2, 40, 10))
    assert several[2:] == [
        *("100", "2", "0.25", "0.200", "0.400", "0.100 ± 0.000", "0.200 ± 0.000"),
        *("0.300 ± 0.000", "0.600 ± 0.000"),
    ]
    alone = row(target_of("normal"), KERNEL, Jumped(first, second, 1, 0, 0))
    assert alone[3:9] == ["1", "no tries", "", "", "", ""]
    names = {target.name for target in targets()}
    assert {targets()[number].name for number, kernel in jobs() if kernel == KERNEL} == names
    assert len(names) == len(targets())
    # Lines are kept in the order of the posteriors, and replaced by new ones.
    for line in (["old"], several):
        keep(target_of("normal"), KERNEL, alone, tmp_path)
        keep(target_of("mixture"), KERNEL, line, tmp_path)
    assert list(kept_in(tmp_path).values()) == [several, alone]
