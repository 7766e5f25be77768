"""The guard: refusals, back-off, and the time weights that make up for it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from tiers import in_second_tier

from numpyro_contour import EnergyPartition, robbins_monro
from numpyro_contour.core.diffusions import langevin
from numpyro_contour.core.samplers.contour import contour
from numpyro_contour.core.samplers.guard import initial_guard, update_guard
from numpyro_contour.core.samplers.plain import plain
from numpyro_contour.core.samplers.window import run_window
from numpyro_contour.schedules import Constant

SAMPLERS = {
    "sgld": plain(langevin(), Constant(0.1), Constant(1.0)),
    "contour": contour(
        langevin(), Constant(0.1), Constant(1.0), EnergyPartition(0, 10, 20), robbins_monro()
    ),
}


def with_a_wall(key, x):
    """A standard normal whose potential is not a number below -1."""
    return jnp.where(x < -1, jnp.nan, x**2 / 2), x


def with_unusable_gradients(key, x):
    return x**2 / 2, jnp.where(x < -1, jnp.inf, x)


def chains(sampler, potential_and_grad, windows=2000, num_steps=20, number=16):
    def one(key):
        key_init, key_run = random.split(key)
        state = sampler.init(key_init, jnp.array(0.5), potential_and_grad)

        def body(state, key):
            state, window = run_window(
                key, state, potential_and_grad, sampler, num_steps, "reservoir"
            )
            return state, (window.draw.position, window.log_weight, window.draw.step_size)

        return jax.lax.scan(body, state, random.split(key_run, windows))

    return jax.jit(jax.vmap(one))(random.split(random.key(3), number))


@pytest.mark.parametrize("name", [in_second_tier("sgld"), "contour"])
@pytest.mark.parametrize("potential_and_grad", [with_a_wall, with_unusable_gradients])
def test_moves_to_where_the_potential_is_not_finite_are_refused_and_counted(
    name, potential_and_grad
):
    state, (x, log_weight, step_size) = chains(SAMPLERS[name], potential_and_grad)
    assert np.asarray(x).min() >= -1
    refused = np.asarray(state.chain.guard.refused)
    assert (refused > 0).all()
    assert (refused < 0.2 * 40_000).all()
    assert np.asarray(step_size).max() <= 0.1 + 1e-6
    assert np.asarray(step_size).min() < 0.09
    w = np.exp(np.asarray(log_weight, np.float64))
    w /= w.mean(1, keepdims=True)
    means = (w * np.asarray(x)).mean(1)
    # E[x] of a standard normal above -1 is 0.2876. Steps of 0.1 against a hard wall leave a bias
    # of a few percent of a standard deviation; a chain that piled up at the wall would be below.
    assert abs(means.mean() - 0.2876) < 4 * means.std(ddof=1) / 4 + 0.05


@pytest.mark.slow
def test_moves_that_rise_above_the_margin_are_refused():
    sampler = contour(
        *(langevin(), Constant(0.1), Constant(1.0), EnergyPartition(0, 1.5, 20), robbins_monro()),
        margin=jnp.array(0.5),
    )
    normal = lambda key, x: (x**2 / 2, x)
    _, (x, log_weight, _) = chains(sampler, normal)
    x = np.asarray(x, np.float64)
    assert 1.9 < np.abs(x).max() <= 2.0 + 1e-5
    w = np.exp(np.asarray(log_weight, np.float64))
    squares = (w * x**2).sum(1) / w.sum(1)
    # E[x**2] of a standard normal within +-2; the wall adds a bias of the step as above.
    assert abs(squares.mean() - 0.7737) < 4 * squares.std(ddof=1) / 4 + 0.05
    # From above, all moves down are made.
    above = sampler.init(random.key(0), jnp.array(9.0), normal)
    for key in random.split(random.key(1), 200):
        above = sampler.step(random.split(key), above, normal)
    assert abs(float(above.chain.position)) <= 2.0


@pytest.mark.parametrize("noise_limit", [1.0, None])
def test_noise_that_reaches_the_margin_holds_no_chain(noise_limit):
    """98 nats high over a ceiling of 90, with noise of 15: it comes down, and would not if held."""
    sampler = contour(
        *(langevin("averaged", jnp.array(1.0)), Constant(0.02), Constant(1.0)),
        *(EnergyPartition(0, 80, 20), lambda count: 0.0),
        margin=jnp.array(10.0),
        noise_limit=noise_limit,
    )

    def potential(key, x):
        return x**2 / 2 + 15 * random.normal(key), x

    def last(key):
        state = sampler.init(key, jnp.array(14.0), potential)
        step = lambda state, key: (sampler.step(random.split(key), state, potential), None)
        return jax.lax.scan(step, state, random.split(key, 1000))[0].chain

    chain = jax.jit(jax.vmap(last))(random.split(random.key(0), 50))
    assert (jnp.abs(chain.position) < 5).all() == (noise_limit is not None)


def test_back_off_halves_and_recovers():
    guard = initial_guard()
    for _ in range(3):
        guard = update_guard(guard, jnp.array(False), jnp.array(False))
    assert float(guard.step_scale) == pytest.approx(1 / 8)
    assert int(guard.refused) == 3
    for _ in range(10):
        guard = update_guard(guard, jnp.array(True), jnp.array(False))
    assert float(guard.step_scale) == pytest.approx(1 / 4)
    for _ in range(50):
        guard = update_guard(guard, jnp.array(True), jnp.array(True))
    assert float(guard.step_scale) == 1.0
    assert int(guard.clipped) == 50


@pytest.mark.parametrize("name", SAMPLERS)
def test_weights_of_single_steps_are_the_time_they_stand_for(name):
    sampler = SAMPLERS[name]
    energy = lambda key, x: (jnp.where(x > 1e3, jnp.nan, x * 0.0), x * 0.0)
    state = sampler.init(random.key(0), jnp.array(0.0), energy)
    keys = random.split(random.key(1))
    flat = sampler.observe(state).log_weight
    # A refused attempt, forced by moving the chain to where the next step must fail:
    chain = state.chain
    stuck = state._replace(chain=chain._replace(gradient=jnp.array(-jnp.inf)))
    refused = sampler.step(keys, stuck, lambda key, x: (jnp.nan * x, x))
    assert float(refused.chain.position) == float(chain.position)
    assert np.isneginf(float(sampler.observe(refused).log_weight))
    after = sampler.step(keys, refused._replace(chain=refused.chain._replace(gradient=0.0)), energy)
    expected = float(flat) + np.log(0.5 * 2**0.1)
    assert float(sampler.observe(after).log_weight) == pytest.approx(expected, abs=1e-5)
    assert float(sampler.observe(after).step_size) == pytest.approx(0.1 * 0.5 * 2**0.1)


def test_a_refusal_teaches_theta_nothing():
    sampler = SAMPLERS["contour"]
    state = sampler.init(random.key(0), jnp.array(0.5), with_a_wall)
    refused = sampler.step(random.split(random.key(1)), state, lambda key, x: (jnp.nan, x))
    np.testing.assert_array_equal(refused.theta.log_theta, state.theta.log_theta)


@pytest.mark.parametrize(("told", "learns"), [(0.9, True), (1.1, False)])
def test_theta_learns_from_energies_with_bearable_noise_only(told, learns):
    sampler = contour(
        *(langevin(), Constant(0.1), Constant(1.0), EnergyPartition(0, 10, 20), robbins_monro()),
        noise_limit=1.0,
    )
    energy = lambda key, x: (x**2 / 2, x, jnp.asarray(told))
    state = sampler.init(random.key(0), jnp.array(0.5), energy)
    moved = sampler.step(random.split(random.key(1)), state, energy)
    assert (moved.theta.log_theta == state.theta.log_theta).all() != learns


def test_energies_of_unbearable_noise_are_not_held_under_the_margin():
    """A chain at a lucky low energy, 40 nats below a ceiling under which all others lie."""
    sampler = contour(
        *(langevin(), Constant(0.1), Constant(1.0), EnergyPartition(0, 80, 20), lambda count: 0.0),
        margin=jnp.array(10.0),
        noise_limit=1.0,
    )
    start = sampler.init(random.key(0), jnp.array(0.5), lambda key, x: (50.0 + x, x))
    for told, moves in ((4.0, True), (0.5, False)):
        energy = lambda key, x, told=told: (200.0 + x, x, jnp.asarray(told))
        assert (
            bool(sampler.step(random.split(random.key(1)), start, energy).chain.accepted) == moves
        )


def test_a_chain_that_starts_without_a_finite_energy_never_moves():
    sampler = SAMPLERS["contour"]
    nowhere = lambda key, x: (jnp.inf * (1 + x**2), x)
    state = sampler.init(random.key(0), jnp.array(0.5), nowhere)
    for key in random.split(random.key(1), 5):
        state = sampler.step(random.split(key), state, nowhere)
    assert int(state.chain.guard.refused) == int(state.chain.steps) == 5
