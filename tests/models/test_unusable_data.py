"""Data with which no model can compute: the error names the argument."""

import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from numpyro_contour import SGLD


def line(x, y, form="line"):
    a = numpyro.sample("a", dist.Normal(0, 1))
    numpyro.sample("y", dist.Normal(a * x, 1), obs=y)


def rows(x, y):
    a = numpyro.sample("a", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=10) as idx:
        numpyro.sample("y", dist.Normal(a * x[idx], 1), obs=y[idx])


WORDS, NONE, ONES = np.array(["a", "b"]), np.zeros(0), np.ones(5)


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (line, (WORDS, ONES[:2]), r"`model_args\[0\]` holds strings or objects; give numbers"),
        (line, (["a", "b"], ONES[:2]), r"`model_args\[0\]\[0\]` holds strings or objects"),
        (rows, ([], []), r"`model_args\[0\]` has no rows, its shape is \(0,\)."),
        (rows, (NONE, NONE), r"`model_args\[0\]` has no rows, its shape is \(0,\)."),
        (rows, (ONES, ONES), "`subsample_size` takes at most the size of the plate, 5 for 'rows'"),
    ],
)
def test_the_error_names_the_argument(model, data, message):
    with pytest.raises(ValueError, match=message):
        models.run(SGLD(model), 0, *data)


def test_other_errors_are_the_models_own_and_words_may_be_options():
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        models.run(SGLD(line), 0, ONES)
    mcmc = models.run(SGLD(line, step_size=0.01), 0, ONES, ONES, "curve", warmup=0, samples=5)
    assert mcmc.get_samples()["a"].shape == (5,)
