"""Random fields by name, a huge zeta, a known theta; blackjax's contour SGLD on the same noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from tiers import in_second_tier

from numpyro_contour import ContourSGLD, EnergyPartition, robbins_monro
from numpyro_contour.core.diffusions import langevin, nose_hoover, rmsprop, underdamped
from numpyro_contour.core.flattening.psi import Flattening, LogPsi, log_psi
from numpyro_contour.core.flattening.theta import initial_theta
from numpyro_contour.core.flattening.theta_updates import RANDOM_FIELDS, learn, log_field
from numpyro_contour.core.samplers.contour import contour
from numpyro_contour.core.samplers.plain import plain
from numpyro_contour.core.samplers.window import run_window
from numpyro_contour.examples import mixture
from numpyro_contour.schedules import Constant

PARTITION = EnergyPartition(0.0, 8.0, 8)


def probabilities(theta):
    return np.exp(np.asarray(theta.log_theta - theta.decay, np.float64))


def of_numpy(values):
    return initial_theta(len(values), values)


def shared_field(name, theta, energy_bin, zeta):
    """The log field where Psi is as good as piecewise constant: the field needs no energy."""
    psi = LogPsi(theta.log_theta[energy_bin], jnp.ones(()), jnp.zeros((), bool))
    return log_field(name, theta, psi, energy_bin, Flattening(zeta))


def visit(name, theta, energy_bin, omega, zeta, rho=1.0):
    field = shared_field(name, theta, energy_bin, zeta)
    return learn(name, theta, energy_bin, jnp.log(omega), field, rho)


# --------------------------------------------------------------------------- one update


def one_by_one(name, theta, j, omega, zeta, rho):
    """The papers' equations as they are written, bins from 0."""
    new = np.empty_like(theta)
    for i in range(len(theta)):
        gain = {
            "csgld": omega * theta[j] ** zeta,
            "scalable": omega * theta[j],
            "penalized": omega * (theta[j] ** zeta + omega * (i >= j) * rho),
        }[name]
        new[i] = theta[i] + min(gain, 0.999) * ((i == j) - theta[i])
    return new / new.sum() if name == "penalized" else new


@pytest.mark.parametrize("name", ["csgld", "scalable", "penalized"])
@pytest.mark.parametrize(("zeta", "rho"), [(0.75, 1.0), (1.0, 0.0), (3.0, 2.5), (0.5, 9.0)])
def test_an_update_is_the_papers_equation(name, zeta, rho):
    theta = np.random.default_rng(0).dirichlet(np.ones(6))
    for omega in (0.4, 1e-3):
        expected, learnt = theta, of_numpy(theta)
        for j in (0, 3, 5, 3, 2):
            expected = one_by_one(name, expected, j, omega, zeta, rho)
            learnt = visit(name, learnt, jnp.array(j), omega, zeta, rho)
            np.testing.assert_allclose(probabilities(learnt), expected, rtol=1e-4)
    np.testing.assert_array_equal(learnt.bin_counts, [1, 0, 1, 2, 0, 1])


def test_small_penalized_updates_add_up_in_float32():
    """As those of `update_theta`: for a rare bin they are below the rounding error of log theta."""
    steps = 100_000
    generator = np.random.default_rng(1)
    expected = np.array([0.4, 0.3, 0.2, 0.1, np.exp(-30)])
    bins = generator.choice(4, size=steps)
    log_omega = generator.uniform(-16, -12, size=steps).astype(np.float32)

    @jax.jit
    def run(theta, bins, log_omega):
        def body(theta, visit):
            return learn("penalized", theta, *visit, jnp.zeros(()), 0.0), None

        return jax.lax.scan(body, theta, (bins, log_omega))[0]

    learnt = probabilities(run(of_numpy(expected), jnp.asarray(bins), jnp.asarray(log_omega)))
    for j, omega in zip(bins.tolist(), np.exp(log_omega.astype(float))):
        expected *= 1 - omega
        expected[j] += omega
    np.testing.assert_allclose(np.log(learnt), np.log(expected), atol=0.005)
    assert np.log(expected[4]) < -30.1  # there was something to lose


# --------------------------------------------------------------------------- fixed points


@pytest.mark.parametrize(
    ("name", "power"), [("csgld", 1.0), ("scalable", 1 / 0.75), ("penalized", 1.0)]
)
def test_the_mean_field_has_the_fixed_point_it_should(name, power):
    r"""The mean over visits of bins with the masses :math:`m_i / \theta_i^\zeta`, normalised.

    For theta(J) alone it vanishes where :math:`m_i \theta_i^{1 - \zeta} \propto \theta_i`.
    """
    zeta, omega = 0.75, 0.5
    mass = np.array([0.5, 0.25, 0.15, 0.07, 0.03])
    bins = jnp.arange(5)

    def body(theta, _):
        after = jax.vmap(lambda j: visit(name, theta, j, omega, zeta, 0.0))(bins)
        chances = jax.nn.softmax(jnp.log(mass) - zeta * theta.log_theta)
        mean = chances @ jnp.exp(after.log_theta - after.decay[:, None])
        return theta._replace(log_theta=jnp.log(mean)), None

    theta = jax.jit(lambda: jax.lax.scan(body, initial_theta(5), None, 1000)[0])()
    expected = mass**power / (mass**power).sum()
    np.testing.assert_allclose(probabilities(theta), expected, rtol=1e-3)
    # It can fail: the other power is far away.
    assert np.abs(mass - mass ** (1 / zeta) / (mass ** (1 / zeta)).sum()).max() > 0.05


def test_a_penalty_takes_from_the_bins_above():
    """With the paper's decreasing gains it is gone in the end, and much of it in the beginning."""
    theta = of_numpy(np.full(5, 0.2))
    plain, penalized = (visit("penalized", theta, jnp.array(1), 0.3, 1e6, rho) for rho in (0, 1))
    np.testing.assert_allclose(probabilities(plain), 0.2, rtol=1e-6)
    after = probabilities(penalized)
    assert after[1] > 0.2
    np.testing.assert_allclose(after[2:] / after[0], 1 - 0.09, rtol=1e-5)


# --------------------------------------------------------------------------- a huge zeta


@pytest.mark.parametrize("name", RANDOM_FIELDS)
def test_gains_that_underflow_leave_theta_as_it_is(name):
    theta = of_numpy(np.array([0.5, 0.3, 0.2]))
    with jax.debug_nans(True):
        for log_omega, log_shared in ((-jnp.inf, 0.0), (-jnp.inf, -4e7), (-30.0, -4e7)):
            learnt = learn(name, theta, jnp.array(2), jnp.array(log_omega), jnp.array(log_shared))
            np.testing.assert_allclose(probabilities(learnt), probabilities(theta), rtol=1e-6)
        for log_shared in (0.0, 50.0):  # nor does a gain above 1 leave the others nothing
            learnt = learn(name, theta, jnp.array(2), jnp.array(0.0), jnp.array(log_shared))
            np.testing.assert_allclose(probabilities(learnt), [5e-4, 3e-4, 0.9992], rtol=1e-3)


@pytest.mark.parametrize("bound", [-1.0, None])
@pytest.mark.parametrize("interpolation", ["forward", "backward"])
def test_a_huge_zeta_keeps_the_multiplier_in_its_bound(bound, interpolation):
    log_theta = jnp.asarray(np.random.default_rng(2).uniform(-40, 0, 8), jnp.float32)
    flattening = Flattening(1e6, interpolation, multiplier_bound=bound)
    psi = jax.vmap(lambda u: log_psi(log_theta, u, PARTITION, 1.0, flattening))(
        jnp.linspace(-1.0, 9.0, 200)
    )
    multiplier = np.asarray(psi.gradient_multiplier)
    assert np.isfinite(multiplier).all()
    assert multiplier.max() <= 1
    assert multiplier.min() == -1.0 if bound else multiplier.min() < -1e6


def windows(sampler, potential_and_grad, start, draws, num_steps, seed=0):
    """Positions and log weights of the draws (chains, draws), and the last state."""

    @jax.jit
    @jax.vmap
    def chain(key, start):
        state = sampler.init(key, start, potential_and_grad)

        def body(state, key):
            state, window = run_window(
                key, state, potential_and_grad, sampler, num_steps, "reservoir"
            )
            return state, (window.draw.position, window.log_weight, state.gradient_multiplier)

        return jax.lax.scan(body, state, random.split(key, draws))

    state, found = chain(random.split(random.key(seed), len(start)), start)
    return *(np.asarray(x, np.float64) for x in found), state


def of_mixture(key, x):
    return jax.value_and_grad(mixture.potential)(x)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "bound"),
    [
        ("consistent", -1.0),
        ("penalized", -1.0),
        ("scalable", None),
        *(in_second_tier(name, -1.0) for name in ("csgld", "scalable")),
    ],
)
def test_nothing_is_nan_with_a_huge_zeta(name, bound):
    flattening = Flattening(1e6, multiplier_bound=bound)
    partition = EnergyPartition(0.0, 30.0, 30)
    arguments = langevin(), Constant(0.1), Constant(1.0), partition, robbins_monro()
    sampler = contour(*arguments, flattening, name)
    x, log_weight, multiplier, state = windows(
        sampler, of_mixture, jnp.array([-6.0, 0.0, 30.0]), draws=100, num_steps=20
    )
    for values in (x, log_weight, multiplier, *jax.tree.leaves((state.theta, state.chain))):
        assert np.isfinite(np.asarray(values, np.float64)).all()
    assert log_weight.min() < -1e6
    # A draw was picked in each window.
    assert (np.diff(x, axis=1) != 0).mean() > 0.9
    np.testing.assert_array_equal(np.asarray(state.chain.guard.refused), 0)
    if bound is None:
        assert np.abs(multiplier).max() > 1e3
    else:
        assert multiplier.min() >= bound
        assert multiplier.max() <= 1


# --------------------------------------------------------------------------- a known theta
@pytest.mark.slow
@pytest.mark.optimized
def test_with_a_known_theta_the_mode_masses_are_right_and_it_is_kept():
    partition = EnergyPartition(1.5, 21.5, 40)  # no bin is empty
    theta = mixture.exact_theta(partition)
    arguments = langevin(), Constant(0.1), Constant(1.0), partition, robbins_monro()
    sampler = contour(*arguments, theta=theta)
    chains, draws, num_steps = 64, 1000, 60
    x, log_weight, _, state = windows(sampler, of_mixture, jnp.full(chains, -6.0), draws, num_steps)
    x, log_weight = x[:, 200:], log_weight[:, 200:]  # the rest is warm-up
    weight = np.exp(log_weight - log_weight.max())
    right = weight * (x > mixture.DIVIDE)
    mass = right.sum() / weight.sum()
    # The delta method over the chains: theta is common to them, so their weights are comparable.
    residual = (right - mass * weight).sum(1) / weight.sum(1).mean()
    error = residual.std(ddof=1) / chains**0.5
    assert error < 0.01
    assert abs(mass - mixture.MASS) < 4 * error
    expected = np.broadcast_to(np.log(theta), (chains, 40))
    np.testing.assert_allclose(state.theta.log_theta, expected, rtol=1e-6)
    np.testing.assert_array_equal(state.theta.decay, 0)
    np.testing.assert_array_equal(state.theta.bin_counts.sum(1), draws * num_steps)


def test_a_known_theta_may_lie_below_the_floor():
    theta = np.array([1.0, 1e-3, 1e-60])
    partition = EnergyPartition(0.0, 3.0, 3)
    arguments = langevin(), Constant(0.1), Constant(1.0), partition, robbins_monro()
    sampler = contour(*arguments, theta=theta)
    _, _, _, state = windows(sampler, of_mixture, jnp.array([-6.0]), 5, 5)
    np.testing.assert_allclose(state.theta.log_theta[0], np.log(theta / theta.sum()), rtol=1e-6)


@pytest.mark.slow
def test_the_kernel_hands_its_new_arguments_on():
    def last_theta(**arguments):
        kernel = ContourSGLD(
            potential_fn=mixture.potential, step_size=0.1, partition=PARTITION, **arguments
        )
        state = kernel.init(random.key(0), 0, jnp.array(4.0))
        state = jax.jit(lambda s: kernel.sample(s, (), None))(state)
        return kernel.settings, np.exp(np.asarray(state.log_theta))

    given = 2.0 ** -np.arange(8)
    settings, theta = last_theta(theta=given)
    assert settings["theta"] == "given"
    np.testing.assert_allclose(theta, given / given.sum(), rtol=1e-6)
    one, two = (last_theta(random_field="penalized", rho=rho) for rho in (0.0, 2.0))
    assert (one[0]["theta"], one[0]["rho"], two[0]["rho"]) == ("learnt", 0.0, 2.0)
    assert np.abs(one[1] - two[1]).max() > 1e-3


# --------------------------------------------------------------------------- limits


@pytest.mark.slow
def test_a_temperature_that_falls_to_nothing_leaves_plain_descent():
    def temperature(count):
        return jnp.maximum(1.0 - count / 100, 0.0)

    sampler = contour(langevin(), Constant(0.1), temperature, PARTITION, robbins_monro())
    x, log_weight, multiplier, state = windows(
        sampler, of_mixture, jnp.array([-6.0, 3.0]), draws=40, num_steps=10
    )
    for values in (x, log_weight, multiplier, *jax.tree.leaves((state.theta, state.chain))):
        assert np.isfinite(np.asarray(values, np.float64)).all()
    assert (multiplier[:, :8] != 1).any()
    np.testing.assert_array_equal(multiplier[:, 11:], 1.0)
    np.testing.assert_allclose(state.chain.position, [-6.0, 4.0], atol=1e-3)
    ContourSGLD(potential_fn=mixture.potential, step_size=0.1, temperature=temperature)
    psi = lambda u: log_psi(jnp.log(jnp.full(8, 1 / 8)), u, PARTITION, jnp.array(0.0), Flattening())
    with jax.debug_nans(True), jax.disable_jit():
        assert float(psi(jnp.array(3.3)).gradient_multiplier) == 1.0


#: A later diffusion is one row.
DIFFUSIONS = {
    "langevin": langevin(),
    "langevin, independent": langevin("independent"),
    "langevin, preconditioned": langevin(preconditioner=jnp.array([0.5, 1.0, 2.0])),
    "underdamped": underdamped(),
    "underdamped, independent": underdamped(noise="independent"),
    "nose_hoover": nose_hoover(),
    "nose_hoover, independent": nose_hoover(noise="independent"),
    "rmsprop": rmsprop(lambda m, c: langevin("averaged", m, curvature=c), curvature=True),
    "rmsprop, underdamped": rmsprop(lambda m, c: underdamped(preconditioner=m, curvature=c)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DIFFUSIONS)
def test_without_zeta_a_diffusion_is_the_plain_one_to_the_last_bit(name):
    diffusion, eps, tau = DIFFUSIONS[name], Constant(0.1), Constant(1.0)
    start = random.normal(random.key(9), (3, 3))

    def positions(sampler):
        potential_and_grad = lambda key, x: (0.5 * jnp.sum(x**2), x)

        @jax.jit
        @jax.vmap
        def chain(start):
            state = sampler.init(random.key(0), start, potential_and_grad)

            def body(state, keys):
                state = sampler.step(keys, state, potential_and_grad)
                return state, state.chain.position

            return jax.lax.scan(body, state, random.split(random.key(1), (500, 2)))[1]

        return np.asarray(chain(start))

    unflattened = positions(plain(diffusion, eps, tau))
    arguments = diffusion, eps, tau, PARTITION, robbins_monro()
    np.testing.assert_array_equal(positions(contour(*arguments, Flattening(0.0))), unflattened)
    assert (positions(contour(*arguments, Flattening(0.1))) != plain).mean() > 0.9


# --------------------------------------------------------------------------- blackjax


def double_well(x):
    """Two wells along the first coordinate, with a barrier of 1.5 nats between them."""
    return 1.5 * (x[0] ** 2 - 1) ** 2 + 0.5 * x[1] ** 2 + 0.3 * x[0]


@pytest.mark.parametrize("zeta", [1.0, 0.75])
def test_the_scalable_field_follows_blackjax_step_by_step(zeta):
    """On full data, with the same normals: blackjax's gain holds theta(J) without zeta."""
    csgld = pytest.importorskip("blackjax.sgmcmc.csgld")
    steps, bins, gap, lowest, step_size = 1000, 30, 0.5, -0.5, 0.01
    x0 = jnp.array([-1.0, 0.5])
    gain = robbins_monro(10, 0.8, 100, maximum=0.03)
    keys = random.split(random.key(3), (steps, 2))

    partition = EnergyPartition(lowest - gap, lowest + (bins - 1) * gap, bins)
    sampler = contour(
        langevin("independent"),
        Constant(step_size),
        Constant(1.0),
        partition,
        gain,
        Flattening(zeta, "backward", one_sided=False, multiplier_bound=None),
        "scalable",
    )
    theirs = csgld.init(x0, bins)
    kernel = csgld.build_kernel(bins, gap, lowest)
    potential_and_grad = lambda key, x: jax.value_and_grad(double_well)(x)

    @jax.jit
    def ours_and_theirs():
        state = sampler.init(random.key(0), x0, potential_and_grad)
        theta = initial_theta(bins)._replace(log_theta=jnp.log(theirs.energy_pdf))
        state = state._replace(theta=theta)
        other = theirs._replace(energy_idx=state.energy_bin)

        def body(carry, inputs):
            state, other = carry
            keys, count = inputs
            state = sampler.step(keys, state, potential_and_grad)
            other = kernel(
                keys[0],
                other,
                lambda x, batch: -double_well(x),
                lambda x, batch: -jax.grad(double_well)(x),
                (),
                step_size,
                gain(count),
                zeta,
                1.0,
            )
            log_theta = state.theta.log_theta - state.theta.decay
            one = (state.chain.position, log_theta, state.energy_bin)
            return (state, other), (one, (other.position, jnp.log(other.energy_pdf), *other[2:]))

        return jax.lax.scan(body, (state, other), (keys, jnp.arange(1, steps + 1)))

    (state, _), (one, two) = ours_and_theirs()
    assert int(state.chain.guard.clipped) == 0
    np.testing.assert_allclose(one[0], two[0], atol=1e-5)
    np.testing.assert_allclose(one[1], two[1], atol=1e-4)
    np.testing.assert_array_equal(one[2], two[2])
    # They went somewhere, and theta with them.
    assert np.asarray(one[0])[:, 0].max() > 0.8
    assert np.asarray(one[0])[:, 0].min() < -0.8
    assert np.abs(one[1][-1] - one[1][0]).max() > 1.0
