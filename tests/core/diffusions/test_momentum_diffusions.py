"""Underdamped diffusions and thermostats: their steps, and what many of them sample."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy.linalg import solve_discrete_lyapunov
from tiers import in_second_tier

from numpyro_contour.core.diffusions import (
    Step,
    langevin,
    leapfrog,
    nose_hoover,
    rmsprop,
    underdamped,
    whitened,
)
from numpyro_contour.core.samplers.plain import plain
from numpyro_contour.schedules import Constant

KEY = random.key(3)


def normals(shape=(2,)):
    return random.normal(KEY, shape)


def propose(diffusion, x, memory, g, step_size, temperature=1.0, multiplier=1.0):
    return diffusion.propose(KEY, x, memory, g, Step(step_size, temperature, multiplier))


def second_moments(diffusion, step_size, gradient, size, steps=3000, chains=512, tau=1.0):
    """E[x**2] and its Monte Carlo error; `gradient(key, x)` may be noisy."""

    def body(carry, key):
        x, memory = carry
        key_move, key_gradient = random.split(key)
        g = gradient(key_gradient, x)
        proposal = diffusion.propose(key_move, x, memory, g, Step(step_size, tau))
        return (proposal.position, proposal.memory), proposal.position**2

    @jax.jit
    @jax.vmap
    def chain(key):
        key_start, key_memory, key_run = random.split(key, 3)
        x = random.normal(key_start, (size,)) * tau**0.5
        start = (x, diffusion.init(key_memory, x))
        return jax.lax.scan(body, start, random.split(key_run, steps))[1][steps // 4 :].mean(0)

    squares = np.asarray(chain(random.split(random.key(0), chains)), np.float64)
    return squares.mean(0), squares.std(0, ddof=1) / chains**0.5


@pytest.mark.parametrize(
    "diffusion",
    [
        langevin(),
        langevin("independent"),
        underdamped(0.7),
        nose_hoover(0.7),
        leapfrog(0.7),
        leapfrog(0.0),
        rmsprop(lambda m, c: langevin(preconditioner=m, curvature=c)),
        whitened(langevin(), jnp.array([[1.0, 0.0], [0.5, 2.0]])),
    ],
)
def test_what_is_drawn_before_a_move_is_what_it_draws_itself(diffusion):
    x, gradient, step = normals(), normals() + 1, Step(jnp.array(0.1), jnp.array(1.0))
    memory = diffusion.init(random.key(1), x)
    noise = diffusion.draw(KEY, x)
    ahead, itself = (diffusion.propose(by, x, memory, gradient, step) for by in (noise, KEY))
    jax.tree.map(np.testing.assert_array_equal, ahead, itself)
    other = diffusion.propose(random.key(9), x, memory, gradient, step)
    assert not np.array_equal(other.position, itself.position)


@pytest.mark.parametrize("noise", ["averaged", "independent"])
def test_a_step_is_its_formula(noise):
    x, g, v = jnp.array([1.0, -2.0]), jnp.array([0.3, 0.7]), jnp.array([0.4, -0.2])
    m = jnp.array([0.5, 2.0])
    c, eps, tau, multiplier = 0.8, 0.2, 1.5, -0.4
    h = np.sqrt(2 * eps / (1 + c))
    proposal = propose(underdamped(c, noise=noise, preconditioner=m), x, v, g, eps, tau, multiplier)
    if noise == "independent":
        # As written by Saatci and Wilson, with the displacement u in the place of the velocity.
        u = h * np.sqrt(m) * v
        u = c * u - eps * multiplier * m * g + np.sqrt(2 * (1 - c) * tau * eps * m) * normals()
        moved, velocity = x + u, u / (h * np.sqrt(m))
    else:
        kicked = v - h * multiplier * np.sqrt(m) * g
        velocity = c * kicked + np.sqrt((1 - c**2) * tau) * normals()
        moved = x + h / 2 * np.sqrt(m) * (kicked + velocity)
    np.testing.assert_allclose(proposal.position, moved, rtol=1e-5)
    np.testing.assert_allclose(proposal.memory, velocity, rtol=1e-5)
    np.testing.assert_array_equal(proposal.memory_if_refused, -v)


def test_friction_is_a_momentum_that_depends_on_the_step():
    x, g, v = jnp.array([1.0, -2.0]), jnp.array([0.3, 0.7]), jnp.array([0.4, -0.2])
    friction = propose(underdamped(friction=0.5), x, v, g, 0.04)
    momentum = propose(underdamped(momentum=float(np.exp(-0.5 * 0.2))), x, v, g, 0.04)
    np.testing.assert_allclose(friction.position, momentum.position, rtol=1e-6)


def test_without_momentum_it_is_langevin():
    x, g = jnp.array([1.0, -2.0]), jnp.array([0.3, 0.7])
    last = jnp.array([0.5, -0.25])
    averaged = propose(underdamped(0.0), x, jnp.sqrt(1.5) * last, g, 0.2, 1.5)
    expected = propose(langevin(), x, last, g, 0.2, 1.5)
    np.testing.assert_allclose(averaged.position, expected.position, rtol=1e-6)
    independent = propose(underdamped(0.0, noise="independent"), x, last, g, 0.2, 1.5)
    expected = propose(langevin("independent"), x, (), g, 0.2, 1.5)
    np.testing.assert_allclose(independent.position, expected.position, rtol=1e-6)


@pytest.mark.parametrize("noise", ["averaged", "independent"])
def test_without_temperature_it_is_the_heavy_ball(noise):
    x, displacement = jnp.array([1.0, 2.0]), jnp.zeros(2)
    diffusion = underdamped(0.9, noise=noise)
    y, memory = x, diffusion.init(KEY, x)
    for _ in range(5):
        proposal = propose(diffusion, y, memory, 3 * y, 0.01, 0.0)
        y, memory = proposal.position, proposal.memory
        displacement = 0.9 * displacement - 0.01 * 3 * x
        x = x + displacement
        assert not bool(proposal.clipped)
    np.testing.assert_allclose(y, x, rtol=1e-5)


def stationary_variance(c, eps, noise):
    """Exactly, from the linear recursion of (x, v) under U = x**2 / 2."""
    h = np.sqrt(2 * eps / (1 + c))
    s = np.sqrt(1 - c**2)
    if noise == "averaged":
        step = np.array([[1 - h**2 * (1 + c) / 2, h * (1 + c) / 2], [-c * h, c]])
        injected = np.array([[h * s / 2], [s]])
    else:
        step = np.array([[1 - eps, h * c], [-eps / h, c]])
        injected = np.array([[h * s], [s]])
    return solve_discrete_lyapunov(step, injected @ injected.T)[0, 0]


@pytest.mark.parametrize("noise", ["averaged", "independent"])
def test_variances_are_the_known_ones(noise):
    c, eps = 0.8, 0.5
    exact = stationary_variance(c, eps, noise)
    variance, error = second_moments(underdamped(c, noise=noise), eps, lambda key, x: x, 1)
    assert abs(variance[0] - exact) < 4 * error[0]
    if noise == "averaged":
        assert abs(exact - 1) < 1e-12
    else:
        assert exact - 1 > 10 * error[0]  # so that mixing the two up would be seen


NOISE = 4.0  # variance of the gradient


def noisy(key, x):
    return x + NOISE**0.5 * random.normal(key, x.shape)


def test_the_noise_of_the_gradient_is_taken_out_of_the_injected_noise():
    eps, c = 0.02, 0.9
    heated = 1 + eps * NOISE / (2 * (1 - c))
    plain, error = second_moments(underdamped(c), eps, noisy, 1)
    assert abs(plain[0] - heated) < 4 * error[0] + 0.02
    ones = jnp.ones(1)
    corrected = underdamped(c, preconditioner=ones, gradient_noise=NOISE * ones)
    variance, error = second_moments(corrected, eps, noisy, 1)
    assert abs(variance[0] - 1) < 4 * error[0] + 0.02
    assert heated - 1 > 10 * (error[0] + 0.02)


@pytest.mark.parametrize("noise", ["averaged", in_second_tier("independent")])
def test_the_thermostat_takes_out_noise_that_nobody_has_measured(noise):
    eps, size = 0.02, 10
    # The first-order scheme holds the velocity after a whole kick at the temperature, so that its
    # variances are too small by half of the friction, 1 - c and the heat of the noise.
    bias = {"averaged": 0.0, "independent": -(0.1 + eps * NOISE / 2) / 2}[noise]
    for tau in (1.0, 2.0):
        diffusion = nose_hoover(0.9, noise)
        squares, error = second_moments(diffusion, eps, noisy, size, 3000, 128, tau)
        # Without it the variance would be above by 40 % at temperature 1.
        assert abs(squares.mean() / tau - 1 - bias) < 0.02 + 4 * error.mean() / tau


def test_a_step_of_the_thermostat_is_its_formula():
    x, g, v = jnp.array([1.0, -2.0]), jnp.array([0.3, 0.7]), jnp.array([0.4, -0.2])
    eps, tau, c, f = 0.2, 1.5, 0.8, 0.3
    diffusion = nose_hoover(c, "independent")
    memory = diffusion.init(KEY, x)
    np.testing.assert_allclose(memory.friction, 1 - c, rtol=1e-6)
    proposal = propose(diffusion, x, memory._replace(velocity=v, friction=f), g, eps, tau, -0.4)
    # Algorithm 2 of Ding et al. in displacements u, with the temperature taken along.
    u = np.sqrt(eps) * v
    u = u - f * u - eps * -0.4 * g + np.sqrt(2 * (1 - c) * eps * tau) * normals()
    np.testing.assert_allclose(proposal.position, x + u, rtol=1e-5)
    expected = f + (u @ u / 2 - eps * tau) / tau
    np.testing.assert_allclose(proposal.memory.friction, expected, rtol=1e-5)
    # Without a thermostat's motion the splitting is the underdamped one.
    still = nose_hoover(c).propose(KEY, x, nose_hoover(c).init(KEY, x), g, Step(1e-10, tau))
    plain = underdamped(c).propose(KEY, x, jnp.zeros(2), g, Step(1e-10, tau))
    np.testing.assert_allclose(still.memory.velocity, plain.memory, rtol=1e-4)


def test_a_preconditioner_is_a_change_of_units():
    """The chain in units of M**0.5 is the chain of the rescaled potential."""
    m, curvature = jnp.array([4.0, 0.25]), jnp.array([0.25, 4.0])
    x = jnp.array([1.0, -2.0])
    for make in (langevin, underdamped, nose_hoover):
        scaled, plain = make(preconditioner=m), make()
        a, b = x, x / jnp.sqrt(m)
        memory_a, memory_b = scaled.init(KEY, a), plain.init(KEY, b)
        for key in random.split(random.key(1), 5):
            p = scaled.propose(key, a, memory_a, curvature * a, Step(0.2, 1.0))
            q = plain.propose(key, b, memory_b, m * curvature * b, Step(0.2, 1.0))
            a, memory_a, b, memory_b = p.position, p.memory, q.position, q.memory
        np.testing.assert_allclose(a / jnp.sqrt(m), b, rtol=1e-5)


@pytest.mark.parametrize("make", [underdamped, nose_hoover])
def test_kicks_are_clipped_and_say_so(make):
    x, diffusion = jnp.zeros(2), make()
    steep = propose(diffusion, x, diffusion.init(KEY, x), jnp.array([1e6, 1.0]), 0.01)
    assert bool(steep.clipped)
    assert np.abs(steep.position).max() < 2
    assert not bool(propose(diffusion, x, diffusion.init(KEY, x), jnp.ones(2), 0.01).clipped)


@pytest.mark.parametrize("make", [langevin, lambda **a: underdamped(0.8, **a)])
def test_a_memory_follows_to_another_position(make):
    """Put elsewhere on the target at every step, a chain stays on it only if its memory follows."""
    m, eps, chains, steps = 0.5, 0.8, 4096, 200
    diffusion = make(preconditioner=jnp.array(m))

    def variance(follows):
        @jax.jit
        @jax.vmap
        def chain(key):
            x = jnp.zeros(())
            memory = diffusion.init(key, x)

            def body(carry, key):
                x, memory = carry
                key_place, key_move = random.split(key)
                y = random.normal(key_place)
                if follows:
                    memory = diffusion.relocate(memory, y, x, y, Step(eps, 1.0))
                proposal = diffusion.propose(key_move, y, memory, y, Step(eps, 1.0))
                return (proposal.position, proposal.memory), proposal.position**2

            squares = jax.lax.scan(body, (x, memory), random.split(key, steps))[1]
            return squares[20:].mean()

        squares = np.asarray(chain(random.split(random.key(0), chains)), np.float64)
        return squares.mean(), squares.std(ddof=1) / chains**0.5

    found, error = variance(True)
    assert abs(found - 1) < 4 * error
    found, error = variance(False)
    assert abs(found - 1) > 10 * error


def test_preconditioned_memories_follow_as_their_diffusion_does():
    x, y, g = jnp.array([1.0, -2.0]), jnp.array([0.5, 0.5]), jnp.array([0.3, 0.7])
    diffusion = rmsprop(lambda p, c: underdamped(preconditioner=p, curvature=c), curvature=True)
    memory = diffusion.propose(KEY, x, diffusion.init(KEY, x), g, Step(0.1, 1.0)).memory
    moved = diffusion.relocate(memory, y, g, 3 * g, Step(0.1, 1.0))
    inner = underdamped(preconditioner=1 / (1e-5 + jnp.abs(g)))
    expected = inner.relocate(memory.inner, y, g, 3 * g, Step(0.1, 1.0))
    np.testing.assert_allclose(moved.inner, expected, rtol=1e-4)
    np.testing.assert_array_equal(moved.slopes.position, y)
    np.testing.assert_array_equal(moved.slopes.gradient, 3 * g)
    thermostat = nose_hoover()
    warm = thermostat.init(KEY, x)
    expected = underdamped(preconditioner=None).relocate(warm.velocity, y, g, 3 * g, Step(0.1, 1.0))
    found = thermostat.relocate(warm, y, g, 3 * g, Step(0.1, 1.0))
    np.testing.assert_allclose(found.velocity, expected, rtol=1e-6)
    assert found.friction == warm.friction


def test_a_refused_move_turns_the_velocity():
    def walled(key, x):
        return jnp.where(x > 1.0, jnp.nan, 0.0), jnp.zeros(())

    sampler = plain(underdamped(0.9), Constant(0.02), Constant(1e-12))
    state = sampler.init(KEY, jnp.array(0.99), walled)
    chain = state.chain._replace(memory=jnp.array(1.0))
    refused = sampler.step(random.split(KEY), state._replace(chain=chain), walled).chain
    assert not bool(refused.accepted)
    assert float(refused.memory) == -1.0
    made = sampler.step(
        random.split(KEY), state._replace(chain=chain._replace(position=jnp.array(0.5))), walled
    ).chain
    assert float(made.memory) == pytest.approx(0.9, rel=1e-4)


def test_a_step_of_the_splitting_thermostat_is_its_formula():
    x, g, v = jnp.array([1.0, -2.0]), jnp.array([0.3, 0.7]), jnp.array([0.4, -0.2])
    eps, tau, c, f = 0.2, 1.5, 0.8, 0.3
    diffusion = nose_hoover(c)
    memory = diffusion.init(KEY, x)
    np.testing.assert_allclose(memory.friction, -np.log(c), rtol=1e-6)
    proposal = propose(diffusion, x, memory._replace(velocity=v, friction=f), g, eps, tau, -0.4)
    h = np.sqrt(2 * eps / (1 + c))
    kicked = v - h * -0.4 * g
    half = f + 0.5 * h**2 * (kicked @ kicked / (2 * tau) - 1)
    sd = np.sqrt(tau * -np.log(c) * (1 - np.exp(-2 * half)) / half)
    moving = np.exp(-half) * kicked + sd * normals()
    np.testing.assert_allclose(proposal.position, x + h / 2 * (kicked + moving), rtol=1e-5)
    friction = half + 0.5 * h**2 * (moving @ moving / (2 * tau) - 1)
    np.testing.assert_allclose(proposal.memory.friction, friction, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("make", [langevin, underdamped, nose_hoover])
def test_the_curvature_makes_up_for_a_preconditioner_of_the_position(make):
    """M = 1 / (0.2 + x**2): without its drift the chain would stay where steps are short."""

    def variance(curved):
        def gradient_and_more(x):
            m = 1 / (0.2 + x**2)
            return m, -2 * x * m**2 if curved else None

        def propose_at(key, x, memory):
            m, curvature = gradient_and_more(x)
            diffusion = make(noise="independent", preconditioner=m, curvature=curvature)
            return diffusion.propose(key, x, memory, x, Step(eps, 1.0))

        @jax.jit
        @jax.vmap
        def chain(key):
            x = random.normal(key, (5,))
            memory = make(noise="independent").init(key, x)

            def body(carry, key):
                proposal = propose_at(key, *carry)
                return (proposal.position, proposal.memory), jnp.mean(proposal.position**2)

            squares = jax.lax.scan(body, (x, memory), random.split(key, 6000))[1]
            return squares[1000:].mean()

        squares = np.asarray(chain(random.split(random.key(0), 256)), np.float64)
        return squares.mean(), squares.std(ddof=1) / 16

    eps = 0.01 if make is langevin else 0.002
    found, error = variance(True)
    assert abs(found - 1) < 4 * error + 0.05
    found, error = variance(False)
    assert abs(found - 1) > 0.2
