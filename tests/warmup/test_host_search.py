"""Chains begin in modes that the host has found, by default and with exact energies."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random

from numpyro_contour import SGLD, ContourSGLD, EnergyPartition
from numpyro_contour.warmup import mode_finder
from numpyro_contour.warmup.search import begun_in_modes

KEYS = random.split(random.key(0), 4)


def normals(x, means=(-4.0, 4.0, 12.0), log_mass=(0.0, -1.0, -9.0)):
    """Normals on a line; in the last one is hardly any mass."""
    return -jnp.logaddexp.reduce(jnp.array(log_mass) - 0.5 * (x - jnp.array(means)) ** 2)


def start(shape=(4,)):
    return jnp.full(shape, -2.0)


def test_chains_begin_in_modes_of_mass_in_turn():
    kernel = ContourSGLD(potential_fn=normals, num_steps=20)
    state = kernel.first_state(KEYS, 100, start())
    chain = state.sampler.chain
    np.testing.assert_allclose(chain.position[:, 0], [-4, 4, -4, 4], atol=1e-2)
    expected = jax.vmap(jax.value_and_grad(normals))(chain.position[:, 0])
    np.testing.assert_allclose(chain.potential_energy, expected[0], rtol=1e-5)
    np.testing.assert_allclose(chain.gradient[:, 0], expected[1], atol=1e-4)
    found = state.warmup.modes
    # The third one is known, but no chain is sent to where there are no draws.
    np.testing.assert_allclose(found.modes.mean[:3, 0], [-4, 4, 12], atol=2e-2)
    np.testing.assert_allclose(np.diff(found.log_mass[:3]), [-1, -8], atol=0.05)
    np.testing.assert_allclose(state.warmup.tuning.preconditioner, 1.0, rtol=0.05)
    assert state.warmup.tuning.descent == ()


def test_one_chain_begins_in_any_of_them_also_where_its_key_is_traced():
    kernel = ContourSGLD(potential_fn=normals, num_steps=20)
    of_key = lambda key: kernel.first_state(key, 100, start(())).sampler.chain.position[0]
    traced = jax.jit(of_key)
    for begin in (of_key, traced):
        places = np.array([begin(key) for key in random.split(random.key(1), 12)])
        assert set(places.round()) == {-4.0, 4.0}


def neck(x):
    """Eight schools as written: as tau goes to 0 the density has no bound, and no room either."""
    mu, log_tau, theta = x[0], x[1], x[2:]
    rows, sigma = (
        jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12]),
        jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18]),
    )
    of_effects = 0.5 * jnp.sum(((theta - mu) / jnp.exp(log_tau)) ** 2) + 8 * log_tau
    prior = 0.5 * (mu / 5) ** 2 + jnp.log1p(jnp.exp(2 * log_tau) / 25) - log_tau
    return prior + of_effects + 0.5 * jnp.sum(((rows - theta) / sigma) ** 2)


FALLBACKS = {
    "a neck": {"potential_fn": neck},
    "a step size": {"potential_fn": normals, "step_size": 0.1},
    "a preconditioner": {"potential_fn": normals, "preconditioner": jnp.ones(())},
    "another temperature": {"potential_fn": normals, "temperature": 2.0},
}


@pytest.mark.parametrize("case", FALLBACKS)
def test_else_they_descend_by_themselves(case):
    kernel = ContourSGLD(num_steps=20, **FALLBACKS[case])
    first = jnp.full((4, 10), 0.5) if case == "a neck" else start()
    state = kernel.first_state(KEYS, 100, first)
    np.testing.assert_array_equal(state.sampler.chain.position, first.reshape(4, -1))
    assert state.warmup.tuning.descent != ()


def test_without_jumps_they_begin_in_the_modes_that_their_own_starts_lead_to():
    kernel = ContourSGLD(potential_fn=normals, num_steps=20, jumps=False)
    first = jnp.array([-2.0, 5.0, 11.0, 3.0])
    state = kernel.first_state(KEYS, 100, first)
    np.testing.assert_allclose(state.sampler.chain.position[:, 0], [-4, 4, 12, 4], atol=1e-2)
    assert state.warmup.modes == ()
    assert state.warmup.tuning.descent == ()
    of_one = kernel.first_state(KEYS[0], 100, jnp.full((), 5.0))
    assert float(of_one.sampler.chain.position[0]) == pytest.approx(4.0, abs=1e-2)


def test_what_a_partition_says_does_not_matter():
    kernel = ContourSGLD(potential_fn=normals, num_steps=20, partition=EnergyPartition(0.0, 9.0, 9))
    state = kernel.first_state(KEYS, 100, start())
    np.testing.assert_allclose(state.sampler.chain.position[:, 0], [-4, 4, -4, 4], atol=1e-2)


def squares(y, taken):
    """Two modes, at the roots of the mean."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    with numpyro.plate("rows", len(y), subsample_size=taken) as rows:
        numpyro.sample("y", dist.Normal(mu**2, 20), obs=y[rows])


ROWS = np.random.default_rng(0).normal(9.0, 20.0, 200).astype(np.float32)


def exact_energy(mu):
    likelihood = dist.Normal(mu**2, 20).log_prob(ROWS).sum()
    return -likelihood - dist.Normal(0, 5).log_prob(mu)


@pytest.mark.parametrize(("kernel", "args"), [(SGLD, {}), (ContourSGLD, {"energy": "first_order"})])
def test_minibatches_that_cannot_afford_all_rows_descend(kernel, args):
    """Or where something is said of energies, or a warm-up is not made on the host."""
    taken = 2 if kernel is SGLD else 50
    kernel = kernel(lambda y: squares(y, taken), num_steps=50, **args)
    assert kernel._started(KEYS, 100, None, (ROWS,), {}, on_host=True)[1] is None


def test_minibatches_of_few_rows_begin_in_the_modes_of_all():
    kernel = ContourSGLD(lambda y: squares(y, 50), num_steps=50)
    of_run = KEYS, 100, None, (ROWS,), {}
    assert kernel._started(*of_run)[1] is None
    state, begins = kernel._started(*of_run, on_host=True)
    begun, search = begun_in_modes(begins, state)
    places = begun.sampler.chain.position[:, 0]
    np.testing.assert_allclose(np.abs(places), np.abs(places[0]), rtol=1e-2)
    assert set(np.sign(places)) == {-1.0, 1.0}
    np.testing.assert_allclose(jax.vmap(jax.grad(exact_energy))(places), 0.0, atol=0.1)
    # In the end energies of modes are differences to the first anchor of the first chain.
    anchors = begun.warmup.anchors
    slots = anchors.slots
    elsewhere = slots.energy._replace(high=slots.energy.high.at[0, 0].set(7.0))
    anchors = anchors._replace(slots=slots._replace(energy=elsewhere))
    ended = search.ended(begun._replace(warmup=begun.warmup._replace(anchors=anchors)))
    found = ended.warmup.modes
    expected = jax.vmap(exact_energy)(found.modes.mean[:2, 0]) - 7
    np.testing.assert_allclose(found.energy[:2], expected, rtol=1e-4)
    np.testing.assert_allclose(found.log_mass[:2], found.modes.log_volume[:2] - expected, rtol=1e-4)


@pytest.mark.slow
def test_their_modes_get_anchors_and_energies_are_differences_to_these():
    kernel = ContourSGLD(lambda y: squares(y, 50), num_steps=50)
    state = kernel.init(KEYS, 100, None, (ROWS,), {})
    anchors, modes = state.warmup.anchors, state.warmup.modes
    assert modes.modes.known.sum() == 2
    # Whatever chain it is, both modes have anchors, and energies are differences to its first.
    served = np.asarray(anchors.slots.position[..., 0])[np.asarray(anchors.slots.weight) > 0]
    assert {*np.sign(served)} == {-1.0, 1.0}
    for chain in range(4):
        used = np.asarray(anchors.slots.weight[chain]) > 0
        assert {*np.sign(anchors.slots.position[chain, used, 0])} == {-1.0, 1.0}
    exact = jax.vmap(exact_energy)
    reference = np.asarray(anchors.reference.high + anchors.reference.low)
    np.testing.assert_allclose(
        modes.energy[:2] + reference[0], exact(modes.modes.mean[:2, 0]), atol=2e-2
    )
    expected = modes.modes.log_volume[:2] - modes.energy[:2]
    np.testing.assert_allclose(modes.log_mass[:2], expected, atol=2e-2)
    chain = state.sampler.chain
    np.testing.assert_allclose(
        chain.potential_energy + reference, exact(chain.position[:, 0]), atol=0.3
    )


def narrow(x):
    """Half of the mass within a hundredth of where the search begins to look."""
    broad = -0.5 * jnp.sum(x**2)
    tight = -0.5 * jnp.sum(((x - 30.0) / 0.01) ** 2) - x.shape[0] * jnp.log(0.01)
    return -jnp.logaddexp(broad, tight)


def test_where_a_chain_has_come_to_is_looked_at_again():
    """A mode that no search finds is known once a chain is in it; the others keep their slots."""
    kernel = ContourSGLD(potential_fn=narrow, num_steps=200)
    state, begins = kernel._started(KEYS, 100, jnp.zeros((4, 6)), (), {})
    state, search = begun_in_modes(begins, state)
    assert state.warmup.modes.modes.known.sum() == 1
    same = search.looked_again(state)
    assert same.warmup.modes.modes.known.sum() == 1
    chain = state.sampler.chain
    moved = chain._replace(position=chain.position.at[2].set(30.005))
    after = search.looked_again(state._replace(sampler=state.sampler._replace(chain=moved)))
    modes = after.warmup.modes
    assert search.several
    np.testing.assert_allclose(modes.modes.mean[:2], [np.zeros(6), np.full(6, 30.0)], atol=2e-2)
    np.testing.assert_allclose(modes.log_mass[1], modes.log_mass[0], atol=0.3)
    assert modes.descents > state.warmup.modes.descents


def test_a_search_does_not_outlast_its_share_of_the_gradients():
    kernel = ContourSGLD(potential_fn=normals, num_steps=1)
    state, begins = kernel._started(KEYS, 20, start(), (), {})
    state, search = begun_in_modes(begins, state)
    before = search._list.landscape.gradients
    assert search.looked_again(state) is state
    assert search._list.landscape.gradients == before


def test_chains_walk_from_there_with_a_step_that_suits_them():
    """The first one is a fiftieth of the largest that may be found."""
    state = ContourSGLD(potential_fn=normals, num_steps=50).init(KEYS, 40, start())
    steps = state.warmup.history.step_size[:, 0]
    assert np.all((steps > 0.2) & (steps < 1.0))
    assert np.all(state.warmup.history.acceptance[:, 0] > 0.8)


def test_heavy_models_are_evaluated_at_fewer_places_at_once(monkeypatch):
    def lanes(kernel, most):
        monkeypatch.setattr(mode_finder, "_OPERATIONS", most)
        return kernel._started(KEYS, 20, start(), (), {})[1].finder._lanes

    one, other, third = (ContourSGLD(potential_fn=normals, num_steps=20) for _ in range(3))
    assert lanes(one, 1e9) == 64
    fewer = lanes(other, 20_000.0)
    assert 4 < fewer < 64
    assert lanes(other, 20_000.0) == fewer
    assert lanes(third, 1.0) == 4
