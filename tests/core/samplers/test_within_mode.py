"""Jumps within a mode: the law stays, and a wide mode is crossed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats

from numpyro_contour.core.diffusions import langevin
from numpyro_contour.core.samplers.jumps import jumps
from numpyro_contour.core.samplers.known_modes import (
    moved_within,
    no_modes,
    of_unlike_widths,
    place_of,
    sides,
    taken,
)
from numpyro_contour.core.samplers.plain import plain
from numpyro_contour.schedules import Constant

SAMPLES = 60_000
#: A narrow normal beside a wide and slanted one, so near that their cells cut the wide one.
MEANS = np.array([[0.0, 1.5], [1.0, -1.0]])
FACTORS = np.array([[[0.15, 0.0], [0.1, 0.2]], [[1.5, 0.0], [-0.6, 0.8]]])
MASSES = np.array([0.4, 0.6])


def potential(x):
    z = jnp.einsum("kij,kj->ki", jnp.asarray(np.linalg.inv(FACTORS)), x - MEANS)
    log_masses = jnp.asarray(np.log(MASSES / np.linalg.det(FACTORS)))
    return -jax.nn.logsumexp(log_masses - 0.5 * jnp.sum(z**2, -1))


def samples(number):
    rng = np.random.default_rng(number)
    mode = rng.choice(2, number, p=MASSES)
    noise = rng.standard_normal((number, 2))
    return MEANS[mode] + np.einsum("nij,nj->ni", FACTORS[mode], noise)


def modes(dense=True):
    sds = np.sqrt((FACTORS**2).sum(-1))
    factor = FACTORS if dense else sds
    inverse = np.linalg.inv(factor) if dense else 1 / sds
    log_volume = np.log(np.linalg.det(factor)) if dense else np.log(sds).sum(1)
    found = no_modes(3, 2, dense)
    put = lambda old, new: old.at[:2].set(jnp.asarray(new, old.dtype))
    return found._replace(
        known=put(found.known, np.ones(2, bool)),
        mean=put(found.mean, MEANS),
        factor=put(found.factor, factor),
        inverse=put(found.inverse, inverse),
        log_volume=put(found.log_volume, log_volume),
    )


@pytest.mark.slow
@pytest.mark.parametrize("dense", [True, False])
def test_tries_leave_the_law_and_cross_a_wide_mode(dense):
    parts = langevin(), Constant(0.1), Constant(1.0)
    sampler = plain(*parts)
    energy = lambda key, x: jax.value_and_grad(potential)(x)
    jump = jumps(sampler, *parts, modes(dense))
    start = samples(SAMPLES)

    @jax.jit
    @jax.vmap
    def moved(key, x):
        state = sampler.init(key, x, energy)
        none = 0
        for number in range(8):
            keys = random.split(random.fold_in(key, number + 1))
            state, counts = jump(keys, state, energy)
            none += counts.tried.sum() == 0
        return state.chain.position, none

    x, within = moved(random.split(random.key(1), SAMPLES), jnp.asarray(start))
    x = np.asarray(x, float)
    # A quarter of the tries, which are not counted among those from mode to mode.
    np.testing.assert_allclose(np.mean(within) / 8, 0.25, atol=5 * 0.45 / (8 * SAMPLES) ** 0.5)

    def counts(x):
        cells = np.zeros(len(x), int)
        for c in range(2):
            edges = np.quantile(start[:, c], np.linspace(0, 1, 9)[1:-1])
            cells = cells * 8 + np.searchsorted(edges, x[:, c])
        return np.bincount(cells, minlength=64)

    exact = counts(samples(20 * SAMPLES))
    exact, found = (n[exact > 400] for n in (exact, counts(x)))
    table = stats.chi2_contingency(np.stack([exact, found]))
    assert table.pvalue > 1e-3, table.pvalue


def way(uniforms, known, x):
    place = place_of(known, x)
    return taken(known, place, moved_within(uniforms, known, place))


def test_the_way_back_is_the_opposite_scale_and_the_determinant_is_what_it_says():
    rng = np.random.default_rng(1)
    known = modes()
    image = jax.jit(lambda uniforms, x: way(uniforms, known, x))
    slopes = jax.jit(jax.jacobian(lambda x, uniforms: image(uniforms, x).position))
    moves, far = 0, []
    for x in samples(60).astype(np.float32):
        uniforms = jnp.asarray(rng.random(3), jnp.float32)
        to = image(uniforms, x)
        assert (to.origin == to.target).all()
        assert to.origin.sum() == 1
        if not to.returns:
            continue
        moves += 1
        far.append(np.linalg.norm(to.position - x))
        back = image(uniforms.at[0].set(1 - uniforms[0]), to.position)
        np.testing.assert_allclose(back.position, x, atol=1e-4)
        assert back.returns
        volume = jnp.linalg.slogdet(slopes(x, uniforms))[1]
        np.testing.assert_allclose(to.log_factor, volume, atol=1e-4)
        np.testing.assert_allclose(back.log_factor, -volume, atol=1e-4)
    assert 30 < moves < 60
    # Steps that suit the narrow mode go .15 at most.
    assert np.quantile(far, 0.75) > 1


def test_numbers_of_zero_and_one_are_no_trouble():
    for end in (0.0, 1.0):
        to = way(jnp.full(3, end), modes(), jnp.asarray(MEANS[1]))
        assert np.isfinite([*to.position, to.log_factor]).all()


def unlike(factor):
    known = no_modes(len(factor) + 1, 2, dense=False)
    put = lambda old, new: old.at[: len(factor)].set(jnp.asarray(new, old.dtype))
    known = known._replace(
        known=put(known.known, np.ones(len(factor), bool)), factor=put(known.factor, factor)
    )
    return bool(of_unlike_widths(known, sides(known).sds))


def test_copies_in_another_order_and_empty_slots_are_not_of_other_widths():
    assert not unlike([])
    assert not unlike([[9.0, 9.0]])
    assert not unlike([[0.1, 1.0], [1.0, 0.1]])
    assert not unlike([[0.1, 1.0], [1.0, 0.19]])
    assert unlike([[0.1, 1.0], [1.0, 0.21]])
