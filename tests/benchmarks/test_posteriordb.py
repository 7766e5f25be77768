"""Posteriors with reference draws: a run with nothing given is right, and is called so."""

import numpy as np
import pytest

from numpyro_contour import ContourSGLD


@pytest.fixture(autouse=True)
def _from_the_root(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["earnings-logearn_interaction", "garch-garch11"])
def test_a_run_with_nothing_given_agrees_with_the_reference(name):
    from benchmarks.posteriordb import NUM_STEPS, Posterior, score

    posterior = Posterior.of(name)
    found = score(posterior, ContourSGLD(posterior.model, num_steps=NUM_STEPS), 0, 300, 500)
    # Two thousand nearly independent draws: means are wrong by .022 sds, sds by 1.6 %; the limits
    # are more than four times that.
    assert found.right, found
    assert found.faultless


def test_a_score_counts_an_error_of_a_mean_and_of_a_standard_deviation():
    from benchmarks.posteriordb import Score

    right = Score(0.05, (0.95, 1.05), 1.0, True, 1.0)
    assert right.right
    assert not Score(0.11, (0.95, 1.05), 1.0, True, 1.0).right
    assert not Score(0.05, (0.89, 1.05), 1.0, True, 1.0).right
    assert not Score(0.05, (0.95, 1.11), 1.0, True, 1.0).right


def test_values_are_those_of_the_reference_in_its_order():
    from benchmarks.posteriordb.models import Posterior

    posterior = Posterior.of("earnings-logearn_interaction")
    draws = {"beta": np.arange(24.0).reshape(2, 3, 4), "sigma": -np.ones((2, 3))}
    names = list(posterior.reference)
    values = posterior.values(draws)
    assert values.shape == (2, 3, len(names))
    np.testing.assert_array_equal(values[..., names.index("beta[2]")], draws["beta"][..., 1])
    np.testing.assert_array_equal(values[..., names.index("sigma")], draws["sigma"])
