"""Which chains are counted: a dead one is named and left out, and `chains` says which are meant."""

import warnings

import numpy as np
import pytest
from weighted_runs import weighted_idata

from numpyro_contour import diagnose, expectation, resample, summary
from numpyro_contour.output.weighted_samples import chosen_places
from numpyro_contour.statistics.arviz_versions import from_datasets, to_datasets

rng = np.random.default_rng(0)
DRAWS = rng.normal(size=(4, 400)) + np.array([0.0, 0.0, 100.0, 0.0])[:, None]
WEIGHTS = rng.normal(size=(4, 400)) * 0.1
DEAD = np.where(np.arange(4)[:, None] == 2, -np.inf, WEIGHTS)
LEFT = [0, 1, 3]


def idata(log_weights=DEAD):
    groups = to_datasets(weighted_idata(log_weights, x=DRAWS))
    stats = groups["sample_stats"]
    stats["lp"] = (("chain", "draw"), -0.5 * (DRAWS - np.array([0, 0, 100, 0])[:, None]) ** 2)
    stats.attrs = {"kernel": "SGLD", "temperature": 1.0}
    return from_datasets(groups)


def test_a_dead_chain_is_named_and_the_others_are_counted():
    with pytest.warns(UserWarning, match="No draw of chain 2 has any weight"):
        table = summary(idata(), round_to="none")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = summary(weighted_idata(WEIGHTS[LEFT], x=DRAWS[LEFT]), round_to="none")
        # Named by the user it is not spoken of.
        named = summary(idata(), round_to="none", chains=LEFT)
        found = expectation(idata(), "x", chains=LEFT)
    np.testing.assert_allclose(table.values, expected.values)
    np.testing.assert_allclose(named.values, expected.values)
    assert abs(found.mean) < 5 * found.mcse
    with pytest.warns(UserWarning, match="chain 2"):
        np.testing.assert_allclose(expectation(idata(), "x").mean, found.mean)
    with pytest.warns(UserWarning, match="chain 2"):
        kept = resample(idata(), keep_chains=True)["posterior"]["x"]
    assert kept.shape == (3, 400)
    assert float(kept.max()) < 50


def test_any_chain_can_be_left_out():
    # All have weight; chain 2 is elsewhere.
    for chains in ([0, 1, 3], (3, 0, 1), np.array([0, 1, 3])):
        assert abs(expectation(idata(WEIGHTS), "x", chains=chains).mean) < 1
    assert expectation(idata(WEIGHTS), "x", chains=2).mean == pytest.approx(100, abs=1)
    assert resample(idata(WEIGHTS), chains=[2])["posterior"]["x"].shape == (1, 400)
    np.testing.assert_array_equal(chosen_places(WEIGHTS, [5, 7], np.array([5, 6, 7, 8])), [0, 2])


@pytest.mark.parametrize("chains", [[], 4, [0, 9], "0"])
def test_chains_that_are_not_there(chains):
    with pytest.raises(ValueError, match=r"`chains` takes None or some of the chains \[0, 1, 2, 3"):
        expectation(idata(), "x", chains=chains)


def test_an_error_only_where_all_are_dead():
    nothing = np.full((4, 400), -np.inf)
    with pytest.raises(ValueError, match="No draw of chains 0, 1, 2, 3 has any weight"):
        summary(idata(nothing))
    with pytest.raises(ValueError, match="No draw of chain 2 has any weight"):
        summary(idata(), chains=[2])
    assert not diagnose(idata(nothing)).trusted


def test_the_report_names_a_dead_chain_first_and_is_about_the_rest():
    report = diagnose(idata())
    assert report.faults[0].check == "dead chains"
    assert "chain 2" in report.faults[0].text
    assert [v.check for v in report.faults] == ["dead chains"]
    assert report["chains"].figure < 1.05
    assert "4 chains" in report.title
    # Without it they disagree.
    assert not diagnose(idata(WEIGHTS)).trusted
