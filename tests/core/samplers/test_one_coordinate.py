"""Jumps of one coordinate: the law stays, and combinations that are in no list are reached."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats

from numpyro_contour.core.diffusions import langevin
from numpyro_contour.core.samplers.jumps import jumps
from numpyro_contour.core.samplers.known_modes import (
    LEAST_MODES,
    moved_coordinate,
    no_modes,
    place_of,
    sides,
    taken,
)
from numpyro_contour.core.samplers.plain import plain
from numpyro_contour.schedules import Constant

SAMPLES = 100_000
#: Six normals on a grid, the last two of which are not known, with widths and slants of their own.
MEANS = np.array([[-3.0, -2.0], [3.0, -2.0], [-3.0, 2.0], [0.0, 2.5], [3.0, 2.5], [0.0, -2.5]])
SDS = np.array([[0.6, 0.4], [0.9, 0.5], [0.5, 0.8], [0.7, 0.4], [0.8, 0.6], [0.5, 0.5]])
SLANTS = np.array([0.0, 0.5, -0.3, 0.2, 0.0, 0.4])
MASSES = np.array([0.25, 0.1, 0.2, 0.15, 0.2, 0.1])
KNOWN = 4


def factors():
    roots = [np.linalg.cholesky(np.array([[1.0, r], [r, 1.0]])) for r in SLANTS]
    return SDS[:, :, None] * np.stack(roots)


def potential(x):
    z = jnp.einsum("kij,kj->ki", jnp.asarray(np.linalg.inv(factors())), x - MEANS)
    log_masses = jnp.asarray(np.log(MASSES / np.linalg.det(factors())))
    return -jax.nn.logsumexp(log_masses - 0.5 * jnp.sum(z**2, -1))


def samples(number):
    rng = np.random.default_rng(number)
    mode = rng.choice(len(MASSES), number, p=MASSES)
    noise = rng.standard_normal((number, 2))
    return MEANS[mode] + np.einsum("nij,nj->ni", factors()[mode], noise)


def modes(dense=True):
    found = no_modes(KNOWN + 1, 2, dense)
    factor = factors()[:KNOWN] if dense else SDS[:KNOWN]
    inverse = np.linalg.inv(factor) if dense else 1 / factor
    log_volume = np.log(np.linalg.det(factor)) if dense else np.log(factor).sum(1)
    put = lambda old, new: old.at[:KNOWN].set(jnp.asarray(new, old.dtype))
    return found._replace(
        known=put(found.known, np.ones(KNOWN, bool)),
        mean=put(found.mean, MEANS[:KNOWN]),
        factor=put(found.factor, factor),
        inverse=put(found.inverse, inverse),
        log_volume=put(found.log_volume, log_volume),
    )


@pytest.mark.slow
@pytest.mark.parametrize("dense", [True, False])
def test_tries_of_one_coordinate_leave_the_law_and_reach_what_no_list_has(dense):
    sampler = plain(langevin(), Constant(0.1), Constant(1.0))
    energy = lambda key, x: jax.value_and_grad(potential)(x)
    known = modes(dense)
    jump = jumps(sampler, langevin(), Constant(0.1), Constant(1.0), known)
    start = samples(SAMPLES)

    @jax.jit
    @jax.vmap
    def moved(key, x):
        state = sampler.init(key, x, energy)
        for number in range(6):
            keys = random.split(random.fold_in(key, number + 1))
            state, _ = jump(keys, state, energy)
        return state.chain.position

    x = np.asarray(moved(random.split(random.key(1), SAMPLES), jnp.asarray(start)), float)

    def mode(x):
        return np.argmin(((x[:, None] - MEANS) ** 2).sum(-1), 1)

    # In each mode, four cells by each coordinate.
    def counts(x):
        cells = mode(x) * 16
        for c in range(2):
            edges = np.quantile(start[:, c], [0.25, 0.5, 0.75])
            cells = cells + 4**c * np.searchsorted(edges, x[:, c])
        return np.bincount(cells, minlength=96)

    exact = counts(samples(20 * SAMPLES))
    exact, found = (n[exact > 400] for n in (exact, counts(x)))
    table = stats.chi2_contingency(np.stack([exact, found]))
    assert table.pvalue > 1e-3, table.pvalue
    arrived = (mode(x) >= KNOWN) & (mode(start) < KNOWN)
    # The corner that two coordinates of known modes make; nothing else leads there.
    assert arrived.mean() > 0.01


def way(uniforms, known, x):
    place = place_of(known, x)
    return taken(known, place, moved_coordinate(uniforms, known, sides(known), place))


def test_a_coordinate_comes_back_the_way_it_went_and_has_the_determinant_it_says():
    rng = np.random.default_rng(1)
    known = modes()
    image = jax.jit(lambda uniforms, x: way(uniforms, known, x))
    slopes = jax.jit(jax.jacobian(lambda x, uniforms: image(uniforms, x).position))
    moves = 0
    for x in samples(60):
        uniforms = jnp.asarray(rng.random(KNOWN + 1 + 2), jnp.float32)
        to = image(uniforms, jnp.asarray(x, jnp.float32))
        changed = np.abs(np.asarray(to.position) - x) > 1e-6
        assert changed.sum() <= 1
        if not to.returns:
            continue
        moves += 1
        back = image(uniforms, to.position)
        np.testing.assert_allclose(back.position, x, atol=1e-4)
        assert back.returns
        volume = jnp.linalg.slogdet(slopes(jnp.asarray(x, jnp.float32), uniforms))[1]
        np.testing.assert_allclose(to.log_factor, volume, atol=1e-4)
        np.testing.assert_allclose(back.log_factor, -volume, atol=1e-4)
    assert moves > 15


def test_fewer_modes_have_no_combinations():
    known = modes()
    three = known._replace(known=known.known.at[0].set(False))
    assert three.known.sum() == LEAST_MODES - 1
    uniforms = random.uniform(random.key(0), (40, KNOWN + 1 + 2))
    positions = jnp.asarray(samples(40), jnp.float32)
    returns = lambda known: jax.vmap(lambda u, x: way(u, known, x).returns)
    assert returns(known)(uniforms, positions).sum() > 5
    assert not returns(three)(uniforms, positions).any()


def test_a_coordinate_in_which_one_mode_differs_is_moved_as_often_as_others():
    means = np.array([[0.0, 0.0, 0.0], [5.0, 0.0, 0.1], [10.0, 0.0, 0.0], [15.0, 5.0, 0.0]])
    known = no_modes(4, 3, dense=False)
    known = known._replace(known=jnp.ones(4, bool), mean=jnp.asarray(means, jnp.float32))
    uniforms = random.uniform(random.key(2), (4000, 4 + 3))
    start = jnp.array([0.1, 0.1, 0.1])
    image = jax.vmap(lambda u: way(u, known, start))
    changed = np.abs(np.asarray(image(uniforms).position) - start) > 1e-6
    # In the third they are too near to each other to be modes.
    assert changed[:, 2].sum() == 0
    np.testing.assert_allclose(changed[:, :2].mean(0), 0.5, atol=4 * 0.5 / np.sqrt(4000))
