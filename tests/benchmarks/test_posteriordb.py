"""Posteriors with reference draws: a run with nothing given is right, and is called so."""

from dataclasses import replace

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _from_the_root(pytestconfig, monkeypatch):
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))


@pytest.mark.long
@pytest.mark.parametrize("name", ["earnings-logearn_interaction", "garch-garch11"])
def test_a_run_with_nothing_given_agrees_with_the_reference(name):
    from benchmarks.posteriordb.models import Posterior
    from benchmarks.posteriordb.scores import Length, score

    found = score(Posterior.of(name), "ContourSGLD", 0, Length(300, 500))
    # Two thousand nearly independent draws: means are wrong by .022 sds, sds by 1.6 %; the limits
    # are more than four times that.
    assert found.right, found
    assert found.fault == ""


def a_score():
    from benchmarks.posteriordb.scores import Score

    return Score(0.05, (0.95, 1.05), 1.0, "", 1000, 1.0)


def test_a_score_counts_an_error_of_a_mean_and_of_a_standard_deviation():
    right = a_score()
    assert right.right
    assert not right.wrong
    for wrong in ({"error": 0.11}, {"ratios": (0.89, 1.05)}, {"ratios": (0.95, 1.11)}):
        assert not replace(right, **wrong).right
    assert replace(right, error=0.21).wrong
    assert replace(right, error=np.nan).wrong


def test_scores_are_kept_and_verdicts_counted(tmp_path):
    from benchmarks.posteriordb.results import keep, kept_of
    from benchmarks.posteriordb.scores import Length
    from benchmarks.posteriordb.text import section

    right = a_score()
    wrong = replace(right, error=0.3)
    scores = {
        "ContourSGLD": [right, replace(right, fault="length"), wrong],
        "SGLD": [replace(wrong, fault="chains"), replace(right, error=0.15)],
        "NUTS": [right],
    }
    keep("a", scores, tmp_path)
    assert kept_of("a", tmp_path) == scores
    assert kept_of("b", tmp_path) == {}
    text = section({"a": scores}, Length(500, 1000))
    assert "| ContourSGLD | 1 | 1 | 1 | 0 |" in text
    assert "| SGLD | 1 | 0 | 0 | 1 |" in text
    assert "| all | 2 | 1 | 1 | 1 |" in text
    assert "2 of 3 runs of `ContourSGLD`, 0 of 2 runs of `SGLD`. Of the others 2 are" in text


def test_values_are_those_of_the_reference_in_its_order():
    from benchmarks.posteriordb.models import Posterior

    posterior = Posterior.of("earnings-logearn_interaction")
    draws = {"beta": np.arange(24.0).reshape(2, 3, 4), "sigma": -np.ones((2, 3))}
    names = list(posterior.reference)
    values = posterior.values(draws)
    assert values.shape == (2, 3, len(names))
    np.testing.assert_array_equal(values[..., names.index("beta[2]")], draws["beta"][..., 1])
    np.testing.assert_array_equal(values[..., names.index("sigma")], draws["sigma"])
