"""Round trips through a ladder of temperatures, its barrier, and windows of rounds of swaps."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats

from numpyro_contour.core.diffusions import langevin
from numpyro_contour.core.diffusions.diffusion import Diffusion, Proposal
from numpyro_contour.core.samplers.replica_exchange import first_walkers, replica_exchange, walk
from numpyro_contour.examples import mixture
from numpyro_contour.schedules import Constant
from numpyro_contour.statistics.ladders import optimal_round_trip_rate


def counted_by_hand(trace):
    """Round trips of each walker, from the walkers at each temperature, (rounds + 1, R)."""
    size = trace.shape[1]
    trips = np.zeros(size, int)
    for walker in range(size):
        place = [int(np.flatnonzero(row == walker)[0]) for row in trace]
        ends = [p for p in place if p in (0, size - 1)]
        # The ends in turn: each return to the coldest after the hottest is a trip, except a first
        # arrival from the hottest of one that had not been at the coldest.
        turns = [p for i, p in enumerate(ends) if i == 0 or p != ends[i - 1]]
        trips[walker] = turns.count(0) - 1 if 0 in turns else 0
    return trips


@pytest.mark.parametrize("size", [2, 3, 6])
def test_round_trips_are_those_of_the_recorded_permutations(size):
    pairs = np.arange(size - 1)
    number = np.arange(2000)[:, None]
    turn = (pairs + number) % 2 == 0 if size > 2 else np.ones((2000, 1), bool)
    swapping = turn & (np.random.default_rng(size).random((2000, size - 1)) < 0.6)

    def body(walkers, swapping):
        after = walk(walkers, swapping)
        return after, after.at

    last, trace = jax.lax.scan(body, first_walkers(size), jnp.asarray(swapping))
    by_hand = [np.arange(size)]
    for made in swapping:
        order = by_hand[-1].copy()
        for pair in np.flatnonzero(made):
            order[[pair, pair + 1]] = order[[pair + 1, pair]]
        by_hand.append(order)
    np.testing.assert_array_equal(trace, by_hand[1:])
    expected = counted_by_hand(np.stack(by_hand))
    assert expected.min() > 5
    np.testing.assert_array_equal(last.round_trips, expected)


# ---------------------------------------------------------------- moves that forget everything

LADDER = (1.0, 2.0, 5.0, 15.0)
GRID = np.linspace(-25.0, 25.0, 801)
ENERGIES = np.asarray(jax.vmap(mixture.potential)(jnp.asarray(GRID)), np.float64)


def masses(tau):
    density = np.exp((ENERGIES.min() - ENERGIES) / tau)
    return density / density.sum()


def forgetful():
    """Moves to a place of the grid by its probability, wherever the chain is."""

    below = jnp.stack([jnp.asarray(np.cumsum(masses(tau))) for tau in LADDER])

    def propose(key, position, memory, gradient, step):
        of_tau = below[jnp.argmin(jnp.abs(jnp.asarray(LADDER) - step.temperature))]
        at = jnp.searchsorted(of_tau[:-1], random.uniform(key), side="right")
        return Proposal(jnp.asarray(GRID)[at], (), (), jnp.asarray(False))

    return Diffusion(lambda key, position: (), propose)


def exact_energy(key, x):
    return jax.value_and_grad(mixture.potential)(x)


def rejections_of_grid():
    """The mean probability that each pair rejects a swap, by summing over both places."""
    found = []
    for colder, hotter in pairwise(LADDER):
        gain = (1 / colder - 1 / hotter) * (ENERGIES[:, None] - ENERGIES)
        chance = np.exp(np.minimum(gain, 0))
        found.append(1 - masses(colder) @ chance @ masses(hotter))
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("window", [1, 4])
def test_forgetful_moves_make_the_round_trips_that_the_barrier_allows(window):
    """Then draws have no bias, whatever the window, and all rates are known."""
    chains, burn_in, rounds = 48, 100, 1500
    ladder = tuple(Constant(tau) for tau in LADDER)
    sampler = replica_exchange(forgetful(), Constant(1.0), ladder, noisy=False, swap_window=window)

    @jax.jit
    @jax.vmap
    def run(key):
        key_init, key_run = random.split(key)
        state = sampler.init(key_init, jnp.asarray(0.0), exact_energy)

        def body(state, key):
            state = sampler.step(random.split(key), state, exact_energy)
            return state, (state.chain.position, state.walkers.round_trips.sum())

        return jax.lax.scan(body, state, random.split(key_run, burn_in + rounds))

    state, (x, trips) = run(random.split(random.key(window), chains))
    right = (np.asarray(x) > mixture.DIVIDE)[:, burn_in:].mean(1)
    exact = float(masses(1.0)[GRID > mixture.DIVIDE].sum())
    assert abs(right.mean() - exact) < 4 * right.std(ddof=1) / chains**0.5

    exact = rejections_of_grid()
    offered = np.asarray(state.swap_attempts).sum(0)
    rejected = 1 - np.asarray(state.swaps).sum(0) / offered
    assert (np.abs(rejected - exact) < 4 * np.sqrt(exact * (1 - exact) / offered)).all()
    barrier = np.asarray(state.communication_barrier)
    assert barrier.shape == (chains,)
    assert abs(barrier.mean() - exact.sum()) < 0.02

    made = np.diff(np.asarray(trips)[:, [burn_in - 1, -1]])[:, 0] / rounds
    error = made.std(ddof=1) / chains**0.5
    best = optimal_round_trip_rate(exact, window)
    assert error < 0.03 * best
    assert abs(made.mean() - best) < 4 * error


def test_the_barrier_between_normals():
    """A swap of energies tau G with G of the gamma distribution: twice a tail of Fisher's F."""
    size, chains, ladder = 4, 32, np.array([1.0, 1.5, 3.0])
    sampler = replica_exchange(
        langevin(), Constant(0.5), tuple(Constant(tau) for tau in ladder), noisy=False
    )
    energy = lambda key, x: (0.5 * jnp.sum(x**2), x)

    @jax.jit
    @jax.vmap
    def run(key):
        key_init, key_run = random.split(key)
        state = sampler.init(key_init, jnp.zeros(size), energy)
        body = lambda state, key: (sampler.step(random.split(key), state, energy), None)
        return jax.lax.scan(body, state, random.split(key_run, 2000))[0]

    rejected = 1 - np.asarray(run(random.split(random.key(0), chains)).swap_rates, np.float64)
    error = rejected.std(0, ddof=1) / chains**0.5
    exact = 1 - 2 * stats.f.sf(ladder[1:] / ladder[:-1], size, size)
    assert (error < 0.01).all()
    assert (np.abs(rejected.mean(0) - exact) < 4 * error + 0.002).all()
