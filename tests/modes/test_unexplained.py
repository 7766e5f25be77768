"""Descents from places that known modes do not explain: which places, and a mode found so."""

from functools import partial

import jax.numpy as jnp
import models
import numpy as np
import pytest
from jax import random
from jax.scipy.stats import norm

from numpyro_contour import SGLD
from numpyro_contour.modes.found_modes import none_found
from numpyro_contour.modes.where_no_chain_is import unexplained

TAU = 2.0
# The known mode, a normal with unlike scales, and a narrow one beside it, of the same mass.
MEAN, SDS = np.array([3.0, -1.0, 0.0]), np.array([1.0, 5.0, 0.2])
AWAY, NARROW = np.array([-2.0, 12.0, 1.2]), SDS / 4


def energy(place, narrow):
    """Nats; the posterior is at the temperature TAU."""
    logs = [norm.logpdf(place, MEAN, SDS).sum(), norm.logpdf(place, AWAY, NARROW).sum()]
    return -TAU * (jnp.logaddexp(*logs) if narrow else logs[0])


def known_mode():
    """What the warm-up knows of the first mode, with energies in nats, and slots without modes."""
    found = none_found(3)
    modes = found.modes._replace(
        known=found.modes.known.at[1].set(True),
        mean=found.modes.mean.at[1].set(MEAN),
        factor=found.modes.factor.at[1].set(np.diag(SDS)),
        inverse=found.modes.inverse.at[1].set(np.diag(1 / SDS)),
        log_volume=found.modes.log_volume.at[1].set(np.log(SDS).sum()),
    )
    bottom = -TAU * norm.logpdf(MEAN, MEAN, SDS).sum()
    return found._replace(modes=modes, energy=found.energy.at[1].set(bottom))


def places(narrow, number=200):
    at = partial(energy, narrow=narrow)
    there = unexplained(random.key(0), number, known_mode(), at, jnp.asarray(TAU))
    return np.asarray(there, float)


def test_places_are_where_a_narrow_mode_is():
    z = (places(narrow=True) - AWAY) / NARROW
    near = np.linalg.norm(z, axis=1) < 8
    # Of single candidates some 0.2 % are.
    assert near.mean() > 0.25


def test_where_known_modes_explain_all_places_are_any_up_to_sixteen_times_as_far_as_draws():
    z = (places(narrow=False) - MEAN) / SDS
    distance = np.linalg.norm(z, axis=1)
    # Roundings decide, so that no direction is favoured, and distances are those of candidates.
    assert distance.max() < 16 * 6
    assert distance.max() > 16
    assert np.all(np.abs((z > 0).mean(0) - 0.5) < 4 * 0.5 / np.sqrt(len(z)))


def test_energies_that_are_not_finite_are_not_chosen():
    at = lambda x: jnp.where(x[0] > MEAN[0], jnp.nan, jnp.where(x[1] > 0, -jnp.inf, x[2]))
    there = np.asarray(unexplained(random.key(1), 50, known_mode(), at, jnp.asarray(TAU)))
    assert np.all((there[:, 0] <= MEAN[0]) & (there[:, 1] <= 0))


@pytest.mark.slow
def test_a_narrow_mode_in_five_coordinates_is_found():
    size, sd, apart = 5, 0.3, 6.0

    def potential(x):
        narrow = norm.logpdf(x[0], apart, sd) + norm.logpdf(x[1:], 0.0, sd).sum()
        return -jnp.logaddexp(narrow, norm.logpdf(x).sum())

    kernel = SGLD(potential_fn=potential, num_steps=20)
    start = random.normal(random.key(1), (4, size))
    how = {"chains": 4, "chain_method": "vectorized", "init_params": start}
    mcmc = models.run(kernel, 0, warmup=500, samples=1000, **how)
    x = np.asarray(mcmc.get_samples(group_by_chain=True), float)
    share = (x[..., 0] > apart / 2 + 1).mean(1)
    # Of some 500 independent draws a chain, by two jumps a draw.
    assert abs(share - 0.5).max() < 0.09
    assert abs(share.mean() - 0.5) < 0.045
