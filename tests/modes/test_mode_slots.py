"""The slot of a new mode: no coordinate loses the last mode that is elsewhere in it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numpyro_contour.core.samplers.known_modes import no_modes
from numpyro_contour.modes.found_modes import slot_for


def far_lighter(size):
    return 10 + size / 2


def modes(means, sds, dense, known=None):
    number, size = np.shape(means)
    factor = np.asarray(sds, float)
    if dense:  # a turn, which leaves standard deviations as they are
        turn = np.linalg.qr(np.random.default_rng(0).standard_normal((size, size)))[0]
        factor = factor[..., None] * turn
    blank = no_modes(number, size, dense)
    known = np.ones(number, bool) if known is None else known
    return blank._replace(
        known=jnp.asarray(known), mean=jnp.asarray(means), factor=jnp.asarray(factor)
    )


def splits(means, sds):
    """The coordinates in which any two modes are apart."""
    pairs = [(i, j) for i in range(len(means)) for j in range(i)]
    gaps = [np.abs(means[i] - means[j]) > sds[i] + sds[j] for i, j in pairs]
    return np.any(gaps, 0) if gaps else np.zeros(means.shape[1], bool)


def expected(means, sds, log_mass, known):
    """The same by all pairs of modes; the last row is the new one."""
    slots, heaviest = np.arange(len(means) - 1), log_mass.max()
    rows = lambda *numbers: [n for n in (*numbers, len(means) - 1) if known[n]]
    every = splits(means[rows(*slots)], sds[rows(*slots)])
    needed = []
    for k in slots:
        others = rows(*(n for n in slots if n != k))
        loses = every & ~splits(means[others], sds[others])
        needed.append(loses.any() and log_mass[k] > heaviest - far_lighter(means.shape[1]))
    needed, new, old = np.array(needed), log_mass[-1], log_mass[:-1]
    if needed.all():
        return old.argmin(), new > old.max()
    slot = np.where(needed, np.inf, old).argmin()
    before = [n for n in slots if known[n]]
    adds = (every & ~splits(means[before], sds[before])).any() and new > heaviest - far_lighter(
        means.shape[1]
    )
    return slot, new > old[slot] or adds


@pytest.mark.parametrize("dense", [False, True])
def test_slots_are_those_that_all_pairs_say(dense):
    rng = np.random.default_rng(1)
    found = jax.jit(slot_for)
    refused = protected = lighter = 0
    for _ in range(400):
        # Few places, so that often a single mode is elsewhere; sometimes free slots.
        means = 4.0 * rng.integers(0, 2, (5, 3)) * rng.integers(0, 2, (5, 3))
        sds = rng.uniform(0.2, 2.6, (5, 3))
        log_mass = rng.normal(0, rng.choice([2.0, 9.0]), 5)
        known = np.append(rng.random(4) < 0.9, True)
        log_mass[:-1][~known[:-1]] = -np.inf
        now = modes(means[:-1], sds[:-1], dense, known[:-1])
        new = modes(means[-1:], sds[-1:], dense)
        log_mass = log_mass.astype(np.float32)
        slot, taken = found(now, jnp.asarray(log_mass[:-1]), new, log_mass[-1])
        slot_expected, taken_expected = expected(means, sds, log_mass, known)
        assert bool(taken) == taken_expected
        if taken:
            assert int(slot) == slot_expected
        refused += not taken
        protected += bool(taken) and slot_expected != log_mass[:-1].argmin()
        lighter += bool(taken) and known.all() and log_mass.argmin() == 4
    # Each kind of answer was there.
    assert min(refused, protected, lighter) > 10, (refused, protected, lighter)


def test_the_last_mode_elsewhere_in_a_coordinate_is_kept_and_a_new_one_is_taken():
    row = np.array([[0.0, 0.0], [8.0, 0.0], [16.0, 0.0], [0.0, 9.0]])
    masses = jnp.array([3.0, 2.0, 1.0, 0.0])
    now = modes(row, np.ones((4, 2)), dense=False)
    another = modes([[24.0, 0.0]], [[1.0, 1.0]], dense=False)
    slot, taken = slot_for(now, masses, another, jnp.array(1.5))
    assert (bool(taken), int(slot)) == (True, 2)
    # It is not worth a slot where it has next to no mass.
    slot, taken = slot_for(now, masses.at[3].set(-10.0), another, jnp.array(1.5))
    assert (bool(taken), int(slot)) == (True, 3)

    flat = modes(
        np.array([[0.0, 0.0], [8.0, 0.0], [16.0, 0.0], [24.0, 0.0]]), np.ones((4, 2)), False
    )
    elsewhere = modes([[0.0, 9.0]], [[1.0, 1.0]], dense=False)
    slot, taken = slot_for(flat, masses, elsewhere, jnp.array(-1.0))
    assert (bool(taken), int(slot)) == (True, 3)
    assert not slot_for(flat, masses, elsewhere, jnp.array(-10.0)).taken


def test_where_each_mode_is_needed_only_a_heavier_one_than_all_is_taken():
    now = modes([[0.0, 0.0], [8.0, 9.0]], np.ones((2, 2)), dense=False)
    new = modes([[8.0, 0.0]], [[1.0, 1.0]], dense=False)
    masses = jnp.array([3.0, 1.0])
    assert not slot_for(now, masses, new, jnp.array(2.0)).taken
    slot, taken = slot_for(now, masses, new, jnp.array(4.0))
    assert (bool(taken), int(slot)) == (True, 1)
