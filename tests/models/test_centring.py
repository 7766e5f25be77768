"""Sites of hierarchies in partly non-centred coordinates: the same density, and which ones."""

import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from numpyro.contrib.control_flow import scan
from numpyro.infer import MCMC
from numpyro.infer.util import constrain_fn, potential_energy

from numpyro_contour import SGLD, ContourSGLD, EnergyPartition, diagnose, expectation
from numpyro_contour.core.arrays.decentred import Centring, Decentred
from numpyro_contour.core.arrays.vectors import coordinate_names, ravel, unravel_like
from numpyro_contour.models import centring
from numpyro_contour.models.centring import centring_of
from numpyro_contour.models.coordinates import centred, constrained, decentred, unconstrained_shapes
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.relabelling import relabelling_of
from numpyro_contour.runs.at_draws import unconstrained

FAMILIES = {
    "Normal": lambda mu, s: dist.Normal(mu, s),
    "LogNormal": lambda mu, s: dist.LogNormal(mu, s),
    "StudentT": lambda mu, s: dist.StudentT(4.0, mu, s),
    "Cauchy": lambda mu, s: dist.Cauchy(mu, s),
    "Laplace": lambda mu, s: dist.Laplace(mu, s),
    "Logistic": lambda mu, s: dist.Logistic(mu, s),
}
CENTRINGS = np.array([0.0, 0.3, 1.0])


def hierarchy(family, shape):
    def model():
        mu = numpyro.sample("mu", dist.Normal(0, 2))
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        if shape == "plate":
            with numpyro.plate("groups", 3):
                x = numpyro.sample("x", family(mu, scale))
        else:
            x = numpyro.sample("x", family(mu, scale).expand([3]).to_event(1))
        numpyro.sample("y", dist.Normal(x.sum(), 1.0), obs=jnp.array(1.0))

    return model


def walk():
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    x = numpyro.sample("x", dist.GaussianRandomWalk(scale, num_steps=3))
    numpyro.sample("y", dist.Normal(x, 1.0).to_event(1), obs=jnp.ones(3))


def check_density(model, c, atol=2e-4):
    """The potential energy in z is that in x less the log determinant of dx / dz."""
    potential = ModelPotential.of(model)
    like = unconstrained_shapes(potential)
    z = {name: random.normal(random.key(i), like[name].shape) for i, name in enumerate(like)}
    position = Decentred(z, Centring({"x": c}))
    to_x = lambda flat: ravel(centred(potential, unravel_like(flat, position)))
    log_det = np.linalg.slogdet(np.asarray(jax.jacobian(to_x)(ravel(position)), float))[1]
    x = centred(potential, position)
    expected = float(potential_energy(model, (), {}, x)) - log_det
    np.testing.assert_allclose(float(potential.full(position)), expected, atol=atol)
    # The determinant says something, and the way back leads there.
    assert np.all(c == 1) or abs(log_det) > 0.05
    back = decentred(potential, x, position.centring)
    assert isinstance(back, Decentred)
    np.testing.assert_allclose(ravel(back), ravel(position), atol=1e-4)
    found, written = constrained(potential, position), constrain_fn(model, (), {}, x)
    np.testing.assert_allclose(found["x"], written["x"], rtol=1e-4)
    again = unconstrained(potential, found, position)
    np.testing.assert_allclose(ravel(again), ravel(position), atol=1e-3)


@pytest.mark.parametrize("shape", ["plate", "event"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_density_is_that_of_the_model(family, shape):
    check_density(hierarchy(FAMILIES[family], shape), CENTRINGS)


@pytest.mark.parametrize("c", [0.0, 0.4])
def test_the_density_of_a_random_walk_is_that_of_the_model(c):
    check_density(walk, np.full(3, c))


def joint():
    mu = numpyro.sample("mu", dist.Normal(0, 2))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    factor = scale * jnp.array([[1.0, 0.0], [0.5, 2.0]])
    with numpyro.plate("groups", 3):
        x = numpyro.sample("x", dist.MultivariateNormal(mu * jnp.ones(2), scale_tril=factor))
    numpyro.sample("y", dist.Normal(x.sum(), 1.0), obs=jnp.array(1.0))


def test_the_density_of_vectors_is_that_of_the_model():
    check_density(joint, np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]))


def test_a_position_keeps_its_coordinates_wherever_it_goes():
    position = Decentred({"b": jnp.ones(2), "a": jnp.zeros(())}, Centring({"b": np.zeros(2)}))
    assert coordinate_names(position) == ["a", "b_decentered[0]", "b_decentered[1]"]
    for other in (
        jax.tree.map(lambda x: x + 1, position),
        jax.jit(lambda x: x)(position),
        unravel_like(ravel(position), position),
        pickle.loads(pickle.dumps(position)),
    ):
        assert other.centring == position.centring
        assert list(other) == ["a", "b"] or list(other) == ["b", "a"]
    other = Decentred(position, Centring({"b": np.array([0.0, 0.5])}))
    assert jax.tree.structure(other) != jax.tree.structure(position)
    with pytest.raises(ValueError, match="different type"):
        jax.tree.map(jnp.add, position, dict(position))


def components(y):
    scale = numpyro.sample("scale", dist.HalfNormal(5))
    means = numpyro.sample("means", dist.Normal(0, scale).expand([3]).to_event(1))
    each = dist.MixtureSameFamily(dist.Categorical(jnp.ones(3) / 3), dist.Normal(means, 1))
    numpyro.sample("y", each.expand([len(y)]).to_event(1), obs=y)


def test_labels_are_those_of_the_values():
    """Reordered are the means, whatever the centring of each."""
    potential = ModelPotential.of(components, (jnp.arange(6.0),))
    z = {"means": jnp.array([1.0, -2.0, 0.5]), "scale": jnp.array(0.7)}
    position = Decentred(z, Centring({"means": np.array([0.0, 0.5, 1.0])}))
    relabel = relabelling_of(potential, position)
    of = lambda flat: constrained(potential, unravel_like(flat, position))["means"]
    before, orders = of(ravel(position)), set()
    for key in random.split(random.key(0), 8):
        after = of(relabel(key, ravel(position)))
        np.testing.assert_allclose(np.sort(after), np.sort(before), rtol=1e-4)
        orders.add(tuple(np.asarray(after).round(3)))
    assert len(orders) > 2


# ---------------------------------------------------------------------- which coordinates

ERRORS = np.array([0.2, 1.0, 5.0, 20.0])
GROUPS = 200


def measured(y, errors, minibatch=None):
    """Effects of a spread of 3 +- 0.15, each measured once; some of them in a minibatch."""
    scale = numpyro.sample("scale", dist.LogNormal(np.log(3.0), 0.05))
    x = numpyro.sample("x", dist.Normal(3.0, scale).expand([len(y)]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=minibatch) as i:
        numpyro.sample("y", dist.Normal(x[i], errors[i]), obs=y[i])


@functools.cache
def measurements(errors=tuple(ERRORS)):
    rng = np.random.default_rng(0)
    errors = 3 * np.repeat(errors, GROUPS // len(errors))
    return jnp.asarray(3 + 3 * rng.normal(size=GROUPS) + errors * rng.normal(size=GROUPS)), errors


@pytest.mark.parametrize("minibatch", [None, 100])
def test_effects_are_centred_by_what_is_known_of_them(minibatch):
    """A normal and one observation of e times its spread: c is 1 / (1 + e^2)."""
    y, errors = measurements()
    potential = ModelPotential.of(measured, (y, jnp.asarray(errors), minibatch))
    centring = centring_of(potential)
    assert list(centring) == ["x"]
    found = centring["x"].reshape(len(ERRORS), -1)
    # A standard deviation that still moves makes its mean square too large, with minibatches more.
    np.testing.assert_allclose(found.mean(1), 1 / (1 + ERRORS**2), atol=0.06)


def without_data():
    v = numpyro.sample("v", dist.Normal(0, 3))
    numpyro.sample("x", dist.Normal(0, jnp.exp(v / 2)).expand([9]).to_event(1))


def test_sites_of_which_little_is_known_are_not_centred_at_all():
    assert centring_of(ModelPotential.of(without_data))["x"].max() == 0
    # By what is known c is 0.14, and a density without a bound is near.
    y, errors = measurements((2.5,))
    assert centring_of(ModelPotential.of(measured, (y, jnp.asarray(errors))))["x"].max() == 0


def test_a_spread_that_is_not_finite_changes_no_coordinates(monkeypatch):
    y, errors = measurements((2.5,))
    nowhere = lambda potential, like, start: (jnp.asarray(start), jnp.full(len(start), jnp.nan))
    monkeypatch.setattr(centring, "_normal", nowhere)
    assert centring._found(ModelPotential.of(measured, (y, jnp.asarray(errors)))) is None


def known_scale(y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    x = numpyro.sample("x", dist.Normal(mu, 2.0).expand([4]).to_event(1))
    numpyro.sample("y", dist.Normal(x, 1.0).to_event(1), obs=y)


def summed_out(y):
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    x = numpyro.sample("x", dist.Normal(0, scale).expand([4]).to_event(1))
    k = numpyro.sample("k", dist.Bernoulli(0.5), infer={"enumerate": "parallel"})
    numpyro.sample("y", dist.Normal(x.sum() + k, 1.0), obs=y.sum())


def in_a_scan(y):
    scale = numpyro.sample("scale", dist.HalfNormal(1))

    def step(last, seen):
        x = numpyro.sample("x", dist.Normal(last, scale))
        numpyro.sample("y", dist.Normal(x, 3.0), obs=seen)
        return x, None

    scan(step, 0.0, y)


def test_what_stays_as_it_is_written():
    y = jnp.arange(4.0)
    assert centring_of(ModelPotential.of(in_a_scan, (y,))) is None
    assert centring_of(ModelPotential.of(known_scale, (y,))) is None
    assert centring_of(ModelPotential.of(summed_out, (y,))) is None
    precise, errors = measurements((0.05,))
    assert centring_of(ModelPotential.of(measured, (precise, jnp.asarray(errors)))) is None
    of_traced = []
    jax.eval_shape(
        lambda *data: of_traced.append(centring_of(ModelPotential.of(measured, data))),
        *measurements(),
    )
    assert of_traced == [None]


# ---------------------------------------------------------------------- kernels


def schools(y, errors):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", len(y)):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, errors), obs=y)
    numpyro.deterministic("largest", theta.max())


SCHOOLS = (
    jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12]),
    jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18]),
)
FROM = {"mu": jnp.array(2.0), "tau": jnp.array(-3.0), "theta": jnp.arange(8.0)}


def test_a_run_starts_where_it_is_told_and_gives_sites_as_they_are_written():
    kernel = SGLD(schools, num_steps=2, jumps=False)
    mcmc = MCMC(kernel, num_warmup=20, num_samples=5, progress_bar=False)
    state = kernel.first_state(random.key(0), 100, FROM, SCHOOLS)
    assert isinstance(state.z, Decentred)
    values = kernel.postprocess_fn(SCHOOLS, {})(state.z)
    np.testing.assert_allclose(values["theta"], FROM["theta"], atol=1e-4)
    mcmc.run(random.key(0), *SCHOOLS, init_params=FROM)
    draws, last = mcmc.get_samples(), mcmc.last_state.z
    assert set(draws) == {"mu", "tau", "theta", "largest"}
    np.testing.assert_allclose(draws["largest"], draws["theta"].max(1), rtol=1e-5)
    assert not np.allclose(last["theta"], draws["theta"][-1], atol=1e-2)
    # A last position, which knows its coordinates, is a start in the same place.
    again = kernel.first_state(random.key(1), 100, last, SCHOOLS)
    np.testing.assert_allclose(ravel(again.z), ravel(last), atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [
        {"step_size": 0.1},
        {"preconditioner": jax.tree.map(jnp.ones_like, FROM)},
        {"temperature": 2.0},
        {"energy": jax.value_and_grad(lambda key, z: jnp.sum(z["theta"] ** 2), 1)},
        {"partition": EnergyPartition(0.0, 100.0, 10)},
    ],
    ids=lambda arguments: next(iter(arguments)),
)
def test_what_a_user_gives_holds_in_the_coordinates_of_the_model(arguments):
    kernel = ContourSGLD if "partition" in arguments else SGLD
    state = kernel(schools, num_steps=2, **arguments).first_state(
        random.key(0), 1000, FROM, SCHOOLS
    )
    assert type(state.z) is dict


def test_a_kernel_on_a_wrapped_model_keeps_its_coordinates():
    kernel = SGLD(schools).wrap_model(lambda model: numpyro.handlers.scale(model, scale=1.0))
    assert type(kernel.first_state(random.key(0), 1000, FROM, SCHOOLS).z) is dict


def exact_schools():
    """Means and standard deviations of log tau and of the effects, from a grid of tau."""
    y, errors = (np.asarray(x, float) for x in SCHOOLS)
    tau = np.exp(np.linspace(-12, 7, 4001))[:, None]
    variance = tau**2 + errors**2
    precision = 1 / 25 + (1 / variance).sum(1)
    mu, spread = (y / variance).sum(1) / precision, 1 / precision
    log_p = -0.5 * (np.log(variance) + y**2 / variance).sum(1) - 0.5 * np.log(precision)
    log_p += 0.5 * mu**2 * precision + np.log(tau[:, 0]) - np.log1p((tau[:, 0] / 5) ** 2)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    share = tau**2 / variance
    theta = share * y + (1 - share) * mu[:, None]
    within = share * errors**2 + (1 - share) ** 2 * spread[:, None]
    mean = p @ theta
    log_tau = p @ np.log(tau[:, 0])
    return {
        "theta": (mean, np.sqrt(p @ (within + theta**2) - mean**2)),
        "log_tau": (log_tau, np.sqrt(p @ (np.log(tau[:, 0]) - log_tau) ** 2)),
    }


@pytest.mark.slow
def test_schools_as_they_are_written():
    """In the model's own coordinates the mean of log tau is .2 to .6 sds too high."""
    mcmc = MCMC(
        ContourSGLD(schools),
        num_warmup=500,
        num_samples=1000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(random.key(0), *SCHOOLS)
    of_schools = {"theta": "theta", "log_tau": lambda draws: np.log(draws["tau"])}
    for name, (mean, sd) in exact_schools().items():
        found = expectation(mcmc, of_schools[name])
        off = np.abs(np.asarray(found.mean) - mean) / sd
        assert np.all(off < 0.05 + 4 * np.asarray(found.mcse) / sd), (name, off)
    assert not diagnose(mcmc).faults
