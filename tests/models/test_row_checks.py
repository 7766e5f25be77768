"""A plate has as many rows as the arrays that it indexes, or is told not to."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from tiers import in_second_tier

from numpyro_contour import SGLD

X, Y = np.ones((40, 3)), jnp.arange(40.0)


def start(model, *args, **kwargs):
    SGLD(model, step_size=0.01).init(jax.random.key(0), 0, None, args, kwargs)


def regression(x, y, rows, subsample=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", rows, subsample_size=subsample) as idx:
        numpyro.sample("y", dist.Normal(slope * x[idx, 1], 1), obs=y[idx])


@pytest.mark.parametrize("subsample", [None, 10])
def test_a_plate_with_more_rows_than_the_data_is_refused(subsample):
    message = r"The plate 'rows' .* has 1,000 and `[xy]` has 40: .* numpyro.plate\('rows', 40"
    with pytest.raises(ValueError, match=message):
        start(regression, X, Y, 1000, subsample)


@pytest.mark.parametrize("subsample", [None, 10])
def test_a_plate_with_fewer_rows_than_the_data_is_named_once(subsample):
    with pytest.warns(UserWarning, match="the last 20 are never seen") as caught:
        start(regression, X, Y, 20, subsample)
    assert len(caught) == 1


def by_take(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", 41) as idx:
        numpyro.sample("y", dist.Normal(mean, 1), obs=jnp.take(y, idx, axis=0))


def of_columns(x):
    with numpyro.plate("columns", 5) as idx:
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with numpyro.plate("rows", 40):
            numpyro.sample("x", dist.Normal(mean, 1), obs=x[:, idx])


@pytest.mark.parametrize(("model", "array"), [(by_take, Y), (of_columns, X)])
def test_other_ways_of_indexing(model, array):
    with pytest.raises(ValueError, match=r"The plate '(rows|columns)' .* `[xy]` has (40|3)"):
        start(model, array)


GROUPS = jnp.arange(40) % 4


def groups(y):
    """Rows of groups: the plate of rows indexes the group's number, and that the groups."""
    with numpyro.plate("groups", 4):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=10) as idx:
        numpyro.sample("y", dist.Normal(mean[GROUPS[idx]] + mean[idx % 4], 1), obs=y[idx])


def lags(y):
    """The row before each row: no row of the plate is left out."""
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y) - 1, subsample_size=10) as idx:
        numpyro.sample("y", dist.Normal(slope * y[idx + 1], 1), obs=y[idx + 1])


def padded(y):
    """A table that is shorter than the plate, with a choice where it ends."""
    level = numpyro.sample("level", dist.Normal(0, 1).expand([20]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=10) as idx:
        mean = jnp.where(idx < 20, level[jnp.where(idx < 20, idx, 0)], level[jnp.clip(idx, 0, 19)])
        numpyro.sample("y", dist.Normal(mean, 1), obs=y[idx])


def whole(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(mean, 1), obs=y)


@pytest.mark.parametrize("model", [groups, *map(in_second_tier, (lags, padded, whole))])
def test_models_that_are_right_say_nothing(model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start(model, Y)
