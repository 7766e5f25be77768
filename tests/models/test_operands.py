"""Large arrays enter a compiled program once, and change nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from numpyro.infer import MCMC

from numpyro_contour import SGLD, ContourSGLD
from numpyro_contour.models import operands

ROWS = 60_000


def columns(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0.3, 1.0, (rows, 5)).astype(np.float32)


def model(X):
    mean = numpyro.sample("mean", dist.Normal(0, 1).expand([5]).to_event(1))
    with numpyro.plate("rows", X.shape[0], subsample_size=100) as idx:
        numpyro.sample("x", dist.Normal(mean, 1).to_event(1), obs=X[idx])


def constants(program):
    """The large constants of a program and of those inside it."""
    found = [c for c in getattr(program, "consts", ()) if getattr(c, "nbytes", 0) >= 2**20]
    for equation in getattr(program, "jaxpr", program).eqns:
        values = [getattr(v, "val", None) for v in equation.invars]
        found += [value for value in values if getattr(value, "nbytes", 0) >= 2**20]
        inner = jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")
        )
        for one in inner:
            found += constants(one) if hasattr(one, "eqns") else []
    return found


@pytest.mark.slow
@pytest.mark.parametrize("place", [np.asarray, jnp.asarray])
def test_a_program_holds_the_rows_once(place):
    X = place(columns())
    kernel = SGLD(model, step_size=1e-6, num_steps=2, energy="control_variate")
    state = kernel.init(random.key(0), 20, None, (X,), {})
    program = jax.make_jaxpr(lambda state: kernel.sample(state, (X,), {}))(state)
    assert len(constants(program)) == 1


def run(model, X, kernel=ContourSGLD, **settings):
    settings = {"num_steps": 5, "step_size": 1e-6, **settings}
    mcmc = MCMC(kernel(model, **settings), num_warmup=20, num_samples=20, progress_bar=False)
    mcmc.run(random.key(0), X)
    return {name: np.asarray(x) for name, x in mcmc.get_samples().items()}


@pytest.fixture
def as_constants(monkeypatch):
    """Run something again with arrays as constants."""

    def again(function):
        with monkeypatch.context() as patch:
            patch.setattr(operands, "_LARGE", np.inf)
            return function()

    return again


def two_means(y):
    """Two modes that the rows make, which are expanded in the data."""
    a = numpyro.sample("a", dist.Normal(0.3, 1))
    with numpyro.plate("rows", y.shape[0], subsample_size=100) as idx:
        numpyro.sample("y", dist.Normal(a**2, 1), obs=y[idx])


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*not to be trusted")
@pytest.mark.parametrize("place", [jnp.asarray, np.asarray])
def test_the_run_is_that_with_constants(place, as_constants):
    rng = np.random.default_rng(1)
    y = place((0.01 + rng.standard_normal(300_000)).astype(np.float32))
    make = lambda: run(two_means, y, energy="data_expansion", step_size=1e-5)
    draws, other = make()["a"], as_constants(make)["a"]
    assert draws.std() > 0
    np.testing.assert_allclose(draws, other, rtol=1e-4, atol=1e-5)


def centred(X):
    """NumPy's own functions take no array that JAX traces."""
    middle = np.asarray(X).astype(np.float64).mean(0)
    model(X - jnp.asarray(middle, X.dtype))


def masked(X):
    """How many rows a mask has must be known to compile."""
    rows, mask = X["rows"], X["mask"]
    model(rows + jnp.mean(rows[mask]))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*not to be trusted")
@pytest.mark.parametrize("needs_values", [centred, masked])
def test_a_model_may_need_the_values_of_its_rows(needs_values, as_constants, monkeypatch):
    monkeypatch.setattr(operands, "_LARGE", 1000)
    X = jnp.asarray(columns())
    data = {"rows": X, "mask": X[:, 0] > 1} if needs_values is masked else X
    make = lambda: run(needs_values, data, SGLD)
    np.testing.assert_allclose(make()["mean"], as_constants(make)["mean"], rtol=1e-5)


@pytest.mark.filterwarnings("ignore:.*not to be trusted")
def test_numpy_keeps_its_precision():
    seen = []

    def model(years):
        seen.append(float(np.ptp(years - years.mean())))
        centre = numpyro.sample("centre", dist.Normal(0, 1))
        with numpyro.plate("rows", len(years), subsample_size=100) as idx:
            numpyro.sample("x", dist.Normal(centre, 1), obs=(years - years.mean())[idx])

    run(model, 1e9 + np.random.default_rng(0).standard_normal(200_000), SGLD)
    # In single precision numbers near a billion are 64 apart.
    assert seen
    assert all(8 < spread < 11 for spread in seen)
