"""The moves between modes keep a density as it is, however wrong the modes are that they know."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax, random
from jax.scipy.special import gammaln
from tiers import in_second_tier

from numpyro_contour.modes.blocks import Flips, flips_of
from numpyro_contour.modes.mode_shapes import mode_shapes
from numpyro_contour.modes.moves import MOVES
from numpyro_contour.modes.tries import Point, first_plan, jumped

SIZE, NU = 3, 5.0
MEANS = np.array([[0.0, 0.0, 0.0], [7.0, 1.0, -2.0], [3.0, -6.0, 4.0]])
MASSES = np.array([0.5, 0.3, 0.2])
ROOTS = np.stack(
    [
        [[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.3, 0.5]],
        1.5 * np.eye(3),
        0.2 * np.array([[1.0, 0.0, 0.0], [-0.5, 1.0, 0.0], [0.0, 0.0, 2.0]]),
    ]
)
LOG_DETS = np.log(np.abs(np.linalg.det(ROOTS)))
INVERSES = np.linalg.inv(ROOTS)


def potential(x):
    """Two normals of other shapes, and between them in mass Student's t."""
    z = jnp.einsum("kij,kj->ki", INVERSES, x - MEANS)
    squares = jnp.sum(z**2, -1)
    normal = -0.5 * squares - 0.5 * SIZE * np.log(2 * np.pi)
    heavy = gammaln((NU + SIZE) / 2) - gammaln(NU / 2) - 0.5 * SIZE * np.log(NU * np.pi)
    heavy = heavy - 0.5 * (NU + SIZE) * jnp.log1p(squares / NU)
    log_p = jnp.where(jnp.array([False, True, False]), heavy, normal) - LOG_DETS
    return -jax.nn.logsumexp(log_p + np.log(MASSES))


def exact_draws(number):
    rng = np.random.default_rng(0)
    k = rng.choice(3, number, p=MASSES)
    z = rng.standard_normal((number, SIZE))
    z = np.where((k == 1)[:, None], z / np.sqrt(rng.chisquare(NU, number) / NU)[:, None], z)
    return MEANS[k] + np.einsum("nij,nj->ni", ROOTS[k], z)


def near(x, k, radius):
    return ((x - MEANS[k]) ** 2).sum(-1) < radius**2


QUANTITIES = {
    "mass of the first": lambda x: near(x, 0, 3.0),
    "mass of the narrow one": lambda x: near(x, 2, 1.2),
    "tail of the wide one": lambda x: near(x, 1, 15.0) & ~near(x, 1, 5.0),
    "first": lambda x: x[..., 0],
    "second": lambda x: x[..., 1],
    "third": lambda x: x[..., 2],
    "product": lambda x: np.clip(x[..., 0] * x[..., 1], -100, 100),
    "spread of the first": lambda x: near(x, 0, 3.0) * np.abs(x[..., 0]),
    "spread of the wide one": lambda x: near(x, 1, 4.5) * np.abs(x[..., 0] - 7),
}


def wrong_modes(tails=(0, 1, 3)):
    """Modes at other places, with other shapes, masses and tails than those of the density."""
    factors = np.linalg.cholesky(
        ROOTS @ ROOTS.swapaxes(1, 2) * np.array([1.0, 2.0, 0.7])[:, None, None]
    )
    modes = mode_shapes(MEANS + 0.1, factors, np.log([0.3, 0.3, 0.4]))
    return modes._replace(tail=np.array(tails, np.int32))


def some_flips():
    """Flips of single coordinates, that lead somewhere now and then."""
    corners = np.array([[0.0, 0, 0], [7, 0, 0], [0, -6, 0], [7, -6, 0]])
    sds = np.where(corners > 0, 1.5, np.where(corners < 0, 0.7, 1.0))
    flips = flips_of(corners, sds, np.zeros(4))
    return Flips(*(x.astype(np.float32) if x.dtype.kind == "f" else x for x in flips))


def draws_by_tries(only, chains, draws):
    """Draws of chains that do nothing but try one kind of move, and small steps of their own."""
    energy = jax.value_and_grad(potential)
    plan = first_plan(wrong_modes(), some_flips(), 2)
    log_share = np.where(np.isin(MOVES, only), -np.log(len(only)), -np.inf).astype(np.float32)
    plan = plan._replace(log_share=log_share)

    def draw(point, key):
        of_step, of_test, of_tries = random.split(key, 3)
        there = point.position + 0.4 * random.normal(of_step, (SIZE,))
        moved = Point(there, *energy(there))
        accepted = jnp.log(random.uniform(of_test)) < point.energy - moved.energy
        point = jax.tree.map(lambda a, b: jnp.where(accepted, a, b), moved, point)
        point, _, counts, _ = jumped(of_tries, plan, energy, point, jnp.int32(0))
        return point, (point.position, counts.made_by_move)

    @jax.jit
    def run(starts, keys):
        return lax.scan(jax.vmap(draw), Point(starts, *jax.vmap(energy)(starts)), keys)

    starts = jnp.asarray(exact_draws(chains), jnp.float32)
    _, (x, made) = run(starts, random.split(random.key(1), (draws, chains)))
    return np.asarray(x, np.float64), np.asarray(made).sum((0, 1))


@pytest.mark.parametrize(
    "only",
    [MOVES, *(in_second_tier((only,)) for only in ("affine", "independent", "block"))],
)
def test_a_million_tries_leave_the_density_as_it_is(only):
    chains = 500
    x, made = draws_by_tries(only, chains, 1000)  # from exact draws on: any drift is a bias
    assert all(count > 1000 for name, count in zip(MOVES, made) if name in only)
    exact = exact_draws(1_000_000)
    for name, quantity in QUANTITIES.items():
        by_chain = quantity(x).astype(float).mean(0)
        truth = quantity(exact).astype(float)
        error = np.hypot(by_chain.std(ddof=1) / chains**0.5, truth.std() / len(truth) ** 0.5)
        # Of 36 figures one is 3.9 standard errors off by chance once in 300 runs.
        assert abs(by_chain.mean() - truth.mean()) < 3.9 * error, name


def test_affine_maps_between_modes_of_one_shape_are_always_accepted():
    """A normal whose modes are known exactly."""
    means = np.array([[-4.0, 0.0], [4.0, 1.0]])
    factors = np.broadcast_to([[1.0, 0.0], [0.5, 1.0]], (2, 2, 2))
    inverse = np.linalg.inv(factors[0])

    def two(x):
        squares = jnp.sum(((x - means) @ inverse.T) ** 2, -1)
        return -jax.nn.logsumexp(-0.5 * squares)

    plan = first_plan(mode_shapes(means, factors, np.zeros(2)), no_flips_of(2), 50)
    plan = plan._replace(log_share=np.array([0.0, -np.inf, -np.inf], np.float32))
    energy = jax.value_and_grad(two)
    start = jnp.array([-4.5, 0.3])
    point, _, counts, lessons = jumped(
        random.key(0), plan, energy, Point(start, *energy(start)), jnp.int32(0)
    )
    assert counts.made.tolist() == [[0, 25], [25, 0]]
    np.testing.assert_allclose(point.position, start, atol=1e-4)  # there and back 25 times
    assert float(lessons.changes) == pytest.approx(50, abs=0.01)


def no_flips_of(size):
    blank = np.empty((0, 2, size), np.float32)
    return Flips(np.empty((0, size), bool), blank, blank)


def test_a_place_without_a_finite_energy_is_refused():
    def half(x):
        return jnp.where(x[0] > 0, jnp.inf, 0.5 * (x[0] + 3.0) ** 2)

    modes = mode_shapes(np.array([[-3.0], [3.0]]), np.ones((2, 1, 1)), np.zeros(2))
    energy = jax.value_and_grad(half)
    start = jnp.array([-3.2])
    point, _, counts, _ = jumped(
        random.key(0),
        first_plan(modes, no_flips_of(1), 20),
        energy,
        Point(start, *energy(start)),
        jnp.int32(0),
    )
    assert float(point.position[0]) < 0
    assert np.isfinite(point.energy)
    assert int(counts.made[0, 1]) == 0
