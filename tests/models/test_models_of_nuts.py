"""Models that NumPyro's tests of its kernels run; the references are the same models, or chains."""

import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import lax, random
from numpyro.distributions.transforms import AffineTransform
from numpyro.infer import init_to_value
from numpyro.infer.reparam import TransformReparam

from numpyro_contour import SGLD, ContourSGLD, to_inference_data


def draws(model, *args, step_size=0.01, num_steps=5, samples=20, **arguments):
    """The draws of a short run that warms nothing up."""
    kernel = SGLD(model, step_size=step_size, num_steps=num_steps)
    return models.run(kernel, 0, *args, warmup=0, samples=samples, **arguments).get_samples()


# --------------------------------------------------------------------------- nothing to sample


def observed():
    numpyro.deterministic("twice", 2.0 * numpyro.sample("y", dist.Normal(0, 1), obs=jnp.ones(3)))


def one_share(shape=(4,)):
    x = numpyro.sample("x", dist.Dirichlet(jnp.ones(1)).expand(shape))
    numpyro.sample("y", dist.Normal(x, 1), obs=2.0)


def summed_out():
    numpyro.sample("k", dist.Bernoulli(0.3), infer={"enumerate": "parallel"})


#: a model, and the draws that it has
NOTHING = {
    "empty": (lambda: None, {}),
    "observed": (observed, {"twice": 2.0 * np.ones((10, 3))}),
    "one share": (one_share, {"x": np.ones((10, 4, 1))}),
    "summed out": (summed_out, {}),
    "zero rows": (
        lambda: numpyro.sample("x", dist.Normal(0, 1).expand([0])),
        {"x": np.ones((10, 0))},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTHING)
def test_a_model_with_nothing_to_sample_runs_and_says_so(name):
    model, expected = NOTHING[name]
    with pytest.warns(UserWarning, match="`model` has no continuous latent variable"):
        found = draws(model, samples=10)
    assert found.keys() == expected.keys()
    for site, values in expected.items():
        np.testing.assert_allclose(found[site], values)


@pytest.mark.slow
def test_its_warm_up_and_its_chains_run_too():
    """With all that is found, and a weight; afterwards there is nothing to look at."""
    kernel = ContourSGLD(one_share, num_steps=2)
    how = {"chains": 2, "chain_method": "vectorized", "init_params": {"x": jnp.zeros((2, 4, 0))}}
    with pytest.warns(UserWarning, match="There is nothing to sample"):
        mcmc = models.run(kernel, 0, samples=3, warmup=100, **how)
    assert mcmc.get_samples().keys() == {"x", "log_weight"}
    with pytest.raises(ValueError, match="`mcmc` takes a run with something to look at"):
        to_inference_data(mcmc)


# --------------------------------------------------------------------------- discrete sites


def test_discrete_sites_are_summed_out_without_a_mark_as_nuts_does():
    def model(mark):
        k = numpyro.sample("k", dist.Bernoulli(0.3), infer=mark)
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + k, 1), obs=0.4)

    with pytest.warns(FutureWarning, match="enumerated sites"):
        found = draws(model, {})
    expected = draws(model, {"enumerate": "parallel"})
    assert found.keys() == {"mu"}
    np.testing.assert_array_equal(found["mu"], expected["mu"])


# --------------------------------------------------------------------------- forward mode only


def cubed(x, by_loop):
    """x**3, by a loop that JAX cannot differentiate in reverse: it may turn any number of times."""
    if not by_loop:
        return x * x * x
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, 1.0))[1]


def looped(y, by_loop, minibatch):
    x = numpyro.sample("x", dist.Normal(0, 1))
    w = numpyro.sample("w", dist.Normal(0, 1).expand([2]))
    with numpyro.plate("rows", len(y), subsample_size=minibatch) as idx:
        mean = jax.vmap(lambda y: cubed(x + 0.1 * y, by_loop))(y[idx])
        numpyro.sample("y", dist.Normal(mean + w.sum(), 1), obs=y[idx])


@pytest.mark.slow
@pytest.mark.parametrize(("energy", "minibatch"), [("full", None), ("full", 4), ("minibatch", 4)])
def test_a_model_without_a_reverse_mode_is_differentiated_forward(energy, minibatch):
    y = models.normal_data(rows=20)
    kernel = SGLD(
        looped, step_size=0.003, num_steps=5, energy=None if minibatch is None else energy
    )
    found, expected = (
        models.run(kernel, 0, y, by_loop, minibatch, warmup=0, samples=20)
        for by_loop in (True, False)
    )
    for site in ("x", "w"):
        np.testing.assert_allclose(
            found.get_samples()[site], expected.get_samples()[site], rtol=1e-3, atol=1e-4
        )


@pytest.mark.slow
def test_control_variates_are_not_taken_of_it_and_its_run_can_be_looked_at():
    y = models.normal_data(rows=20)
    kernel = SGLD(looped)
    assert kernel.energy_estimator((y, True, 4)) == "minibatch"
    assert kernel.energy_estimator((y, False, 4)) == "control_variate"
    short = SGLD(looped, step_size=0.003, num_steps=5)
    one, other = (models.run(short, 0, y, by_loop, None) for by_loop in (True, False))
    one, other = (to_inference_data(mcmc)["gradient"] for mcmc in (one, other))
    assert set(one.data_vars) == set(other.data_vars) != set()
    for name in one.data_vars:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-3, atol=1e-3)


# --------------------------------------------------------------------------- other models


@pytest.mark.slow
def test_sample_shapes_with_and_without_rows():
    def schools():
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        theta = numpyro.sample("theta", dist.Normal(mu, 1), sample_shape=(8,))
        numpyro.sample("scores", dist.Normal(theta, 1), sample_shape=(0,))
        numpyro.sample("y", dist.Normal(theta, 1), obs=jnp.arange(8.0))

    found = draws(schools, chains=2, chain_method="vectorized")
    assert found["theta"].shape == (40, 8)
    assert found["scores"].shape == (40, 0, 8)


@pytest.mark.slow
def test_parameters_under_a_prior():
    """Of log y ~ Normal(log c, 1), with c known by a Gamma prior of mean 1."""

    def model(y):
        c = numpyro.param("c", jnp.array(1.0), constraint=dist.constraints.positive)
        numpyro.sample("y", dist.Normal(jnp.log(c), 1), obs=y)

    def same(y):
        c = numpyro.sample("c", dist.Gamma(2.0, 2.0))
        numpyro.sample("y", dist.Normal(jnp.log(c), 1), obs=y)

    y, start = models.normal_data(rows=30), {"c": jnp.array(0.2)}
    lifted = numpyro.handlers.lift(model, prior={"c": dist.Gamma(2.0, 2.0)})
    found, expected = (draws(m, y, init_params=start) for m in (lifted, same))
    np.testing.assert_allclose(found["c"], expected["c"], rtol=1e-5)


@pytest.mark.slow
def test_reparametrised_sites_without_a_density():
    """The share of a uniform prior that is masked: its posterior is that of a flat prior."""

    def model(data):
        alpha = numpyro.sample("alpha", dist.Uniform(0, 1))
        with numpyro.handlers.reparam(config={"loc": TransformReparam()}):
            share = dist.TransformedDistribution(
                dist.Uniform(0, 1).mask(False), AffineTransform(0, alpha)
            )
            loc = numpyro.sample("loc", share)
        numpyro.sample("obs", dist.Normal(loc, 0.1), obs=data)

    def same(data):
        alpha = numpyro.sample("alpha", dist.Uniform(0, 1))
        base = numpyro.sample(
            "loc_base", dist.ImproperUniform(dist.constraints.unit_interval, (), ())
        )
        loc = numpyro.deterministic("loc", base * alpha)
        numpyro.sample("obs", dist.Normal(loc, 0.1), obs=data)

    data = 0.5 + 0.1 * models.normal_data(rows=20)
    start = {"alpha": jnp.array(1.0), "loc_base": jnp.array(0.5)}
    found, expected = (draws(m, data, step_size=0.001, init_params=start) for m in (model, same))
    assert found.keys() == {"alpha", "loc", "loc_base"}
    np.testing.assert_allclose(found["loc"], expected["loc"], rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("jit_model_args", [False, True])
def test_a_model_may_have_other_sites_in_another_run(jit_model_args):
    def model(a=None, b=None, z=None):
        mean = numpyro.sample("a", dist.Normal(0.0, 0.2))
        for name, values in (("x", a), ("y", b)):
            if values is not None:
                mean = mean + values * numpyro.sample(name, dist.HalfNormal(0.5))
        numpyro.sample("obs", dist.Normal(mean, 1), obs=z)

    z = np.asarray(models.normal_data(rows=10))
    kernel = SGLD(model, step_size=0.01)
    arguments = {"model_kwargs": {"b": None, "z": z}, "jit_model_args": jit_model_args}
    mcmc = models.run(kernel, 1, z**2, samples=5, **arguments)
    assert mcmc.get_samples().keys() == {"a", "x"}
    mcmc.run(random.key(2), a=None, b=z**2, z=z)
    assert mcmc.get_samples().keys() == {"a", "y"}
    mcmc.run(random.key(3), a=z**2, b=z**2, z=z)
    assert mcmc.get_samples().keys() == {"a", "x", "y"}


def test_a_rare_event_among_millions():
    """3,849 of 5,000,000: float32 must not lose the odds. The posterior of p is a Beta."""

    def model(n, x):
        p = numpyro.sample("p", dist.Beta(1.0, 1.0))
        numpyro.sample("x", dist.Binomial(n, p), obs=x)

    n, x, samples = 5_000_000, 3849, 1600
    kernel = SGLD(
        model, step_size=1e-4, num_steps=10, init_strategy=init_to_value(values={"p": 8e-4})
    )
    found = np.asarray(models.run(kernel, 0, n, x, warmup=50, samples=samples).get_samples()["p"])
    exact = dist.Beta(x + 1.0, n - x + 1.0)
    # The logit has variance 1 / x: ten steps of 0.38 of it leave draws all but independent.
    sd = float(exact.variance) ** 0.5
    assert abs(found.mean() - float(exact.mean)) < 4 * sd / np.sqrt(samples / 2)
    assert abs(found.std() / sd - 1) < 4 / np.sqrt(samples)


# --------------------------------------------------------------------------- what NumPyro says


@pytest.mark.slow
def test_the_warnings_of_numpyro_about_a_model_arrive():
    def no_plate():
        x = numpyro.sample("x", dist.Normal(0, 1))
        with numpyro.plate("rows", 10):
            numpyro.sample("y", dist.Normal(x, 1), obs=jnp.ones((5, 10)))

    def pair():
        numpyro.sample("x", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(0, 1))

    with pytest.warns(UserWarning, match="Missing a plate statement"):
        draws(no_plate)
    with pytest.warns(UserWarning, match="skipping initialization"):
        draws(numpyro.handlers.substitute(pair, data={"x": 10.0}))
