"""A partition ends where a flattened chain still comes back often."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import run
from scipy import stats

from numpyro_contour import ContourSGLD, EnergyPartition, diagnose, weighted_samples
from numpyro_contour.core.flattening.theta import initial_theta
from numpyro_contour.warmup.stages.energies import SIZE, Spread, no_energies, record_energies
from numpyro_contour.warmup.stages.flatten import (
    bins_in_reach,
    bins_in_use,
    credible,
    renew_partition,
)

PARTITION = EnergyPartition(0.0, 64.0, 128)
LEVELS = np.array([0.025, 0.25, 0.75, 0.975])
FOUND = Spread(*[jnp.array(x) for x in (0.25, 1.0, 1.0)])


def energies_of(diffusivity, upto=64.0, since=0.0):
    """Energies that are visited evenly up to somewhere, with changes that agree with D(u)."""
    values = np.linspace(since, upto, SIZE, endpoint=False)
    changes = 2 * diffusivity(values) + 0 * values
    return no_energies()._replace(values=jnp.asarray(values), changes=jnp.asarray(changes))


def reach_of(energies, steps):
    return float(bins_in_reach(energies, PARTITION, jnp.array(steps)) * PARTITION.width)


@pytest.mark.parametrize("length", [8.0, 20.0, 50.0])
def test_a_round_trip_of_constant_diffusivity(length):
    """It takes L^2 / D steps, and ten of them fit into the run."""
    reach = reach_of(energies_of(lambda u: 0.3), 10 * length**2 / 0.3)
    assert reach == pytest.approx(length, abs=1.01 * PARTITION.width)


def test_a_round_trip_of_a_falling_diffusivity():
    """With D = exp(-u / 2) it takes 2 L (exp(L / 2) - 1) steps."""
    length = 12.0
    steps = 10 * 2 * length * np.expm1(length / 2)
    reach = reach_of(energies_of(lambda u: np.exp(-u / 2)), steps)
    assert reach == pytest.approx(length, abs=2 * PARTITION.width)


def test_the_way_up_may_be_as_fast_as_where_the_chain_has_been():
    fast = energies_of(lambda u: 0.3, upto=10.0)
    assert reach_of(fast, 10 * 40.0**2 / 0.3) == pytest.approx(40.0, abs=1.01 * PARTITION.width)
    slow = energies_of(lambda u: np.exp(-u / 2), upto=10.0)
    # Beyond them D is that of the highest bins: 10 nats to the next trip, and not four times them.
    assert 10.0 < reach_of(slow, 10 * 40.0**2 * np.exp(5.0) / 4) < 30.0


def test_a_window_that_was_never_at_the_foot():
    """Bins below all visited ones count as the lowest that was, and not as out of reach."""
    away = energies_of(lambda u: 0.3, since=20.0, upto=50.0)
    assert reach_of(away, 10 * 40.0**2 / 0.3) == pytest.approx(40.0, abs=1.01 * PARTITION.width)


def test_a_jump_of_the_energy_hides_no_slow_bins():
    """Of 1e5 nats: in sums over all bins below, what is above it would be rounding error."""
    energies = energies_of(lambda u: np.exp(-u / 2))
    jumped = energies._replace(changes=energies.changes.at[20].set(1e10))
    steps = 10 * 2 * 12.0 * np.expm1(6.0)
    assert reach_of(jumped, steps) == pytest.approx(reach_of(energies, steps), abs=1.0)


def test_nothing_known_and_nothing_in_reach():
    assert reach_of(no_energies(), 10_000) == 64.0
    assert reach_of(energies_of(lambda u: 1e-9), 10_000) == 4.0


@pytest.mark.slow
@pytest.mark.parametrize("per_draw", [1, 5])
def test_changes_are_those_of_single_steps(per_draw):
    """Also where a window has more steps than are remembered, or draws have one step each."""
    total = 10 * SIZE
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(0.0, 1.0 + 0.5 * (np.arange(total) % 10), total))
    record = jax.jit(record_energies)
    energies = no_energies()
    for first in range(0, total, per_draw):
        values = jnp.asarray(walk[first : first + per_draw], float)
        blank = jnp.zeros(per_draw)
        energies = record(energies, values, blank, jnp.asarray(first), jnp.asarray(total))
    # Of each ten steps the last one is kept, whose changes are the largest.
    kept = np.arange(9, total, 10)
    expected = (walk[kept] - walk[kept - 1]) ** 2
    np.testing.assert_allclose(energies.values, walk[kept], rtol=1e-5)
    np.testing.assert_allclose(energies.changes, expected, rtol=1e-2, atol=1e-3)


def renewed(diffusivity, is_pilot, steps=10_000):
    return renew_partition(
        FOUND,
        energies_of(diffusivity),
        jnp.array(steps),
        jnp.array(1.0),
        jnp.array(is_pilot),
        jnp.array(True),
        EnergyPartition(0.0, 128.0, 128),
        initial_theta(128),
        0.5,
    )[0]


def test_bins_out_of_reach_lie_below_the_others():
    wide, narrow = renewed(lambda u: 1e3, False), renewed(lambda u: np.exp(-u / 2), False)
    assert (float(wide.lower), float(wide.upper)) == (0.0, 64.0)
    assert 6.0 < float(narrow.upper) < 12.0
    assert float(narrow.width) == float(wide.width) == 0.5


def test_the_warm_up_tells_where_the_bins_in_use_begin():
    narrow = renewed(lambda u: np.exp(-u / 2), False)
    in_use = bins_in_use(narrow, FOUND.low, 0.5)
    assert float(in_use.lower) == 0.0
    assert float(in_use.upper) == float(narrow.upper)


def test_the_first_window_climbs_twelve_standard_deviations():
    assert float(renewed(lambda u: 1e3, True).upper) == 12.0
    assert float(renewed(lambda u: 1e3, False).upper) == 64.0


def test_a_window_that_saw_little_of_the_posterior_does_not_say_where_bins_are_needed():
    pilot = FOUND
    away = Spread(*[jnp.array(x) for x in (3.0, 11.0, 6.0)])
    assert credible(away, pilot, jnp.array(True)) == pilot
    assert credible(away, pilot, jnp.array(False)) == away
    for mean in (-11.0, 3.5):  # deeper, and little above the pilot's 1 +- 1
        other = away._replace(mean=jnp.array(mean))
        assert credible(other, pilot, jnp.array(True)) == other


@pytest.mark.slow
@pytest.mark.optimized
@pytest.mark.parametrize(("nu", "dim"), [(3.0, 1), (4.0, 5)])
def test_a_t_distribution_with_nothing_given(nu, dim):
    """Before there was a reach, three fifths of the weight of t3 were outside of its quartiles."""
    kernel = ContourSGLD(
        potential_fn=lambda x: 0.5 * (nu + dim) * jnp.log1p(jnp.sum(x**2) / nu), num_steps=50
    )
    mcmc = run(
        kernel,
        0,
        samples=1000,
        warmup=1000,
        chains=4,
        init_params=jnp.zeros((4, dim)),
        chain_method="vectorized",
    )
    x, log_weights = weighted_samples(mcmc)
    below = np.asarray(x).reshape(4000, dim)[:, :1] < stats.t(nu).ppf(LEVELS)
    found = np.average(below, axis=0, weights=np.exp(np.asarray(log_weights, float)).ravel())
    # Some two thousand independent draws, by their effective number; no fewer than 500.
    errors = np.sqrt(LEVELS * (1 - LEVELS) / 500)
    assert (np.abs(found - LEVELS) < 4 * errors).all()
    assert not any(fault.check == "partition above" for fault in diagnose(mcmc).faults)
