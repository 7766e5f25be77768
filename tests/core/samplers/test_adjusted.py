"""Moves that are accepted by Metropolis-Hastings: exact at any step size, also where U jumps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats
from scipy.special import digamma, polygamma
from tiers import in_second_tier

from numpyro_contour import EnergyPartition, robbins_monro
from numpyro_contour.core.diffusions import Step, leapfrog, whitened
from numpyro_contour.core.flattening.psi import Flattening
from numpyro_contour.core.samplers.adjusted import advance_adjusted
from numpyro_contour.core.samplers.chain import start
from numpyro_contour.core.samplers.contour import contour
from numpyro_contour.core.samplers.plain import plain
from numpyro_contour.core.samplers.replica_exchange import replica_exchange
from numpyro_contour.core.samplers.window import run_window
from numpyro_contour.schedules import Constant

CHAINS, WINDOWS, STEPS = 32, 150, 20
TAU = Constant(1.0)
FACTOR = jnp.array([[1.0, 0.3], [-0.8, 0.6]])


def moments(sampler, potential, start, functions):
    """Means of functions of the draws by chain, (chains, functions), and the last state."""

    def energy(key, x):
        return jax.value_and_grad(potential)(x)

    @jax.jit
    @jax.vmap
    def chain(key, x):
        key_init, key_run = random.split(key)
        state = sampler.init(key_init, x, energy)

        def body(state, key):
            state, window = run_window(key, state, energy, sampler, STEPS, "reservoir")
            return state, (functions(window.draw.position), window.log_weight)

        state, (values, log_weights) = jax.lax.scan(body, state, random.split(key_run, WINDOWS))
        weights = jnp.exp(log_weights - log_weights.max())[WINDOWS // 6 :]
        return (weights @ values[WINDOWS // 6 :]) / weights.sum(), state

    found, state = chain(random.split(random.key(0), CHAINS), start)
    return np.asarray(found, np.float64), state


def agrees(found, exact, bias=0.0):
    """Means over chains within what chance explains, in 1,000 such tests but one."""
    limit = stats.t.ppf(1 - 0.0005 / found.shape[1], CHAINS - 1)
    error = found.std(0, ddof=1) / CHAINS**0.5
    return (np.abs(found.mean(0) - exact) < limit * error + bias).all()


# ------------------------------------------------------------------ detailed balance


def skewed(x):
    """The log of a gamma variable of shape 2, in each coordinate."""
    return jnp.sum(jnp.exp(x) - 2 * x)


@pytest.mark.parametrize(
    "diffusion",
    [
        leapfrog(spread=0.0),
        whitened(leapfrog(0.9), FACTOR),
        *map(
            in_second_tier,
            [
                leapfrog(0.9),
                leapfrog(None, friction=0.5),
                leapfrog(0.5, preconditioner=jnp.array([0.7, 2.0])),
                whitened(leapfrog(), FACTOR),
            ],
        ),
    ],
)
def test_a_large_step_on_a_skewed_density_is_exact(diffusion):
    """Without the test of the moves its mean is off by .3 to 20 standard deviations."""
    sampler = plain(diffusion, Constant(1.5), TAU)
    x = jnp.zeros((CHAINS, 2))
    found, state = moments(sampler, skewed, x, lambda x: jnp.concatenate([x, x**2, x[:1] * x[1:]]))
    mean = digamma(2)
    square = polygamma(1, 2) + mean**2
    assert agrees(found, np.array([mean, mean, square, square, mean**2]))
    share = state.chain.memory.moved / state.chain.steps
    assert 0.1 < share.min() < share.max() < 0.95


def test_the_temperature_counts():
    """At tau = 2 it is a gamma of shape 1 and scale 2."""
    sampler = plain(leapfrog(), Constant(1.0), Constant(2.0))
    found, _ = moments(sampler, skewed, jnp.zeros((CHAINS, 1)), lambda x: x)
    assert agrees(found, np.array([digamma(1) + np.log(2)]))


# ------------------------------------------------------------------ jumps of the energy


def jumping(x):
    """A normal with a threshold, and a table that repeats."""
    return (
        0.5 * x**2 + 2.0 * (x > 0.3) + jnp.array([0.0, 1.0, 0.4])[jnp.int32(jnp.floor(2 * x)) % 3]
    )


def on_a_grid():
    """P(x > 0.3), the mean and the mean square."""
    x = np.linspace(-9, 9, 180_001) + 5e-5
    table = np.array([0.0, 1.0, 0.4])[np.floor(2 * x).astype(int) % 3]
    share = np.exp(-0.5 * x**2 - 2.0 * (x > 0.3) - table)
    share /= share.sum()
    return np.array([share @ (x > 0.3), share @ x, share @ x**2])


def sampler_of(name):
    """The table of samplers."""
    step_size, diffusion = Constant(1.0), leapfrog()
    if name == "plain":
        return plain(diffusion, step_size, TAU)
    if name == "replica exchange":
        return replica_exchange(diffusion, step_size, (TAU, Constant(3.0)), noisy=False)
    partition = EnergyPartition(0.0, 8.0, 16)
    gain = robbins_monro(10, 1.0, 100, maximum=0.5)
    weight = "piecewise" if name == "piecewise" else "consistent"
    return contour(diffusion, step_size, TAU, partition, gain, Flattening(0.75), weight=weight)


@pytest.mark.parametrize(
    "name", ["plain", "contour", *map(in_second_tier, ("piecewise", "replica exchange"))]
)
def test_jumps_of_the_energy_are_sampled(name):
    """The gradient alone gives P = 0.38 and a mean of 0 here: exact are 0.07 and -0.46."""
    potential = lambda x: jumping(x[0])
    functions = lambda x: jnp.stack([x[0] > 0.3, x[0], x[0] ** 2])
    found, state = moments(sampler_of(name), potential, jnp.zeros((CHAINS, 1)), functions)
    # A theta that still moves leaves a bias of the order of its gain, 2e-3 here.
    assert agrees(found, on_a_grid(), bias=0.01 if name in ("contour", "piecewise") else 0.0)
    assert (np.asarray(state.chain.guard.refused) == 0).all()


# ------------------------------------------------------------------ what a refusal is


def test_a_refused_move_stands_for_time():
    chain = start(random.key(0), jnp.ones(2), walled, leapfrog())
    moved = advance_adjusted(
        random.split(random.key(1)), chain, walled, leapfrog(), Constant(0.1), TAU
    )
    assert bool(moved.accepted)
    assert int(moved.steps) == 1
    assert int(moved.memory.moved) == int(moved.guard.refused) == 0
    assert float(moved.guard.step_scale) == 1.0
    np.testing.assert_array_equal(moved.position, chain.position)


def test_the_level_stays_that_of_the_density():
    """Where there is no force, an accepted rise of the density by e**0.5 lowers it by as much."""
    diffusion, x = leapfrog(0.9), jnp.ones(2)
    step = Step(jnp.array(0.1), jnp.array(1.0))
    memory = diffusion.init(random.key(0), x)._replace(level=jnp.array(0.4))
    proposal = diffusion.propose(random.key(1), x, memory, 0 * x, step)
    accepted, after = diffusion.accept(proposal.memory, 0 * x, step, jnp.array(0.5))
    assert bool(accepted)
    np.testing.assert_allclose(after.level, 0.43 * np.exp(-0.5), rtol=1e-5)


def walled(key, x):
    """No number anywhere but where the chain is."""
    return jnp.where((x == 1).all(), 0.0, jnp.nan), x


def test_theta_learns_from_where_the_chain_stayed():
    partition = EnergyPartition(-1.0, 1.0, 4)
    sampler = contour(leapfrog(), Constant(0.1), TAU, partition, robbins_monro())
    state = sampler.init(random.key(0), jnp.ones(2), walled)
    after = sampler.step(random.split(random.key(1)), state, walled)
    assert int(after.theta.bin_counts[2]) == 1
    assert float(after.theta.log_theta[2]) > float(state.theta.log_theta[2])
    assert float(sampler.observe(after).log_weight) == float(sampler.observe(state).log_weight)
