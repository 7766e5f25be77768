"""Jumps between known modes: they leave any law as it is, and carry chains over barriers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy import stats
from tiers import in_second_tier

from numpyro_contour import EnergyPartition, robbins_monro
from numpyro_contour.core.diffusions import langevin, leapfrog, underdamped
from numpyro_contour.core.samplers.contour import contour
from numpyro_contour.core.samplers.jumps import MINIBATCHES, jumps, no_counts
from numpyro_contour.core.samplers.known_modes import image, no_modes, place_of, taken
from numpyro_contour.core.samplers.plain import plain
from numpyro_contour.core.samplers.window import Jumps, Length, run_window
from numpyro_contour.schedules import Constant

# Close enough for images to miss their cells.
MEANS, SDS = np.array([-2.0, 0.0, 2.5]), np.array([0.5, 1.0, 0.3])
MASSES = np.array([0.2, 0.5, 0.3])
NEARLY = SDS * np.array([1.2, 0.9, 1.5])
GRID = np.linspace(-7.0, 7.0, 28_001)
SAMPLES = 200_000
PARTITION = EnergyPartition(0.0, 8.0, 16)
LOG_THETA = -0.6 * np.arange(16)
ONE = Constant(1.0)


def density(x):
    """A mixture of three normals."""
    z = (x[..., None] - MEANS) / SDS
    return (MASSES * np.exp(-0.5 * z**2) / (SDS * np.sqrt(2 * np.pi))).sum(-1)


def potential(x):
    """Its potential energy, of x (1,)."""
    z = (x[0] - MEANS) / SDS
    return -jax.nn.logsumexp(jnp.log(MASSES / SDS / np.sqrt(2 * np.pi)) - 0.5 * z**2)


def modes(means=MEANS, sds=NEARLY):
    """The modes as they are known, not quite right, with a free slot and uneven shares."""
    found = no_modes(len(means) + 1, 1, dense=True)
    n = len(means)
    return found._replace(
        known=found.known.at[:n].set(True),
        mean=found.mean.at[:n, 0].set(means),
        factor=found.factor.at[:n, 0, 0].set(sds),
        inverse=found.inverse.at[:n, 0, 0].set(1 / sds),
        log_volume=found.log_volume.at[:n].set(jnp.log(sds)),
        log_share=found.log_share.at[:n].set(jnp.log(jnp.arange(1.0, n + 1))),
    )


def samples(weights):
    """Independent positions of a density on the grid."""
    shares = np.cumsum(weights) / weights.sum()
    middle = (np.arange(SAMPLES) + 0.5) / SAMPLES
    return np.interp(middle, shares, GRID)


def chi_square(before, after):
    """Whether positions are still those of the law: the p-value of counts in 40 equal cells."""
    edges = np.quantile(before, np.arange(1, 40) / 40)
    counts = np.bincount(np.searchsorted(edges, after), minlength=40)
    return stats.chisquare(counts).pvalue


def sampler_of(name):
    parts = langevin("independent"), Constant(0.1), ONE
    if name == "plain":
        return plain(*parts), parts
    theta = np.exp(LOG_THETA)
    return contour(*parts, PARTITION, robbins_monro(), theta=theta / theta.sum()), parts


def flattened(sampler):
    """The density of a sampler's law on the grid."""
    exact = density(GRID)
    if sampler.flattening_at is None:
        return exact
    state = sampler.init(random.key(0), jnp.zeros(1), lambda key, x: (0.0, x))
    energies = -jnp.log(jnp.asarray(exact))
    log_flattening, _ = jax.vmap(lambda energy: sampler.flattening_at(state, energy))(energies)
    return exact * np.exp(-np.asarray(log_flattening, np.float64))


def way(uniforms, known, x):
    place = place_of(known, x)
    return taken(known, place, image(uniforms, known, place))


@pytest.mark.parametrize("name", [in_second_tier("plain"), "contour"])
def test_jumps_leave_the_law_as_it_is(name):
    sampler, parts = sampler_of(name)
    start = samples(flattened(sampler))
    energy = lambda key, x: jax.value_and_grad(potential)(x)
    jump = jumps(sampler, *parts, modes())

    @jax.jit
    @jax.vmap
    def moved(key, x):
        key, key_init = random.split(key)
        state = sampler.init(key_init, x, energy)
        counts = no_counts(4)
        for number in range(3):
            state, more = jump(random.split(random.fold_in(key, number)), state, energy)
            counts = jax.tree.map(jnp.add, counts, more)
        return state.chain.position[0], counts

    x, counts = moved(random.split(random.key(1), SAMPLES), jnp.asarray(start)[:, None])
    assert chi_square(start, np.asarray(x, np.float64)) > 1e-3
    # They do move, on all ways between the modes that are known.
    made = np.asarray(counts.made).sum(0)
    assert (made[:3, :3] + np.eye(3) * SAMPLES > SAMPLES / 200).all()
    assert made[3].sum() == made[:, 3].sum() == 0


def test_noise_of_both_energies_is_paid_for():
    # The mean of the minibatches has a noise of up to 1.6 nats, least in the tails: without the
    # penalty narrow modes gain 20 %. Steps have not told it, and their own energies are of no use
    # to a try.
    sampler, parts = sampler_of("plain")
    start = samples(density(GRID))

    def telling(key, x):
        value, gradient = jax.value_and_grad(potential)(x)
        sd = MINIBATCHES**0.5 * (1.0 + 0.6 * jnp.cos(3 * x[0]))
        return value + sd * random.normal(key), gradient, sd**2

    def energy(key, x):
        value, gradient, _ = telling(key, x)
        return value + 3.0, gradient

    jump = jumps(sampler, *parts, modes(), telling)

    @jax.jit
    @jax.vmap
    def moved(key, x):
        key_init, *keys = random.split(key, 3)
        state = sampler.init(key_init, x, energy)
        return jump(jnp.stack(keys), state, energy)[0].chain.position[0]

    x = moved(random.split(random.key(2), SAMPLES), jnp.asarray(start)[:, None])
    assert chi_square(start, np.asarray(x, np.float64)) > 1e-3


@pytest.mark.slow
def test_a_map_has_the_determinant_and_the_way_back_that_it_says():
    rng = np.random.default_rng(0)
    turns = rng.standard_normal((3, 2, 2)) + 1.5 * np.eye(2)
    known = no_modes(3, 2, dense=True)._replace(
        known=jnp.ones(3, bool),
        mean=jnp.asarray(rng.normal(0, 6, (3, 2))),
        factor=jnp.asarray(turns),
        inverse=jnp.linalg.inv(jnp.asarray(turns)),
        log_volume=jnp.linalg.slogdet(jnp.asarray(turns))[1],
        log_share=jnp.array([0.0, 1.0, -1.0]),
    )
    share = np.exp([0.0, 1.0, -1.0]) / np.exp([0.0, 1.0, -1.0]).sum()
    tried = np.zeros((3, 3))
    for number in range(60):
        uniforms = jnp.asarray(rng.random(3))
        x = known.mean[number % 3] + jnp.asarray(rng.standard_normal(2))
        to = way(uniforms, known, x)
        i, j = int(jnp.argmax(to.origin)), int(jnp.argmax(to.target))
        tried[i, j] += 1
        if not to.returns:
            continue
        back = uniforms.at[i].set(1 - 1e-7)
        home = way(back, known, to.position)
        np.testing.assert_allclose(home.position, x, atol=1e-4)
        np.testing.assert_allclose(home.log_factor, -to.log_factor, atol=1e-4)
        moved = lambda x, uniforms: way(uniforms, known, x).position
        volume = jnp.linalg.slogdet(jax.jacobian(moved)(x, uniforms))
        ways = np.log(share[i] / (1 - share[j])) - np.log(share[j] / (1 - share[i]))
        np.testing.assert_allclose(to.log_factor, volume[1] + ways, atol=1e-4)
    assert (tried + np.eye(3) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "diffusion",
    [langevin(), underdamped(0.9), leapfrog()],
    ids=["langevin", "momentum", "leapfrog"],
)
def test_a_chain_that_jumps_at_every_step_has_the_spread_of_each_mode(diffusion):
    # What the last step of a chain has left in its memory belongs to the place that it left.
    means, sds, masses = np.array([-30.0, 30.0]), np.array([1.0, 2.0]), np.array([0.3, 0.7])

    def potential(x):
        z = (x[0] - means) / sds
        return -jax.nn.logsumexp(jnp.log(masses / sds) - 0.5 * z**2)

    energy = lambda key, x: jax.value_and_grad(potential)(x)
    parts = diffusion, Constant(0.2), ONE
    sampler = plain(*parts)
    jump = jumps(sampler, *parts, modes(means, sds))

    @jax.jit
    @jax.vmap
    def chain(key):
        key, key_init = random.split(key)
        state = sampler.init(key_init, jnp.array([-30.0]), energy)

        def draw(state, key):
            made = Jumps(jump, lambda number: jnp.array(True), no_counts(3))
            length = Length(10, 1)
            state, window = run_window(key, state, energy, sampler, length, "last", jumps=made)
            return state, (window.draw.position[0], window.jumped.made.sum())

        return jax.lax.scan(draw, state, random.split(key, 400))[1]

    x, made = (np.asarray(found, np.float64) for found in chain(random.split(random.key(3), 128)))
    x = x[:, 20:]
    right = x > 0
    mass = right.mean(1)
    assert abs(mass.mean() - 0.7) < 4 * mass.std() / 128**0.5
    # One try in 3 / 7 is refused in the wide mode.
    assert 0.5 < made.mean() / 10 < 0.7
    for side, mean, sd in ((~right, -30.0, 1.0), (right, 30.0, 2.0)):
        squares = np.where(side, ((x - mean) / sd) ** 2, 0.0).sum(1) / side.sum(1)
        error = squares.std() / 128**0.5
        assert abs(squares.mean() - 1) < 4 * error + 0.005, (squares.mean(), error)


@pytest.mark.slow
def test_without_two_modes_and_at_temperature_zero_nothing_moves():
    sampler, parts = sampler_of("plain")
    energy = lambda key, x: jax.value_and_grad(potential)(x)
    state = sampler.init(random.key(0), jnp.zeros(1), energy)
    keys = random.split(random.key(1))
    one = modes(MEANS[:1], SDS[:1])
    after, counts = jumps(sampler, *parts, one)(keys, state, energy)
    assert after.chain.position == 0
    assert counts.made.sum() == 0
    cold = parts[0], parts[1], Constant(0.0)
    after, counts = jumps(sampler, *cold, modes())(keys, state, energy)
    assert after.chain.position == 0
    assert counts.made.sum() == 0
