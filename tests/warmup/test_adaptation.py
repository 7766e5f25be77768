"""The phases of the warm-up, each alone, against what they must find."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from numpyro_contour import SGLD, EnergyPartition
from numpyro_contour.core.diffusions import langevin
from numpyro_contour.core.samplers.chain import start
from numpyro_contour.kernels.methods import Climbing, Contour, Plain
from numpyro_contour.warmup.stages.dual_averaging import (
    initial_dual_averaging,
    update_dual_averaging,
)
from numpyro_contour.warmup.stages.energies import SIZE, no_energies, record_energies, spread
from numpyro_contour.warmup.stages.flatten import BIN_WIDTH, carry_over, fitting_partition
from numpyro_contour.warmup.stages.moments import add_draw, no_draw_moments, no_moments
from numpyro_contour.warmup.stages.plan import PILOT, TUNE, Plan
from numpyro_contour.warmup.stages.relaxation_times import relaxation_times
from numpyro_contour.warmup.stages.state import end_tuning_stage, initial_warmup, record_draw
from numpyro_contour.warmup.stages.tune import fitting_preconditioner
from numpyro_contour.warmup.stages.tuning import (
    LARGEST_STEP_SIZE,
    NOISE_SHARE,
    initial_tuning,
    largest_step_size,
)
from numpyro_contour.warmup.stages.tuning_step import (
    TARGET_ACCEPTANCE,
    Moment,
    Moves,
    tuning_step,
)

PARTITION = EnergyPartition(0.0, 10.0, 10)
PLANS = {
    "all": Contour().plan(True, anchors=False, moves_settle=False),
    "step size": Contour(PARTITION).plan(True, anchors=False, moves_settle=False),
    "partition": Contour().plan(False, anchors=False, moves_settle=False),
    "SGLD": Plain().plan(True, anchors=False, moves_settle=False),
    "anchor": Plain().plan(False, anchors=True, moves_settle=False),
    "SGNHT": Plain().plan(True, anchors=False, moves_settle=True),
    "climbing": Climbing(20.0).plan(True, anchors=False, moves_settle=False),
}


# --------------------------------------------------------------------------- the plan


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("length", [None, 50, 500, 1_000_000])
def test_every_stage_has_its_share(name, length):
    plan = PLANS[name]
    length = plan.least if length is None else length
    bounds = np.asarray(plan.bounds(jnp.asarray(length)))
    sizes = np.diff(bounds, prepend=0)
    assert sizes.min() >= 1
    assert bounds[-1] == length
    shares = np.diff(plan.ends, prepend=0.0)
    np.testing.assert_allclose(sizes / length, shares, atol=1.0 / length + 1e-6)
    places = [plan.progress(jnp.asarray(i), jnp.asarray(length)) for i in (0, *bounds - 1)]
    assert [int(here.number) for here in places] == [0, *range(len(plan.stages))]
    assert all(bool(here.ends) for here in places[1:])
    assert [int(here.total) for here in places[1:]] == sizes.tolist()
    after = plan.progress(jnp.asarray(length), jnp.asarray(length)).number
    assert int(after) == len(plan.stages)
    assert bool(plan.flag("flattens", after))
    for flag in ("measures", "descends", "searches", "renews_partition", "begins_theta"):
        assert not bool(plan.flag(flag, after))


def test_nothing_to_find_needs_no_plan():
    assert Contour(PARTITION).plan(False, anchors=False, moves_settle=True) is None
    assert Plan.of(()) is None


def test_an_anchor_is_placed_after_the_descent_and_all_searches_but_the_last():
    names = lambda plan: [n for n, places in zip(plan.names, plan.places_anchor) if places]
    assert names(PLANS["SGLD"]) == ["descent", "tune", "tune", "tune"]
    assert PLANS["SGLD"].places_anchor[PLANS["SGLD"].last(TUNE)] is False
    assert names(PLANS["anchor"]) == ["descent", "settle"]


# --------------------------------------------------------------------------- step size


def test_dual_averaging_finds_the_step_size_of_a_known_response():
    # Noisy acceptance of mean exp(-eps): 0.9 at eps = 0.10536.
    def body(state, key):
        noise = 0.1 * random.normal(key)
        state = update_dual_averaging(state, jnp.exp(-jnp.exp(state.log_value)) + noise, 0.9)
        return state, None

    keys = random.split(random.key(0), 4000)
    state, _ = jax.lax.scan(body, initial_dual_averaging(jnp.log(10.0)), keys)
    # Over chains the error of log eps has sd 0.06.
    assert np.exp(state.log_average) == pytest.approx(-np.log(0.9), rel=0.2)


def test_dual_averaging_keeps_to_its_maximum():
    state = initial_dual_averaging(jnp.log(0.1))
    for _ in range(200):
        state = update_dual_averaging(state, jnp.ones(()), 0.9, jnp.log(0.2))
    assert np.exp(state.log_average) <= 0.2 * (1 + 1e-5)
    assert np.exp(state.log_value) == pytest.approx(0.2)


CURVATURE = jnp.array([1e-6, 1.0, 25.0, 1e8])


def gaussian(key, x):
    """A Gaussian of very different scales; noise of variance 3 on the third gradient."""
    noise = jnp.sqrt(3.0) * random.normal(key) * (jnp.arange(4) == 2)
    return 0.5 * jnp.sum(CURVATURE * x**2), CURVATURE * x + noise


def exact(key, x):
    return 0.5 * jnp.sum(CURVATURE * x**2), CURVATURE * x


def tuned(energy, steps, is_exact, windows=4, start_at=3.0, descent=400, seed=0, limit=jnp.inf):
    """Descent and windows of tuning of one chain; the state and the moments of the last window."""
    x = start_at / jnp.sqrt(CURVATURE)
    chain = start(random.key(seed), x, energy, langevin())
    tuning = initial_tuning(4, None, None, limit)
    tau = jnp.ones(())

    def window(chain, tuning, key, steps, descending, searching):
        def body(carry, inputs):
            keys, i = inputs
            moves = Moves(energy, is_exact, descending)
            return tuning_step(keys, *carry, moves, Moment(tau, i / steps, searching)), None

        keys = random.split(key, (steps, 2))
        return jax.lax.scan(body, (chain, tuning), (keys, jnp.arange(steps)))[0]

    run = jax.jit(window, static_argnums=3)
    chain, tuning = run(chain, tuning, random.key(seed + 1), descent, True, False)
    tuning = end_tuning_stage(
        tuning, tau, *(jnp.array(x) for x in (True, False, False)), False, False
    )
    for k in range(windows):
        last = jnp.array(k == windows - 1)
        chain, tuning = run(chain, tuning, random.key(seed + 2 + k), steps, False, True)
        tuning = end_tuning_stage(
            tuning, tau, jnp.array(False), jnp.array(True), last, False, False
        )
    chain, settled = run(chain, tuning, random.key(seed + 90), steps, False, False)
    return chain, tuning, settled.moments


@pytest.mark.slow
def test_step_size_keeps_to_its_limit():
    _, tuning, settled = tuned(exact, 2000, True, limit=0.1)
    assert float(jnp.exp(tuning.step_size.log_average)) == pytest.approx(0.1, rel=0.01)
    assert float(settled.acceptance / settled.steps) > 0.93


@pytest.mark.parametrize(
    ("preconditioner", "limit"),
    [(None, LARGEST_STEP_SIZE), ("identity", np.inf), (jnp.ones(2), np.inf)],
)
def test_the_limit_goes_with_a_preconditioner_that_is_found(preconditioner, limit):
    kernel = SGLD(potential_fn=lambda x: 0.5 * jnp.sum(x**2), preconditioner=preconditioner)
    state = kernel.first_state(random.key(0), 100, jnp.ones(2))
    assert float(state.warmup.tuning.limit) == pytest.approx(limit)


def test_relaxation_times_of_a_walk_of_known_spread():
    tuning = initial_tuning(2, jnp.array([0.5, 2.0]), 0.1)._replace(
        gradient_noise=jnp.array([1.0, 0.0])
    )
    moments = no_draw_moments(2)
    for position in ([1.0, 3.0], [-1.0, -3.0], [1.0, 3.0], [-1.0, -3.0]):
        moments = add_draw(moments, jnp.array(position))
    found = relaxation_times(tuning, moments, 50, jnp.array(2.0), 0.1)
    # K tau eps M / var, with variances of 1 and 9.
    rates = 2.0 * 0.1 * np.array([0.5, 2 / 9])
    np.testing.assert_allclose(found.times, 200 * rates, rtol=1e-5)
    np.testing.assert_allclose(found.noise, [0.25, 0.0])
    np.testing.assert_allclose(found.noise_share, [0.0125, 0.0])
    limited = relaxation_times(tuning, moments, 50, jnp.array(2.0), 0.1, fastest=0.05).times
    np.testing.assert_allclose(limited, 200 * np.minimum(rates, 0.05), rtol=1e-5)
    assert np.isinf(relaxation_times(tuning, moments, 50, jnp.array(0.0), 0.1).times).all()


@pytest.mark.slow
def test_preconditioner_is_the_inverse_curvature_over_fourteen_orders():
    _, tuning, _ = tuned(exact, 2000, True)
    # For a Gaussian the ratio of the spreads is exact.
    np.testing.assert_allclose(tuning.preconditioner * CURVATURE, 1.0, rtol=2e-3)


@pytest.mark.parametrize("start_at", [3.0, 1e4])
def test_final_step_size_is_accepted_as_aimed(start_at):
    _, _, moments = tuned(exact, 3000, True, start_at=start_at)
    acceptance = float(moments.acceptance / moments.steps)
    # Mean of 3,000 correlated statistics of sd 0.13, and of the error of the step size.
    assert acceptance == pytest.approx(TARGET_ACCEPTANCE, abs=0.03)
    assert float(moments.energy) == pytest.approx(2.0, abs=0.4)  # d / 2


def test_noise_of_the_gradient_is_measured_and_caps_the_step_size():
    _, tuning, _ = tuned(gaussian, 4000, False)
    np.testing.assert_allclose(tuning.gradient_noise[2], 3.0, rtol=0.15)
    np.testing.assert_allclose(tuning.gradient_noise[:2], 0.0, atol=1e-6)
    np.testing.assert_allclose(1 / tuning.preconditioner[2], 25.0 + 3.0, rtol=0.1)
    cap = float(largest_step_size(tuning, jnp.ones(())))
    assert cap == pytest.approx(2 * NOISE_SHARE / float(tuning.preconditioner[2] * 3.0), rel=0.2)
    assert np.exp(tuning.step_size.log_average) <= cap * (1 + 1e-5)


def test_temperature_enters_the_preconditioner_by_the_noise():
    moments = no_moments(1)._replace(
        steps=jnp.array(101.0),
        position_squares=jnp.array([101.0]),
        gradient_squares=jnp.array([101.0 * (4.0 + 2.0)]),
        gradient_noise=jnp.array([200.0]),
    )
    for tau, expected in ((1.0, 2.0 + 2.0), (4.0, 2.0 + 0.5), (0.0, 2.0 + 2.0)):
        m = fitting_preconditioner(moments, jnp.asarray(tau))
        np.testing.assert_allclose(1 / m, expected, rtol=1e-4)


def test_coordinates_that_tell_nothing_keep_a_finite_preconditioner():
    still = no_moments(3)._replace(
        steps=jnp.array(10.0),
        position=jnp.array([0.0, 1e6, 1.0]),
        position_squares=jnp.array([0.0, 0.0, 1.0]),
        gradient=jnp.array([0.0, 2.0, 1.0]),  # a flat coordinate, one that rounding holds, a slope
    )
    m = np.asarray(fitting_preconditioner(still, jnp.ones(())))
    assert np.isfinite(m).all()
    assert m[1] == pytest.approx(1e-3 * 1e6 / 2.0)  # moves of a thousandth, which rounding shows


def test_a_move_that_evaluates_both_ends_is_the_move_that_knows_the_first():
    """An estimator without noise: position, energy, gradient and acceptance are the same."""
    chain = start(
        random.key(0), jnp.array([2.0, -1.0, 0.5, 3.0]) / jnp.sqrt(CURVATURE), exact, langevin()
    )
    tuning = initial_tuning(4, 1 / CURVATURE, 0.5)

    def moved(is_exact):
        move = lambda carry, keys: (
            tuning_step(keys, *carry, Moves(exact, is_exact), Moment(jnp.ones(()), 0.0, True)),
            None,
        )
        return jax.lax.scan(move, (chain, tuning), random.split(random.key(1), (5, 2)))[0]

    (one, tuned_one), (other, tuned_other) = jax.jit(moved, static_argnums=0)(True), moved(False)
    assert float(tuned_one.moments.acceptance) < 4.9
    assert float(jnp.max(jnp.abs(one.position - chain.position))) > 0
    for a, b in zip(jax.tree.leaves((one, tuned_one)), jax.tree.leaves((other, tuned_other))):
        np.testing.assert_allclose(b, a, rtol=2e-4, atol=1e-6)


def test_a_blow_up_is_not_made():
    def cliff(key, x):
        return jnp.sum(jnp.where(x < 0.5, 0.5 * x**2, 1e6 * x)), jnp.where(x < 0.5, x, 1e6)

    chain = start(random.key(0), jnp.zeros(1), cliff, langevin())
    tuning = initial_tuning(1, None, 1.0)

    @jax.jit
    def move(keys, chain, tuning):
        return tuning_step(keys, chain, tuning, Moves(cliff, True), Moment(jnp.ones(()), 0.0, True))

    for i in range(50):
        chain, tuning = move(random.split(random.key(i)), chain, tuning)
        assert float(chain.position[0]) < 0.5
    assert float(chain.potential_energy) < 100


# --------------------------------------------------------------------------- the partition


def test_spread_is_weighted():
    rng = np.random.default_rng(0)
    values = rng.normal(5.0, 2.0, SIZE)
    log_weights = np.log(rng.uniform(0.1, 1.0, SIZE)) + 50.0
    log_weights[::7] = -np.inf
    values[3], log_weights[3] = np.nan, 0.0
    energies = no_energies()._replace(
        values=jnp.asarray(values, float), log_weights=jnp.asarray(log_weights, float)
    )
    found = spread(energies)
    usable = np.isfinite(values) & np.isfinite(log_weights)
    v, w = values[usable], np.exp(log_weights[usable] - 50)
    w = w / w.sum()
    order = np.argsort(v)
    low = v[order][np.searchsorted(np.cumsum(w[order]), 0.01)]
    mean = w @ v
    np.testing.assert_allclose(found.low, low, rtol=1e-5)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-5)
    np.testing.assert_allclose(found.sd, np.sqrt(w @ (v - mean) ** 2), rtol=1e-4)


@pytest.mark.parametrize("total", [10, SIZE, 50_000])
def test_a_window_of_any_length_is_remembered_evenly(total):
    energies, per_draw = no_energies(), 5
    for first in range(0, total, per_draw) if total < 2000 else (0, total // 2, total - per_draw):
        steps = jnp.arange(first, first + per_draw, dtype=float)
        energies = record_energies(
            energies, steps, jnp.zeros(per_draw), jnp.asarray(first), jnp.asarray(total)
        )
    kept = np.isfinite(np.asarray(energies.log_weights))
    places = np.flatnonzero(kept)
    np.testing.assert_allclose(
        energies.values[kept] / total, places / SIZE, atol=2 / min(total, SIZE)
    )
    if total == SIZE:
        assert places.max() == SIZE - 1


@pytest.mark.parametrize("log_psi", [None, jnp.zeros_like])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_energies_of_unbearable_noise_count_where_there_are_no_others(share, log_psi):
    """Half of them 300 nats too low: the spread is that of the others."""
    values = np.random.default_rng(0).normal(5.0, 2.0, SIZE)
    lucky = np.arange(SIZE) < share * SIZE
    plan = Plan.of(((PILOT, 1.0),))
    warmup = initial_warmup(plan, initial_tuning(2, None, None))._replace(length=jnp.array(1))
    _, seen = record_draw(
        plan,
        warmup,
        jnp.asarray(values - 300 * lucky, jnp.float32),
        jnp.zeros(SIZE),
        jnp.where(lucky, 30.0, 0.01),
        log_psi,
    )
    shift = -300 if share == 1 else 0
    np.testing.assert_allclose(seen.found.mean, 5.0 + shift, atol=0.4)
    np.testing.assert_allclose(seen.found.sd, 2.0, rtol=0.1)


def test_partition_fits_the_spread():
    partition = fitting_partition(jnp.array(100.0), jnp.array(4.0), 128, BIN_WIDTH)
    assert float(partition.lower) == 99.0
    assert float(partition.width) == 2.0
    assert partition.num_bins == 128


def test_theta_is_carried_to_new_bins():
    old = EnergyPartition(0.0, 10.0, 100)
    density = lambda u: -0.7 * u
    log_theta = jax.nn.log_softmax(density(jnp.asarray(old.edges[:-1])))
    np.testing.assert_allclose(carry_over(log_theta, old, old), log_theta, atol=1e-4)
    new = EnergyPartition(1.0, 9.0, 37)
    expected = jax.nn.log_softmax(density(jnp.asarray(new.edges[:-1])))
    np.testing.assert_allclose(carry_over(log_theta, old, new), expected, atol=1e-3)


def test_the_search_keeps_below_the_cap():
    tuning = initial_tuning(4, 1 / CURVATURE, 0.1)._replace(gradient_noise=200.0 * CURVATURE)
    chain = start(random.key(0), 1 / jnp.sqrt(CURVATURE), exact, langevin())
    cap = float(largest_step_size(tuning, jnp.ones(())))
    step = jax.jit(
        lambda keys, chain, tuning: tuning_step(
            keys, chain, tuning, Moves(exact, True), Moment(jnp.ones(()), 0.0, True)
        )
    )
    for i in range(100):
        chain, tuning = step(random.split(random.key(i)), chain, tuning)
    # Steps so small are accepted nearly always: without the cap the search would go on upwards.
    assert np.exp(tuning.step_size.log_value) == pytest.approx(cap, rel=1e-4)
