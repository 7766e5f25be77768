"""Copies of known modes that are not known yet, and where a search for them begins."""

from itertools import permutations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from numpyro.infer import MCMC

from numpyro_contour import ContourSGLD
from numpyro_contour.core.samplers.known_modes import no_modes
from numpyro_contour.modes.copies import further_copy

PLACE = jnp.array([50.0, 60.0, 70.0])
TRIES = 400


def modes_at(means, slots=8, dense=True):
    """Modes of standard deviation 0.1, in the first slots."""
    means = jnp.asarray(means, float)
    number, size = means.shape
    modes = no_modes(slots, size, dense)
    return modes._replace(
        known=jnp.arange(slots) < number,
        mean=modes.mean.at[:number].set(means),
        factor=0.1 * modes.factor,
        inverse=10 * modes.inverse,
    )


def places_for(modes, place=PLACE):
    """Where searches begin, as tuples, and which of them are not the place of the chain."""
    keys = random.split(random.key(0), TRIES)
    found = np.asarray(jax.jit(jax.vmap(lambda key: further_copy(key, modes, place)))(keys))
    return {tuple(x) for x in found.round(3).tolist()}, (found != np.asarray(place)).any(1)


@pytest.mark.parametrize("dense", [True, False])
def test_orders_that_lead_from_one_copy_to_another_lead_on(dense):
    orders = {tuple(x) for x in permutations([1.0, 2.0, 4.0])}
    known = [(1.0, 2.0, 4.0), (2.0, 1.0, 4.0), (1.0, 4.0, 2.0)]
    found, moved = places_for(modes_at(known, dense=dense))
    assert found - {tuple(PLACE.tolist())} <= orders - set(known)
    # Half of the searches begin where the chain is.
    assert abs(moved.mean() - 0.5) < 4 * 0.5 / TRIES**0.5
    while len(known) < 6:
        further = places_for(modes_at(known, dense=dense))[0] - {tuple(PLACE.tolist())}
        known += sorted(further - set(known))[:1]
    assert set(known) == orders
    assert not places_for(modes_at(known, dense=dense))[1].any()


OTHER = (5.0, 7.0, 9.0)


def test_signs_lead_on_too_and_from_a_mode_of_another_kind():
    found, _ = places_for(modes_at([(1.0, 2.0, 4.0), (-2.0, 4.0, 1.0), OTHER]))
    # The way from the first mode to the second, and back.
    there, back = {(-4.0, 1.0, -2.0), (-7.0, 9.0, 5.0)}, {(4.0, -1.0, 2.0), (9.0, -5.0, 7.0)}
    assert found == {tuple(PLACE.tolist())} | there | back


def test_modes_that_are_no_copies_lead_nowhere():
    assert not places_for(modes_at([(1.0, 2.0, 4.0), (1.0, 2.0, 6.0), OTHER]))[1].any()
    # An order that nearly fits is none.
    assert not places_for(modes_at([(1.0, 2.0, 4.0), (2.0, 1.03, 4.0), OTHER]))[1].any()
    assert not places_for(modes_at([(1.0, 2.0, 4.0)]))[1].any()


@pytest.mark.slow
def test_all_orders_of_four_labels_are_found_from_those_of_a_few_chains():
    centres = jnp.array(list(permutations([0.0, 9.0, 18.0, 27.0])))

    def potential(x):
        return -jax.nn.logsumexp(-0.5 * jnp.sum((x - centres) ** 2, 1))

    kernel = ContourSGLD(potential_fn=potential, num_steps=20)
    mcmc = MCMC(
        kernel,
        num_warmup=400,
        num_samples=500,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(random.key(1), init_params=centres[:4] + 0.5)
    assert mcmc.last_state.warmup.modes.modes.known.sum() == 24
    x = np.asarray(mcmc.get_samples())
    weights = np.exp(np.asarray(mcmc.get_extra_fields()["log_weight"], float))
    nearest = np.argmin(((x[:, None] - np.asarray(centres)) ** 2).sum(-1), 1)
    shares = np.bincount(nearest, weights / weights.sum(), 24)
    # About every second try leads to another copy: 500 independent draws and more.
    assert abs(shares - 1 / 24).max() < 4 * (1 / 24 / 500) ** 0.5
