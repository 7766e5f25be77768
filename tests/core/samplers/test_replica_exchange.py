"""Replica exchange against known distributions, with exact and with noisy energies."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats
from tiers import in_second_tier, in_third_tier

from numpyro_contour.core.diffusions import langevin
from numpyro_contour.core.diffusions.diffusion import memory_unchanged
from numpyro_contour.core.samplers.chain import Chain
from numpyro_contour.core.samplers.replica_exchange import (
    reevaluate,
    replica_exchange,
    shift_energies,
)
from numpyro_contour.core.samplers.window import run_window
from numpyro_contour.examples import mixture
from numpyro_contour.schedules import Constant


def of(step_size, temperatures, **arguments):
    return replica_exchange(
        langevin(),
        Constant(step_size),
        tuple(Constant(tau) for tau in temperatures),
        **arguments,
    )


def run(sampler, potential_and_grad, start, windows, num_steps, seed=0):
    """Draws (chains, windows, ...) and the last state."""

    @jax.jit
    @jax.vmap
    def chain(key, start):
        key_init, key_run = random.split(key)
        state = sampler.init(key_init, start, potential_and_grad)

        def body(state, key):
            state, window = run_window(
                key, state, potential_and_grad, sampler, num_steps, "reservoir"
            )
            return state, window.draw.position

        return jax.lax.scan(body, state, random.split(key_run, windows))

    state, draws = chain(random.split(random.key(seed), len(start)), start)
    return np.asarray(draws, np.float64), state


def across_chains(values):
    """Mean over chains and its standard error."""
    return values.mean(0), values.std(0, ddof=1) / len(values) ** 0.5


# ---------------------------------------------------------------- noisy energies

NOISE_SD = 2.0
#: the scale that gives Student's t of 5 degrees of freedom the same variance, from 5/3
T5_SCALE = NOISE_SD / math.sqrt(5 / 3)
MASS_LEFT = 0.4


def two_modes(x):
    """0.4 N(-4, 0.7^2) + 0.6 N(3, 0.5^2), the target of Deng et al. (2020)."""
    left = math.log(0.4 / 0.7) - 0.5 * ((x + 4) / 0.7) ** 2
    right = math.log(0.6 / 0.5) - 0.5 * ((x - 3) / 0.5) ** 2
    return -jnp.logaddexp(left, right)


def with_noise(noise):
    def potential_and_grad(key, x):
        value, gradient = jax.value_and_grad(two_modes)(x)
        normals = random.normal(key, (6,))
        t5 = normals[0] / jnp.sqrt(jnp.mean(normals[1:] ** 2))
        seen = {
            "normal": NOISE_SD * normals[0],
            "t5 of the same variance": T5_SCALE * t5,
            "t5": t5,
        }
        return value + seen[noise], gradient

    return potential_and_grad


def mass_left(noise, swap, windows):
    """The mass of the mode at -4 by the coldest of two replicas, its error, and the last state."""
    sampler = of(0.03, (1.0, 10.0), swap=swap)
    # The modes hold their shares of the chains from the start.
    start = jnp.where(jnp.arange(20) % 5 < 2, -4.0, 3.0)
    x, state = run(sampler, with_noise(noise), start, windows=windows, num_steps=100)
    return *across_chains((x < -0.5).mean(1)), state


@pytest.mark.slow
@pytest.mark.optimized
@pytest.mark.parametrize(
    "noise", ["normal", *map(in_third_tier, ("t5 of the same variance", "t5"))]
)
def test_the_correction_takes_away_the_bias_of_noisy_swaps(noise):
    mass, error, state = mass_left(noise, "corrected", 1000 if noise == "normal" else 500)
    assert error < 0.015
    assert abs(mass - MASS_LEFT) < (4 * error + 0.005 if noise == "normal" else 0.05)
    variance = 5 / 3 if noise == "t5" else NOISE_SD**2
    assert (np.abs(np.asarray(state.energy_variance) / variance - 1) < 0.15).all()
    assert (np.asarray(state.swap_rates) > 0.05).all()


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["normal", "t5 of the same variance"])
def test_naive_swaps_are_biased_by_noise(noise):
    mass, error, _ = mass_left(noise, "naive", 1000)
    assert mass - MASS_LEFT > max(0.03, 5 * error)


# ---------------------------------------------------------------- exact energies


@pytest.mark.slow
def test_a_wide_window_is_biased_where_moves_do_not_forget():
    """Which round of a window has the swap depends on the modes: turns of one round know none."""
    start = jnp.where(jnp.arange(40) % 5 < 2, -4.0, 3.0)
    energy = lambda key, x: jax.value_and_grad(two_modes)(x)
    mass = {}
    for window in (1, 8):
        sampler = of(0.03, (1.0, 3.0, 10.0), noisy=False, swap_window=window)
        x, _ = run(sampler, energy, start, windows=1000, num_steps=20)
        mass[window] = across_chains((x < -0.5).mean(1))
    (plain, error), (wide, other_error) = mass[1], mass[8]
    assert error < 0.012
    assert abs(plain - MASS_LEFT) < 4 * error
    assert wide - MASS_LEFT > max(0.05, 5 * other_error)


@pytest.mark.slow
def test_exact_energies_find_the_mass_of_both_modes():
    x, state = run(
        of(0.1, (1.0, 3.0, 9.0), noisy=False),
        lambda key, x: jax.value_and_grad(mixture.potential)(x),
        jnp.full(20, -6.0),
        windows=800,
        num_steps=50,
    )
    x = x[:, 200:]  # the rest is warm-up
    mass, error = across_chains((x > mixture.DIVIDE).mean(1))
    assert abs(mass - mixture.MASS) < min(0.05, 4 * error + 0.005)
    for centre in (-6.0, 4.0):
        near = np.abs(x - centre) < 5.0
        variance, error = across_chains((near * (x - centre) ** 2).sum(1) / near.sum(1))
        assert abs(variance - 1) < 4 * error + 0.01
    np.testing.assert_array_equal(np.asarray(state.energy_variance), 0.0)


SCALES = np.array([0.5, 1.0, 2.0, 1.0, 1.5])
COVARIANCE = np.outer(SCALES, SCALES) * 0.5 ** np.abs(np.subtract.outer(range(5), range(5)))
MEAN = np.array([1.0, -2.0, 0.5, 0.0, 3.0])


def gaussian(key, x):
    d = jnp.linalg.solve(COVARIANCE, x - MEAN)
    return 0.5 * jnp.dot(x - MEAN, d), d


@pytest.mark.slow
def test_a_correlated_gaussian_is_unbiased_at_a_large_step():
    """Averaged noise has no bias on Gaussians; swaps must not bring one in."""
    chains, scales = 32, jnp.asarray(SCALES**2)
    sampler = replica_exchange(
        langevin(preconditioner=scales),
        Constant(0.3),
        tuple(Constant(tau) for tau in (1.0, 1.5, 2.5)),
        noisy=False,
    )
    start = MEAN + random.normal(random.key(9), (chains, 5)) @ np.linalg.cholesky(COVARIANCE).T
    x, state = run(sampler, gaussian, start, windows=2000, num_steps=10)
    x = x[:, 100:]
    # The limit holds the Bonferroni quantile for 20 comparisons with 31 degrees of freedom.
    limit = stats.t.ppf(1 - 0.001 / 20, chains - 1)
    mean, error = across_chains(x.mean(1))
    assert (np.abs(mean - MEAN) < limit * error).all()
    centred = x - MEAN
    covariance, error = across_chains(np.einsum("cdi,cdj->cij", centred, centred) / x.shape[1])
    assert (np.abs(covariance - COVARIANCE) < limit * error).all()
    # The check can fail: a wrong temperature of 4 % would be seen.
    assert (0.04 * np.diag(COVARIANCE) > (limit * error).diagonal()).all()
    assert (np.asarray(state.swap_rates) > 0.3).all()


# ---------------------------------------------------------------- one step at a time


def square(key, x):
    """U = x^2, far apart where the tests need swaps that are certain."""
    return jnp.where(jnp.abs(x) < 1000.0, x**2, jnp.nan), 2 * x


def at_positions(sampler, positions, energy=square):
    """The sampler's state with its replicas at given positions, and different guards."""
    state = sampler.init(random.key(0), jnp.asarray(positions[0]), energy)
    hotter = state.hotter._replace(position=jnp.asarray(positions[1:]))
    count = jnp.arange(1, len(positions))
    hotter = hotter._replace(
        guard=hotter.guard._replace(step_scale=0.9**count, refused=count),
    )
    return reevaluate(random.key(1), state._replace(hotter=hotter), energy)


def positions_of(state):
    return np.concatenate([[state.chain.position], state.hotter.position])


@pytest.mark.slow
def test_a_swap_exchanges_places_and_nothing_else():
    step_size, positions = 1e-4, [10.0, 1.0]
    keys = random.split(random.key(3))

    def after(relocate=memory_unchanged, **arguments):
        diffusion = langevin()._replace(relocate=relocate)
        ladder = Constant(1.0), Constant(3.0)
        sampler = replica_exchange(diffusion, Constant(step_size), ladder, noisy=False, **arguments)
        return sampler.step(keys, at_positions(sampler, positions), square)

    apart, swapped = after(swap_every=1000), after()
    cold, hot = apart.chain, jax.tree.map(lambda x: x[0], apart.hotter)
    names = ("position", "potential_energy", "gradient")
    new_cold, new_hot = swapped.chain, jax.tree.map(lambda x: x[0], swapped.hotter)
    for name in Chain._fields:
        one, other = (hot, cold) if name in names else (cold, hot)
        jax.tree.map(np.testing.assert_array_equal, getattr(new_cold, name), getattr(one, name))
        jax.tree.map(np.testing.assert_array_equal, getattr(new_hot, name), getattr(other, name))
    assert abs(swapped.chain.position - 1) < 0.3
    assert swapped.swaps == 1
    assert apart.swap_attempts == 0

    followed = after(relocate=langevin().relocate)
    change = math.sqrt(step_size / 2) * (hot.gradient - cold.gradient)
    np.testing.assert_allclose(followed.chain.memory, cold.memory + change, rtol=1e-4)
    scale = hot.guard.step_scale / 3.0
    change = jnp.sqrt(step_size * scale / 2) * (cold.gradient - hot.gradient)
    np.testing.assert_allclose(followed.hotter.memory[0], hot.memory + change, rtol=1e-4)


def test_no_swap_where_it_is_improbable():
    sampler = of(1e-4, (1.0, 3.0), noisy=False)
    state = sampler.step(random.split(random.key(3)), at_positions(sampler, [1.0, 10.0]), square)
    assert (state.swap_attempts, state.swaps) == (1, 0)
    assert abs(state.chain.position - 1) < 0.3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "log_chance"),
    [
        ({}, 0.3 * 3 - 0.3**2 * (10 + 30) / 2),
        ({"correction_factor": 1.5}, 0.3 * 3 - 0.3**2 * (10 + 30) / 2 / 1.5),
        ({"swap": "naive"}, 0.0),
        ({"noisy": False}, 0.0),
    ],
)
def test_the_chance_of_a_swap(arguments, log_chance):
    sampler = of(1e-8, (2.0, 5.0), gain=Constant(0.0), **arguments)
    state = at_positions(sampler, [2.0, 1.0])
    state = state._replace(energy_variance=jnp.asarray([10.0, 30.0]))
    keys = random.split(random.key(5), (4000, 2))
    rate = jax.vmap(lambda keys: sampler.step(keys, state, square).swaps[0])(keys).mean()
    chance = math.exp(log_chance)
    assert abs(rate - chance) < 4 * math.sqrt(chance * (1 - chance) / 4000) + 0.002


@pytest.mark.parametrize(
    ("positions", "orders"),
    [
        in_second_tier([30.0, 20.0, 10.0], [(20, 30, 10), (20, 10, 30), (10, 20, 30)]),
        ([40.0, 30.0, 20.0, 10.0], [(30, 40, 10, 20), (30, 10, 40, 20), (10, 30, 20, 40)]),
    ],
)
def test_even_and_odd_pairs_take_turns(positions, orders):
    sampler = of(1e-6, 2.0 ** np.arange(len(positions)), noisy=False)
    state = at_positions(sampler, positions)
    for number, order in enumerate(orders, 1):
        state = sampler.step(random.split(random.key(number)), state, square)
        np.testing.assert_allclose(positions_of(state), order, atol=0.5)
        turns = [(number + 1) // 2 if pair % 2 == 0 else number // 2 for pair in range(len(order))]
        np.testing.assert_array_equal(state.swap_attempts, turns[: len(order) - 1])


@pytest.mark.slow
def test_a_pair_swaps_once_in_a_window():
    sampler = of(1e-6, (1.0, 2.0, 4.0), noisy=False, swap_window=2)
    state = at_positions(sampler, [30.0, 20.0, 10.0])
    orders = [(20, 30, 10)] * 2 + [(20, 10, 30)] * 2 + [(10, 20, 30)] * 4
    # A pair that has swapped is not asked again; one that has not is asked in all rounds.
    attempts = [(1, 0), (1, 0), (1, 1), (1, 1), (2, 1), (2, 1), (2, 2), (2, 3)]
    for number, (order, asked) in enumerate(zip(orders, attempts)):
        state = sampler.step(random.split(random.key(number)), state, square)
        np.testing.assert_allclose(positions_of(state), order, atol=0.5)
        np.testing.assert_array_equal(state.swap_attempts, asked)
    np.testing.assert_array_equal(state.swaps, [2, 1])
    np.testing.assert_array_equal(state.walkers.at, [2, 1, 0])


def test_windows_are_counted_in_rounds_of_offers():
    sampler = of(1e-6, (1.0, 2.0, 4.0), noisy=False, swap_window=2, swap_every=3)
    state = at_positions(sampler, [1.0, 20.0, 300.0])
    attempts = []
    for number in range(15):
        state = sampler.step(random.split(random.key(number)), state, square)
        attempts.append(state.swap_attempts.tolist())
    assert attempts[2::3] == [[1, 0], [2, 0], [2, 1], [2, 2], [3, 2]]


def test_swaps_are_offered_every_so_many_steps():
    sampler = of(1e-6, (1.0, 3.0), swap_every=3)
    state = at_positions(sampler, [1.0, 2.0])
    attempts = []
    for number in range(7):
        state = sampler.step(random.split(random.key(number)), state, square)
        attempts.append(int(state.swap_attempts[0]))
    assert attempts == [0, 0, 1, 1, 1, 2, 2]


@pytest.mark.parametrize("lost", [0, 1])
def test_a_replica_whose_move_was_refused_is_not_swapped(lost):
    """Neither what is not finite nor a place that has stood for its time already."""
    positions = [3000.0, 1.0] if lost == 0 else [1.0, 3000.0]
    sampler = of(1e-6, (1.0, 3.0))
    state = at_positions(sampler, positions)
    state = state._replace(energy_variance=jnp.asarray([5.0, 5.0]))
    wanting = jnp.asarray(1e9 if lost == 0 else -1e9)
    if lost == 0:
        state = state._replace(chain=state.chain._replace(potential_energy=wanting))
    else:
        state = state._replace(hotter=state.hotter._replace(potential_energy=wanting[None]))
    state = sampler.step(random.split(random.key(3)), state, square)
    np.testing.assert_allclose(positions_of(state), positions, atol=0.5)
    assert state.swap_attempts == 0
    assert np.isneginf(sampler.observe(state).log_weight) == (lost == 0)
    assert state.energy_variance[lost] == 5
    assert state.energy_variance[1 - lost] != 5


def test_the_variance_survives_an_energy_whose_square_is_too_large():
    sampler = of(1e-6, (1.0, 3.0))
    state = at_positions(sampler, [1.0, 2.0])
    state = state._replace(energy_variance=jnp.asarray([5.0, 5.0]))
    state = state._replace(chain=state.chain._replace(potential_energy=jnp.asarray(1e30)))
    state = sampler.step(random.split(random.key(3)), state, square)
    assert state.chain.accepted
    assert state.energy_variance[0] == 5
    assert 0 <= state.energy_variance[1] < 5


def test_energies_are_shifted_renewed_and_placed_in_all_replicas():
    sampler = of(1e-6, (1.0, 3.0, 9.0))
    state = at_positions(sampler, [1.0, 2.0, 3.0])
    raised = shift_energies(state, 5.0)
    np.testing.assert_allclose(raised.chain.potential_energy, 6.0)
    np.testing.assert_allclose(raised.hotter.potential_energy, [9.0, 14.0])
    renewed = reevaluate(random.key(0), raised, lambda key, x: (3 * x, x - 1))
    np.testing.assert_allclose(renewed.chain.potential_energy, 3.0)
    np.testing.assert_allclose(renewed.hotter.potential_energy, [6.0, 9.0])
    np.testing.assert_allclose(renewed.hotter.gradient, [1.0, 2.0])

    chain = state.chain._replace(position=jnp.asarray(7.0), potential_energy=jnp.asarray(49.0))
    walked = state.walkers._replace(at=jnp.array([2, 0, 1]), round_trips=jnp.array([3, 1, 0]))
    placed = sampler.relocate(state._replace(walkers=walked), chain)
    np.testing.assert_array_equal(placed.walkers.at, [0, 1, 2])
    np.testing.assert_array_equal(placed.walkers.round_trips, [3, 1, 0])
    np.testing.assert_array_equal(positions_of(placed), 7.0)
    np.testing.assert_array_equal(placed.hotter.potential_energy, 49.0)
    for name in ("memory", "guard"):
        own, new = getattr(state.hotter, name), getattr(placed.hotter, name)
        jax.tree.map(np.testing.assert_array_equal, own, new)
    same = jax.tree.map(lambda x, y: x.shape == y.shape and x.dtype == y.dtype, state, placed)
    assert jax.tree.all(same)


# ---------------------------------------------------------------- wrong arguments


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperatures", (Constant(1.0),)),
        ("temperatures", ()),
        ("temperatures", Constant(1.0)),
        ("temperatures", (1.0, 2.0)),
        ("swap", "corrupted"),
        ("correction_factor", 0.0),
        ("swap_every", 0),
        ("swap_every", 1.5),
        ("swap_window", 0),
        ("noisy", 1),
    ],
)
def test_wrong_arguments(name, value):
    arguments = {"temperatures": (Constant(1.0), Constant(2.0))} | {name: value}
    with pytest.raises(ValueError, match=f"^`{name}` takes"):
        replica_exchange(langevin(), Constant(0.1), **arguments)
