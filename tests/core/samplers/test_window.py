"""Draws that stand for a window: chosen in proportion to weight, carrying the mean weight."""

import types
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats

from numpyro_contour import EnergyPartition, robbins_monro
from numpyro_contour.core.diffusions import langevin, leapfrog
from numpyro_contour.core.flattening.psi import Flattening
from numpyro_contour.core.samplers.chain import Sampler
from numpyro_contour.core.samplers.contour import contour
from numpyro_contour.core.samplers.cyclical import cyclical
from numpyro_contour.core.samplers.plain import plain
from numpyro_contour.core.samplers.window import Length, run_window


class Counted(NamedTuple):
    position: jax.Array
    log_weight: jax.Array
    potential_energy: jax.Array


class Place(NamedTuple):
    """A state: samplers keep their chain in one."""

    number: jax.Array

    @property
    def chain(self):
        return types.SimpleNamespace(energy_noise=jnp.array(0.0))


def walker(log_weights):
    """A chain that is at 0, 1, 2, ... with given log weights."""
    log_weights = jnp.asarray(log_weights)
    return Sampler(
        init=lambda key, position, potential_and_grad: Place(jnp.array(-1)),
        step=lambda keys, state, potential_and_grad: Place(state.number + 1),
        observe=lambda state: Counted(state.number, log_weights[state.number], jnp.array(0.0)),
        relocate=lambda state, chain: state,
    )


def windows(log_weights, draw, number=1, trust=1.0):
    sampler = walker(log_weights)
    run = jax.vmap(
        lambda key: run_window(
            key, Place(jnp.array(-1)), None, sampler, len(log_weights), draw, trust
        )[1]
    )
    return run(random.split(random.key(0), number))


def test_positions_are_chosen_in_proportion_to_their_weights():
    weights = np.array([0.5, 3.0, 1e-3, 2.0, 1.5, 0.2])
    number = 40_000
    window = windows(np.log(weights), "reservoir", number)
    counts = np.bincount(np.asarray(window.draw.position), minlength=6)
    assert stats.chisquare(counts, number * weights / weights.sum()).pvalue > 1e-3
    np.testing.assert_allclose(window.log_weight, np.log(weights.mean()), rtol=1e-5)
    np.testing.assert_allclose(
        window.draw.log_weight, np.log(weights)[np.asarray(window.draw.position)], rtol=1e-5
    )


@pytest.mark.parametrize("trust", [0.0, 0.4])
def test_weights_that_are_not_trusted_choose_less_and_count_in_full(trust):
    weights = np.array([0.5, 3.0, 1e-3, 2.0, 1.5, 0.2])
    number = 40_000
    window = windows(np.log(weights), "reservoir", number, trust)
    places = np.asarray(window.draw.position)
    chances = weights**trust / (weights**trust).sum()
    assert stats.chisquare(np.bincount(places, minlength=6), number * chances).pvalue > 1e-3
    # Whatever chose them, the weight that positions carry is their share of the mean weight.
    carried = np.exp(np.asarray(window.log_weight, np.float64))[:, None] * (
        places[:, None] == np.arange(6)
    )
    error = carried.std(0) / number**0.5
    assert (np.abs(carried.mean(0) - weights / 6) < 4 * error).all()


def test_last_is_the_last_position_with_its_own_weight():
    window = windows(np.log([0.5, 3.0, 2.0]), "last")
    assert window.draw.position.tolist() == [2]
    np.testing.assert_allclose(window.log_weight, np.log(2.0), rtol=1e-6)


@pytest.mark.parametrize("scale", [-200.0, 0.0, 200.0])
def test_weights_may_be_of_any_size(scale):
    window = windows(np.log([1.0, 3.0]) + scale, "reservoir", 1000)
    np.testing.assert_allclose(window.log_weight, np.log(2.0) + scale, rtol=1e-5)
    assert 0.68 < float(jnp.mean(window.draw.position == 1)) < 0.82  # 0.75, sd 0.014


def test_refused_attempts_are_never_chosen():
    window = windows([-np.inf, 0.0, -np.inf, -np.inf], "reservoir", 200)
    assert (np.asarray(window.draw.position) == 1).all()
    np.testing.assert_allclose(window.log_weight, -np.log(4.0), rtol=1e-6)


def test_refused_attempts_are_never_chosen_without_trust():
    window = windows([-np.inf, 0.0, -np.inf, -np.inf], "reservoir", 200, 0.0)
    assert (np.asarray(window.draw.position) == 1).all()
    np.testing.assert_allclose(window.log_weight, -np.log(4.0), rtol=1e-6)


def test_a_window_of_refusals_has_no_weight():
    window = windows([-np.inf, -np.inf], "reservoir", 3)
    assert np.isneginf(np.asarray(window.log_weight)).all()


def noisy_half(key, x):
    """Half of a normal, with noise, and no energy on the other side."""
    noise = 0.2 * random.normal(key)
    energy = jnp.where(x[0] > -1, 0.5 * jnp.sum(x**2) + noise, jnp.nan)
    return energy, x + noise, jnp.asarray(0.04) * (1 + (x[1] > 1))


def schedule(count):
    """Of steps that shrink: which of them is taken, and when, matters."""
    return 0.5 / (1 + 0.05 * count)


def flattened(diffusion, temperature=lambda count: 1.2, **more):
    """With multipliers from 1 to their bound."""
    partition = EnergyPartition(0.0, 6.0, 30)
    theta = np.exp(-0.004 * np.arange(30) ** 2.5)
    parts = diffusion, schedule, temperature, partition, robbins_monro()
    return contour(*parts, theta=theta, in_stretches=True, **more)


def cooling(count):
    return 1 + 0.5 / (1 + 0.1 * count)


SAMPLERS = {
    "plain": lambda: plain(langevin(), schedule, lambda count: 1.0),
    "plain, adjusted": lambda: plain(leapfrog(0.5), schedule, lambda count: 1.0),
    "cyclical": lambda: cyclical(langevin(), schedule, lambda count: 1.0, 13),
    "contour": lambda: flattened(langevin(), margin=jnp.asarray(-3.0), noise_limit=0.05),
    "contour, adjusted": lambda: flattened(leapfrog(0.5)),
    # Where Psi is bounded, its bound is that of the temperature at the beginning of a stretch.
    "contour, cooling": lambda: flattened(
        langevin(),
        cooling,
        flattening=Flattening(one_sided=False, multiplier_bound=None),
        margin=jnp.asarray(-3.0),
    ),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_stretch_is_its_steps_one_by_one(name):
    # Theta is known, so that the steps of a stretch have what single steps have.
    sampler = SAMPLERS[name]()
    start = sampler.init(random.key(0), jnp.array([0.5, -0.2]), noisy_half)

    @jax.jit
    def run(key, state):
        of = key, state, noisy_half
        ways = sampler, sampler._replace(stretch=None)
        return [run_window(*of, way, Length(4, 10), "reservoir", 0.5, traced=40) for way in ways]

    refused = 0
    for number in range(20):
        (state, window), (other, its_window) = run(random.key(number), start)
        refused += int(jnp.isneginf(window.trace.log_weight).sum())
        jax.tree.map(
            lambda x, y: np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-4),
            (state, window),
            (other, its_window),
        )
        start = other
        if hasattr(other, "gradient_multiplier"):
            # By another theta: what it is when a stretch begins is of no use.
            start = other._replace(gradient_multiplier=jnp.asarray(0.3))
    assert (refused > 5) == ("adjusted" not in name)
    if name == "contour":
        assert start.bounded > 5
