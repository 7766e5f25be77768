"""One chain, modes found by chance, chains in different places: what a run says and what not."""

import numpy as np
import pytest
import xarray as xr
from weighted_runs import weighted_idata

from numpyro_contour import diagnose, expectation, summary
from numpyro_contour.diagnosis import chain_checks, mode_checks, step_checks
from numpyro_contour.diagnosis.chain_checks import in_words, places
from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Report, unknown, verdict

DRAWS = 600


def groups_of(x, log_weight=None, **settings):
    """A run of one scalar, (chains, draws)."""
    log_weight = np.zeros(x.shape) if log_weight is None else log_weight
    stats = {"log_weight": log_weight, "lp": -0.5 * x**2}
    return {
        "posterior": xr.Dataset({"a": (("chain", "draw"), x)}),
        "sample_stats": xr.Dataset(
            {name: (("chain", "draw"), values) for name, values in stats.items()},
            attrs={"temperature": 1.0} | settings,
        ),
    }


def of(check, groups):
    return {v.check: v for v in check(Evidence(groups))}


def two_modes(trips, chains=1, seed=0):
    """Unit normals at -3 and 3, with so many trips there and back in each chain."""
    above = np.arange(DRAWS) * (2 * trips + 1) // DRAWS % 2
    return np.random.default_rng(seed).normal(size=(chains, DRAWS)) - 3 + 6 * above


# --------------------------------------------------------------------------- one chain

GOOD = verdict("first", 0.5, 1.0, False, "All is well.", "")


def test_one_chain_is_not_called_faultless():
    alone = Report("SGLD", (GOOD, unknown("chains", "One chain cannot show it.")))
    assert not alone.faults
    assert not alone.trusted
    assert alone.headline == "No fault was found, but: One chain cannot show it."
    assert not alone.to_dict()["trusted"]
    # What does not matter may be left out,
    other = Report("SGLD", (GOOD, unknown("theta over time", "It was not collected.")))
    assert other.trusted
    assert other.headline == "No fault was found."
    # and a fault comes first.
    bad = Report("SGLD", (verdict("second", 2, 1, True, "x", "y"), *alone.verdicts))
    assert bad.headline == "1 fault: second."


def test_the_report_on_one_chain():
    x = np.random.default_rng(0).normal(size=(1, DRAWS))
    report = diagnose(_stored(x))
    assert not report.faults
    assert not report.trusted
    assert "One chain cannot show whether others would find the same modes" in report.headline
    several = diagnose(_stored(np.random.default_rng(0).normal(size=(4, DRAWS))))
    assert several.headline == "No fault was found."


def _stored(x):
    groups = groups_of(x)
    idata = weighted_idata(groups["sample_stats"]["log_weight"].values, a=x)
    for name in ("lp",):
        idata["sample_stats"][name] = groups["sample_stats"][name]
    idata["sample_stats"].attrs["temperature"] = 1.0
    return idata


# --------------------------------------------------------------------------- modes


@pytest.mark.parametrize(("trips", "outcome"), [(9, "bad"), (10, "good")])
def test_trips_between_modes(trips, outcome):
    found = of(mode_checks.crossings, groups_of(two_modes(trips)))["crossings"]
    assert found.outcome == outcome
    assert found.figure == trips
    assert found.finding.startswith("`a` has modes near -")
    assert f"rests on {trips} trips" in found.finding
    # All chains together.
    both = of(mode_checks.crossings, groups_of(two_modes(5, chains=2)))["crossings"]
    assert (both.figure, both.outcome) == (10, "good")


def test_no_trip_and_no_error():
    x = two_modes(0.5)
    found = of(mode_checks.crossings, groups_of(x))["crossings"]
    assert (found.figure, found.outcome) == (0, "bad")
    assert "no error can be given" in found.advice
    idata = weighted_idata(np.zeros(x.shape), a=x)
    assert np.isnan(expectation(idata, "a").mcse)
    # The event flickers a little at the edge of each mode.
    assert not expectation(idata, lambda posterior: posterior["a"] > 0).mcse < 0.2
    assert np.isnan(summary(idata, round_to="none").loc["a", "mcse_mean"])


def test_one_mode_has_no_verdict():
    x = np.random.default_rng(1).normal(size=(1, DRAWS))
    assert not of(mode_checks.crossings, groups_of(x))


def test_an_event_that_came_less_than_twice_has_no_error():
    x = np.random.default_rng(2).normal(size=(2, DRAWS))
    idata = weighted_idata(np.zeros(x.shape), a=x)
    never = expectation(idata, lambda posterior: posterior["a"] > 50)
    assert never.mean == 0
    assert np.isnan(never.mcse)
    assert np.isnan(never.ess)
    assert np.isnan(expectation(idata, lambda posterior: posterior["a"] < 50).mcse)
    once = np.sort(x.ravel())[-2:].mean()
    assert np.isnan(expectation(idata, lambda posterior: posterior["a"] > once).mcse)
    thrice = np.sort(x.ravel())[-4:-2].mean()
    seldom = expectation(idata, lambda posterior: posterior["a"] > thrice)
    assert seldom.mcse == pytest.approx(3**0.5 / x.size, rel=0.3)
    # Draws that weigh next to nothing: a few steps up a barrier say nothing of what is behind it.
    log_weights = np.where(x > thrice, -15.0, 0.0)
    light = weighted_idata(log_weights, a=x)
    assert np.isnan(expectation(light, lambda posterior: posterior["a"] > thrice).mcse)
    often = np.quantile(x, 0.9)
    light = weighted_idata(np.where(x > often, -15.0, 0.0), a=x)
    assert expectation(light, lambda posterior: posterior["a"] > often).mcse < 1e-7
    # A constant that is no event has no error.
    assert expectation(idata, lambda posterior: 0 * posterior["a"]).mcse == 0


# --------------------------------------------------------------------------- chains


def test_where_chains_are():
    rng = np.random.default_rng(3)
    centres = np.array([1.5, -1.5, 1.5, 1.5, -1.5])
    x = 0.2 * rng.normal(size=(5, DRAWS)) + centres[:, None]
    found = places(x, np.ones(x.shape))
    assert [place.chains for place in found] == [[0, 2, 3], [1, 4]]
    advice = of(chain_checks.agreement, groups_of(x))["chains"].advice
    assert "`a` is near 1.51 in chains 0, 2 and 3 and near -1.5 in chains 1 and 4" in advice
    assert "no chain holds both" in advice
    # A chain that holds both joins them.
    x[0, ::2] -= 3.0
    assert len(places(x, np.ones(x.shape))) == 1
    assert "no chain" not in of(chain_checks.agreement, groups_of(x))["chains"].advice
    # Weights count: of that chain one half only has any.
    weights = np.ones(x.shape)
    weights[0, ::2], weights[0, 1::2] = 0.0, 2.0
    assert len(places(x, weights)) == 2


def test_many_chains_and_many_places_in_few_words():
    x = np.repeat(np.arange(6.0), [6, 1, 1, 1, 1, 1])[:, None] + np.zeros((11, 5))
    words = in_words(places(x, np.ones(x.shape)))
    assert words == (
        "near 0 in 6 chains (0, 1, ...), near 1 in chain 6, near 2 in chain 7, near 3 in chain 8 "
        "and elsewhere in 2 others"
    )


# --------------------------------------------------------------------------- the gradient


@pytest.mark.parametrize(
    ("jump", "temperature", "outcome"),
    [(0.19, 1, "good"), (0.21, 1, "bad"), (0.39, 2, "good"), (0.41, 2, "bad")],
)
def test_jumps_in_temperatures(jump, temperature, outcome):
    groups = groups_of(two_modes(5), temperature=temperature)
    groups["gradient"] = xr.Dataset({"jump": (("line",), np.full(32, jump))})
    found = of(step_checks.gradient, groups)["gradient"]
    assert found.outcome == outcome
    assert found.figure == pytest.approx(jump / temperature)


def test_one_line_over_a_wall_is_not_the_rule():
    groups = groups_of(two_modes(5))
    assert of(step_checks.gradient, groups)["gradient"].outcome == "not checked"
    jump = np.zeros(100)
    jump[7] = 1e9
    groups["gradient"] = xr.Dataset({"jump": (("line",), jump)})
    assert of(step_checks.gradient, groups)["gradient"].outcome == "good"
