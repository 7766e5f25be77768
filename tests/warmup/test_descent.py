"""The descent: it arrives from anywhere, not in a neck, and leaves modes that may hold draws."""

from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from numpyro_contour import SGLD
from numpyro_contour.core.diffusions import langevin
from numpyro_contour.core.samplers.chain import start
from numpyro_contour.modes.lbfgs import (
    Point,
    inverse_curvatures,
    learn_from,
    no_pairs,
    try_step,
)
from numpyro_contour.modes.way_down import Place, implausible_height, is_implausible
from numpyro_contour.warmup.stages.descent import STARTS, adam_step, at_rest, fixed_rows
from numpyro_contour.warmup.stages.rescue import _without_lost_chains
from numpyro_contour.warmup.stages.tuning import initial_tuning
from numpyro_contour.warmup.stages.tuning_step import Moment, Moves, tuning_step


def descend(potential, starts, steps, exact=True, seed=0, made=None, scale_mask=None):
    """Chains after a descent of so many moves, or the first ones `made`, and what is tuned."""
    made = steps if made is None else made

    def energy(key, x):
        return jax.value_and_grad(lambda y: potential(key, y))(x)

    def one(key, x):
        chain = start(key, x, energy, langevin())
        keys = random.split(key, (made, 2))

        def body(carry, inputs):
            keys, i = inputs
            moves = Moves(energy, exact, descends=True, scale_mask=scale_mask)
            return tuning_step(keys, *carry, moves, Moment(jnp.ones(()), i / steps, False)), None

        inputs = keys, jnp.arange(made)
        return jax.lax.scan(body, (chain, initial_tuning(x.shape[0], None, None)), inputs)[0]

    keys = random.split(random.key(seed), starts.shape[0])
    return jax.jit(jax.vmap(one))(keys, starts)


def uniform_starts(number, size, seed=0):
    return random.uniform(random.key(seed), (number, size), minval=-2.0, maxval=2.0)


# --------------------------------------------------------------------------- one step of L-BFGS


SCALES = jnp.array([1e-3, 1.0, 40.0])


def test_pairs_tell_the_diagonal_of_a_quadratic():
    def gradient(x):
        return x / SCALES**2

    x, memory = 3 * SCALES, no_pairs(3)
    at = lambda x: Point(x, 0.5 * jnp.sum((x / SCALES) ** 2), gradient(x))
    for _ in range(15):
        trial = try_step(memory, gradient(x))
        y = x + trial.change
        taken, memory = learn_from(memory, trial, at(x), at(y), jnp.array(True))
        x = jnp.where(taken, y, x)
    np.testing.assert_allclose(inverse_curvatures(memory) / SCALES**2, 1.0, rtol=0.02)


def test_a_step_of_lbfgs_does_not_depend_on_the_unit_of_energy():
    """The pairs of energies of 1e30 give the same directions: no square leaves a float."""

    def directions(unit):
        gradient = lambda x: unit * jnp.array([1.0, 30.0, 900.0]) * x
        at = lambda x: Point(x, 0.5 * x @ gradient(x), gradient(x))
        x, memory, found = jnp.ones(3), no_pairs(3), []
        for _ in range(6):
            trial = try_step(memory, gradient(x))
            y = x + trial.change
            taken, memory = learn_from(memory, trial, at(x), at(y), jnp.array(True))
            x = jnp.where(taken, y, x)
            found.append(trial.direction)
        return np.stack(found)

    unit = float(2.0**100)
    np.testing.assert_allclose(directions(unit), directions(1.0), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("unit", [1.0, 1e25])
def test_adam_is_adam_in_any_unit(unit):
    gradients = np.random.default_rng(0).normal(size=(30, 2)) * [1.0, 1e-3]
    m = v = np.zeros(2)
    state = at_rest(2)
    for k, g in enumerate(gradients):
        change, state = adam_step(state, jnp.asarray(unit * g, jnp.float32), jnp.asarray(k / 30))
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g**2
        rate = 0.05 * 0.5 * (1 + np.cos(np.pi * k / 30))
        expected = -rate * (m / (1 - 0.9 ** (k + 1))) / np.sqrt(v / (1 - 0.99 ** (k + 1)))
        np.testing.assert_allclose(change, expected, rtol=2e-3, atol=1e-7)


# --------------------------------------------------------------------------- it arrives


YEARS = jnp.arange(1952.0, 2014.0)
TEMPERATURES = 9.3 + 0.015 * (YEARS - 1983) + jnp.sin(37.0 * YEARS)


def line(key, x):
    """A line through years that are not centred; its correlation slows a diagonal 1e5-fold."""
    residuals = (TEMPERATURES - x[0] - x[1] * YEARS) * jnp.exp(-x[2])
    prior = (x[0] / 100) ** 2 + x[1] ** 2 + (x[2] / 3) ** 2
    return 0.5 * jnp.sum(residuals**2) + YEARS.size * x[2] + 0.5 * prior


def lowest_of_line():
    """In float64, by the line's own closed form in a and b for each scale."""
    years, y = np.asarray(YEARS, np.float64), np.asarray(TEMPERATURES, np.float64)
    X = np.stack([np.ones_like(years), years], 1)

    def at(c):
        precision = X.T @ X * np.exp(-2 * c) + np.diag([1e-4, 1.0])
        beta = np.linalg.solve(precision, X.T @ y * np.exp(-2 * c))
        loss = np.sum((y - X @ beta) ** 2) * np.exp(-2 * c)
        return 0.5 * (loss + beta @ np.diag([1e-4, 1.0]) @ beta + (c / 3) ** 2) + len(y) * c

    return min(at(c) for c in np.linspace(-3, 3, 6001))


@pytest.mark.slow
def test_all_chains_arrive_on_a_line_through_years():
    chains, tuning = descend(line, uniform_starts(20, 3), 400)
    height = np.asarray(chains.potential_energy) - lowest_of_line()
    # Draws of three coordinates are 1.5 above it in the mean; above 12 with a probability of 2e-5.
    assert height.max() < 12
    assert np.asarray(tuning.descent.arrived).all()
    # The walk after it has moments of its own.
    assert (np.asarray(tuning.moments.steps) > 20).all()


@pytest.mark.slow
def test_energies_of_1e30_freeze_no_chain():
    def steep(key, x):
        return jnp.sum(jnp.exp(30 * jnp.abs(x))) + 0.5 * jnp.sum((x - 0.1) ** 2)

    starts = jnp.array([[2.0, -2.0], [1.9, 1.9], [-2.0, 0.0]])
    assert float(steep(None, starts[0])) > 1e25
    for exact in (True, False):
        chains, tuning = descend(steep, starts, 600, exact)
        assert np.asarray(chains.potential_energy).max() < 10
        assert np.isfinite(np.asarray(jax.tree.leaves(tuning.moments)[4])).all()


def test_a_descent_on_minibatches_begins_on_fixed_rows():
    """Rows that the key chooses: the first tenth sees those of one key, what follows sees all."""
    y = random.normal(random.key(7), (1000,)) + 50.0

    def rows(key):
        return y[random.randint(random.fold_in(key, 1), (20,), 0, 1000)]

    def potential(key, x):
        return 1000 * jnp.mean((rows(key) - x[0]) ** 2) / 2

    fixed = rows(fixed_rows(random.key(5))).mean()
    np.testing.assert_array_equal(rows(fixed_rows(random.key(6))).mean(), fixed)
    chains, tuning = descend(potential, jnp.array([[0.0], [2.0]]), 800, exact=False)
    best = np.asarray(tuning.descent.best.position)[:, 0]
    # Where L-BFGS has ended is the mean of the fixed rows, what Adam makes of it that of all.
    np.testing.assert_allclose(best, fixed, atol=0.02)
    assert abs(float(fixed - y.mean())) > 0.05
    # Adam's last steps average minibatches of sd .22 over some hundred moves.
    np.testing.assert_allclose(chains.position[:, 0], y.mean(), atol=0.08)


def regression(columns, rows, scales):
    """Its energy on minibatches of 1,000 rows, and on all; the last coordinate is the log noise."""
    rng = np.random.default_rng(0)
    X = jnp.asarray(rng.normal(size=(1000, columns)) * scales, jnp.float32)
    y = X @ jnp.asarray(1 / scales, jnp.float32) + jnp.asarray(rng.normal(size=1000), jnp.float32)

    def energy(X, y, x):
        misfit = 0.5 * ((y - X @ x[:-1]) * jnp.exp(-x[-1])) ** 2 + x[-1]
        return 1000 * misfit.mean() + 0.5 * jnp.sum((x[:-1] * scales / 10) ** 2) + 0.5 * x[-1] ** 2

    def potential(key, x):
        chosen = random.randint(random.fold_in(key, 1), (rows,), 0, 1000)
        return energy(X[chosen], y[chosen], x)

    return potential, jax.vmap(lambda x: energy(X, y, x))


def test_a_descent_does_not_end_where_it_only_fits_its_rows():
    """60 coefficients go through 20 rows: the noise seems to be nothing, which other rows deny."""
    potential, energy = regression(60, 20, np.ones(60))
    _, tuning = descend(potential, uniform_starts(8, 61), 2000, exact=False, made=250)
    place = tuning.descent.best.position
    # On all rows the lowest energy is 536. Without the check places are 10^5 nats up or more.
    assert np.asarray(energy(place)).max() < 5000, energy(place)
    assert np.asarray(place[:, -1]).min() > -1


def test_rows_that_a_descent_goes_through_do_not_choose_between_starts():
    """It stays with the first start, whatever these rows say of others."""
    potential, _ = regression(60, 20, np.ones(60))
    _, tuning = descend(potential, uniform_starts(8, 61), 2000, exact=False, made=250)
    assert np.all(tuning.descent.arrived)
    assert np.all(tuning.descent.starts == 1)


def test_a_descent_is_not_stopped_where_rows_suffice():
    """Badly scaled columns and a tenth of the rows: chains get to the minimum of these."""
    potential, _ = regression(8, 100, np.logspace(-1, 1, 8))
    _, tuning = descend(potential, uniform_starts(40, 9), 4000, exact=False, made=410)
    key = fixed_rows(random.key(0))
    energies = jax.vmap(lambda x: potential(key, x))(tuning.descent.best.position)
    above = np.asarray(energies - energies.min())
    # The minimum of n rows is N d / 2n = 45 nats lower than what all rows prefer. A descent that
    # goes back to such a place has lost nothing, but few do: 2 of 40, on luckier rows.
    assert np.mean(above < 1) > 0.9, np.sort(above)
    assert above.max() < 90, np.sort(above)


# --------------------------------------------------------------------------- necks and modes


@pytest.mark.slow
def test_a_descent_does_not_go_down_a_neck():
    """Centred schools: the energy falls for ever as the scale does, the posterior is at tau > .1"""
    y = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12])
    sd = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])

    def schools(key, x):
        mu, log_tau, theta = x[0], x[1], x[2:]
        spread = 0.5 * jnp.sum(((theta - mu) * jnp.exp(-log_tau)) ** 2) + 8 * log_tau
        prior = 0.5 * (mu / 5) ** 2 + jnp.log1p((jnp.exp(log_tau) / 5) ** 2) - log_tau
        return spread + prior + 0.5 * jnp.sum(((y - theta) / sd) ** 2)

    chains, _ = descend(schools, uniform_starts(200, 10), 1000)
    log_tau = np.asarray(chains.position)[:, 1]
    # Where each descent turns back rests on curvatures that a few pairs tell: 92 to 95 of 100 are
    # above -6, in any arithmetic (a binomial's sd is 2). Without the rule all are below -10.
    assert np.mean(log_tau > -6) > 0.84, np.sort(log_tau)[:40]


@pytest.mark.slow
def test_scales_do_not_take_far_locations_for_noise():
    """Weights of thirty rats, centred: from -2 to 2 a noise of 240, and necks, are far nearer."""
    made = np.random.default_rng(7)
    days = np.array([-14.0, -7, 0, 7, 14])
    weights, slopes = 242 + 14 * made.normal(size=30), 6.2 + 0.5 * made.normal(size=30)
    y = weights[:, None] + slopes[:, None] * days + 6 * made.normal(size=(30, 5))

    def rats(key, x):
        means, logs, effects = x[:2], x[2:5], x[5:].reshape(2, 30)
        tails = jnp.log1p((jnp.exp(logs) / jnp.array([50, 10, 50])) ** 2) - logs
        priors = 0.5 * jnp.sum((means / jnp.array([1000, 100])) ** 2) + jnp.sum(tails)
        of_effects = ((effects - means[:, None]) * jnp.exp(-logs[:2, None])) ** 2
        rows = (y - effects[0][:, None] - effects[1][:, None] * days) * jnp.exp(-logs[2])
        sizes = jnp.array([30, 30, 150])
        return priors + 0.5 * (jnp.sum(of_effects) + jnp.sum(rows**2)) + jnp.sum(sizes * logs)

    scales = (np.arange(65) > 1) & (np.arange(65) < 5)
    chains, _ = descend(rats, uniform_starts(100, 65), 1500, made=500, scale_mask=scales)
    mean, of_slopes = chains.position[:, 0], chains.position[:, 3]
    # The posterior has 236 +- 2, and -.7 +- .2 for the logarithm. Without the mask no descent gets
    # there, and 9 of 100 stay in a neck if a bottom does not take the place of a neck's end.
    there = np.asarray((abs(mean - 236) < 20) & (of_slopes > -3))
    assert there.mean() > 0.95, (mean, of_slopes)


@pytest.mark.slow
def test_states_that_are_not_centred_at_their_means_are_not_driven_together():
    """States in time of unknown scale: all of them at 0, with the scale, is as deep as one likes.

    The room around such a place is as small as it is deep, and the mass between it and where the
    states are is about the same all the way down: nothing is lost at once.
    """
    rng = np.random.default_rng(0)
    y = np.zeros(35)
    for t in range(1, 35):
        y[t] = 0.8 * y[t - 1] + 0.5 * rng.normal()
    y += 0.3 * rng.normal(size=35)

    def states(key, x):
        log_scale, log_noise, state = x[0], x[1], x[2:]
        moves = state[1:] - 0.8 * state[:-1]
        prior = 0.5 * (jnp.exp(2 * log_scale) + jnp.exp(2 * log_noise)) - log_scale - log_noise
        of_states = 0.5 * jnp.sum(moves**2) * jnp.exp(-2 * log_scale) + 34 * log_scale
        of_data = 0.5 * jnp.sum((y - state) ** 2) * jnp.exp(-2 * log_noise) + 35 * log_noise
        return prior + of_states + 0.5 * state[0] ** 2 + of_data

    chains, _ = descend(states, uniform_starts(200, 37), 1500)
    log_scale = np.asarray(chains.position)[:, 0]
    # All of 200 are above -6; without the rule 16 go down to between -8 and -20.
    assert np.mean(log_scale > -6) > 0.97, np.sort(log_scale)[:40]


@pytest.mark.slow
def test_a_walk_begins_where_scales_were_held_if_every_descent_goes_down_a_neck():
    """A random walk of a hundred states: no bottom is near the posterior, and a neck on each side.

    Either all states are equal and the scale of moves is nothing, or they are the data and the
    noise is nothing.
    """
    rng = np.random.default_rng(0)
    y = 5 + np.cumsum(0.3 * rng.normal(size=100)) + 0.5 * rng.normal(size=100)

    def walk(key, x):
        log_scale, log_noise, first, state = x[0], x[1], x[2], x[3:]
        moves = jnp.diff(state, prepend=first)
        prior = 0.5 * (jnp.exp(2 * log_scale) + jnp.exp(2 * log_noise)) - log_scale - log_noise
        of_states = 0.5 * jnp.sum(moves**2) * jnp.exp(-2 * log_scale) + 100 * log_scale
        of_data = 0.5 * jnp.sum((y - state) ** 2) * jnp.exp(-2 * log_noise) + 100 * log_noise
        return prior + of_states + 0.5 * (first / 10) ** 2 + of_data

    chains, _ = descend(walk, uniform_starts(50, 103), 4000, scale_mask=np.arange(103) < 2)
    log_scale, log_noise = np.asarray(chains.position)[:, :2].T
    # The posterior has -1.3 +- .2 and -.8 +- .1. 34 of 50 are in a neck if it begins there.
    there = (abs(log_scale + 1.3) < 1) & (abs(log_noise + 0.8) < 0.4)
    assert there.mean() > 0.95, (log_scale, log_noise)


def two_modes(depth):
    """Unit normals at 1 and, deeper by `depth`, at -1, in units of a tenth."""

    def potential(key, x):
        near = 50 * jnp.sum((x - 1) ** 2)
        far = 50 * jnp.sum((x + 1) ** 2) - depth
        return -jnp.logaddexp(-near, -far)

    return potential


@pytest.mark.slow
@pytest.mark.parametrize(("depth", "leaves"), [(10.0, False), (60.0, True)])
def test_a_mode_is_left_only_where_it_can_hold_no_draw(depth, leaves):
    assert (depth > implausible_height(2)) is leaves
    chains, tuning = descend(two_modes(depth), jnp.full((8, 2), 0.9), 1200)
    assert (np.asarray(tuning.descent.starts) == STARTS).all()
    left = np.asarray(chains.position)[:, 0] < 0
    # Three further starts from (-2, 2)^2: each goes to the deeper mode with probability 1/2.
    assert left.any() == leaves


def test_a_narrow_place_makes_no_wide_one_implausible():
    narrow, wide = jnp.full(10, 1e-16), jnp.ones(10)
    # 10 / 2 * log(1e16) = 184 nats, which count twice.
    at = lambda energy, room, lowest, there: bool(
        is_implausible(jnp.asarray(energy), room, jnp.asarray(lowest), there)
    )
    assert not at(0.0, wide, -150.0, narrow)
    assert at(0.0, wide, -150.0, wide)
    assert not at(60.0, wide, -200.0, narrow)
    assert at(60.0, wide, -400.0, narrow)
    assert at(jnp.nan, wide, 0.0, wide)
    assert not at(jnp.nan, wide, jnp.inf, wide)


# --------------------------------------------------------------------------- all chains together


OfChain = namedtuple("OfChain", ["potential_energy"])
OfSampler = namedtuple("OfSampler", ["chain"])
OfWarmup = namedtuple("OfWarmup", ["tuning", "history", "taken_from"])
OfState = namedtuple("OfState", ["rng_key", "sampler", "warmup"])


def after_descent(potential, starts, warmup=200, **arguments):
    """Chains that descend by themselves, also where a search would find modes for them."""
    kernel = SGLD(potential_fn=potential, num_steps=5, **arguments)
    keys = random.split(random.key(3), len(starts))
    state, _ = kernel._started(keys, warmup, starts, (), {})
    step = jax.jit(lambda state: kernel.sample(state, (), {}))
    for _ in range(int(kernel.parts.plan.bounds(jnp.asarray(warmup))[0])):
        state = step(state)
    return state


@pytest.mark.slow
def test_a_lost_chain_is_given_the_place_of_another():
    """A chain in a hole of 1e4 nats; another mode, 5 nats up, keeps its chain."""

    def potential(x):
        modes = -jnp.logaddexp(-50 * jnp.sum((x - 1) ** 2), 5 - 50 * jnp.sum((x + 1) ** 2))
        return jnp.where(jnp.abs(x - 100).max() < 5, 1e4 + jnp.sum((x - 100) ** 2), modes)

    starts = jnp.array([[-0.9, -1.0], [100.0, 101.0], [1.0, 0.9], [-1.0, -1.0]])
    # Too short a descent for further starts of a chain's own.
    state = after_descent(potential, starts, warmup=100)
    taken = np.asarray(state.warmup.taken_from)
    assert taken[1] in (0, 2, 3)
    assert (taken[[0, 2, 3]] == -1).all()
    np.testing.assert_array_equal(state.z[1], state.z[taken[1]])
    assert float(state.z[2, 0]) > 0.5
    assert len(np.unique(random.key_data(state.rng_key), axis=0)) == 4
    # Its own history is kept: the descent ended at 1e4.
    assert float(state.warmup.history.energy[1, 0]) > 5e3


@pytest.mark.slow
def test_chains_that_are_all_lost_stay_where_they_are():
    def potential(x):
        return jnp.where(jnp.abs(x - 1.0).max() < 1e-6, 0.0, jnp.nan) + 0 * x.sum()

    state = after_descent(potential, jnp.ones((3, 2)))
    assert (np.asarray(state.warmup.taken_from) == -1).all()
    # Moves that rounding allows are made.
    np.testing.assert_allclose(state.z, 1.0, atol=1e-5)


def test_a_chain_that_walks_down_a_neck_is_no_place_for_others():
    """Its energy is lower and it tells of a room that is too wide; the ends of descents do not."""
    narrow, wide = jnp.full(4, 1e-6), jnp.ones(4)
    # Ends of descents in a neck, in the mode, and where nothing is; and energies after the walk.
    rooms, nought = jnp.stack([narrow, wide, wide]), jnp.zeros((3, 4))
    ends = Place(nought, jnp.array([-20.0, 0, 400]), nought, rooms)
    start = initial_tuning(4, None, None)
    tuning = jax.tree.map(lambda x: jnp.stack([x] * 3), start)
    tuning = tuning._replace(
        descent=tuning.descent._replace(best=ends), preconditioner=jnp.ones((3, 4))
    )
    warmup = OfWarmup(tuning, jnp.arange(3), jnp.full(3, -1))
    energies = OfChain(jnp.array([-200.0, 0, 400]))
    after = _without_lost_chains(OfState(jnp.arange(3), OfSampler(energies), warmup))
    np.testing.assert_array_equal(after.warmup.taken_from, [-1, -1, 0])
    np.testing.assert_array_equal(after.sampler.chain.potential_energy, [-200, 0, -200])
