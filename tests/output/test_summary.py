"""`summary` is ArviZ's table with weights, `print_summary` NumPyro's."""

import re

import arviz as az
import models
import numpy as np
import pytest
import xarray as xr
from weighted_runs import weighted_idata

from numpyro_contour import diagnostics, print_summary, resample, summary, weighted_samples
from numpyro_contour.statistics.arviz_versions import IS_DATATREE, tail_levels

RNG = np.random.default_rng(0)
DRAWS = {
    "scale": np.exp(RNG.normal(size=(4, 150)).cumsum(axis=1) / 20),
    "place": 1e3 + 50 * RNG.normal(size=(4, 150, 2, 3)),
    "count": RNG.poisson(3.0, size=(4, 150)),
    "angle": RNG.normal(3.0, 0.5, size=(4, 150)) % (2 * np.pi) - np.pi,
}
EVEN = np.full((4, 150), -3.0)
UNEVEN = RNG.normal(size=(4, 150)) + 10 * np.arange(4)[:, None]

#: arguments of `az.summary`, those of one generation apart
BOTH = {
    "none": {},
    "stats": {"kind": "stats"},
    "diagnostics": {"kind": "diagnostics"},
    "names": {"var_names": ["scale", "place"]},
    "names left out": {"var_names": ["~place"]},
    "names like": {"var_names": ["a"], "filter_vars": "like"},
    "long": {"fmt": "long", "var_names": ["place"]},
    "xarray": {"fmt": "xarray"},
    "digits": {"round_to": 1},
    "all digits": {"round_to": "none"},
    "coords": {"var_names": ["place"], "coords": {"place_dim_1": [0, 2]}},
    "chains": {"var_names": ["scale"], "coords": {"chain": [0, 2]}},
    "draws": {"var_names": ["place"], "coords": {"draw": slice(20, 90), "place_dim_0": [1]}},
}
ONE = (
    {
        "median": {"kind": "all_median"},
        "median diagnostics": {"kind": "diagnostics_median"},
        "Monte Carlo": {"kind": "mc_diagnostics"},
        "hdi": {"ci_kind": "hdi", "ci_prob": 0.5},
        "eti": {"ci_kind": "eti", "ci_prob": 0.95},
        "group": {"group": "posterior"},
    }
    if IS_DATATREE
    else {
        "median": {"stat_focus": "median"},
        "hdi": {"hdi_prob": 0.5},
        "functions": {"stat_funcs": {"p90": lambda x: np.percentile(x, 90)}},
        "functions only": {"stat_funcs": [np.max], "extend": False},
        "circular": {"circ_var_names": ["angle"]},
        "group": {"group": "posterior"},
        "labels": {"labeller": az.labels.NoVarLabeller()},
    }
)
ARGUMENTS = BOTH | ONE


@pytest.mark.parametrize("name", ARGUMENTS)
def test_on_equal_weights_it_is_the_table_of_arviz(name):
    idata = weighted_idata(EVEN, **DRAWS)
    ours, theirs = summary(idata, **ARGUMENTS[name]), az.summary(idata, **ARGUMENTS[name])
    assert type(ours) is type(theirs)
    if isinstance(theirs, xr.Dataset):
        xr.testing.assert_allclose(ours, theirs, rtol=1e-6)
        return
    assert str(ours) == str(theirs)
    assert ours.to_string() == theirs.to_string()
    assert list(ours.index) == list(theirs.index)
    assert list(ours.columns) == list(theirs.columns)
    if "long" not in name:
        np.testing.assert_allclose(ours.to_numpy(float), theirs.to_numpy(float), rtol=1e-6)


def weighted_forms(x):
    """Each column by its definition."""
    prob = az.rcParams["stats.ci_prob"]
    ends = diagnostics.weighted_eti if IS_DATATREE else diagnostics.weighted_hdi
    low, high = ends(x, UNEVEN, prob)
    names = ("eti89_lb", "eti89_ub") if IS_DATATREE else ("hdi_3%", "hdi_97%")
    return {
        "mean": diagnostics.weighted_mean(x, UNEVEN),
        "sd": diagnostics.weighted_sd(x, UNEVEN),
        names[0]: low,
        names[1]: high,
        "mcse_mean": diagnostics.weighted_mcse(x, UNEVEN),
        "mcse_sd": diagnostics.weighted_mcse(x, UNEVEN, "sd"),
        "ess_bulk": diagnostics.weighted_ess(x, UNEVEN),
        "ess_tail": diagnostics.weighted_ess(x, UNEVEN, "tail", tail_levels()),
        "r_hat": diagnostics.weighted_rhat(x, UNEVEN),
    }


def test_every_column_is_weighted():
    table = summary(weighted_idata(UNEVEN, **DRAWS), round_to="none")
    plain = az.summary(weighted_idata(EVEN, **DRAWS), round_to="none")
    for row, x in (("scale", DRAWS["scale"]), ("place[1, 2]", DRAWS["place"][:, :, 1, 2])):
        expected = weighted_forms(x)
        assert set(table.columns) == set(expected)
        for column, value in expected.items():
            assert float(table.loc[row, column]) == pytest.approx(float(value), rel=1e-9)
        changed = table.loc[row].to_numpy(float) != plain.loc[row].to_numpy(float)
        assert changed.sum() >= 8  # an end of an interval may be the same draw


@pytest.mark.parametrize("kind", ["all", "stats"])
def test_median_columns_are_weighted(kind):
    arguments = (
        {"kind": f"{kind}_median"} if IS_DATATREE else {"kind": kind, "stat_focus": "median"}
    )
    table = summary(weighted_idata(UNEVEN, **DRAWS), round_to="none", **arguments)
    x = DRAWS["scale"]
    expected = {
        "median": diagnostics.weighted_quantile(x, UNEVEN, 0.5),
        "mad": diagnostics.weighted_mad(x, UNEVEN),
    }
    if kind == "all":
        expected["mcse_median"] = diagnostics.weighted_mcse(x, UNEVEN, "median")
        expected["ess_median"] = diagnostics.weighted_ess(x, UNEVEN, "median")
    for column, value in expected.items():
        assert float(table.loc["scale", column]) == pytest.approx(float(value), rel=1e-9)


def test_what_has_no_weighted_form_comes_from_resampled_draws():
    idata = weighted_idata(UNEVEN, **DRAWS)
    even = resample(idata, keep_chains=True)
    name = "Monte Carlo" if IS_DATATREE else "functions"
    column = "min_ss" if IS_DATATREE else "p90"
    ours = summary(idata, round_to="none", **ARGUMENTS[name])
    theirs = az.summary(even, round_to="none", **ARGUMENTS[name])
    np.testing.assert_allclose(ours[column].to_numpy(float), theirs[column].to_numpy(float))
    if not IS_DATATREE:
        circular = {"circ_var_names": ["angle"], "round_to": "none"}
        ours, theirs = summary(idata, **circular), az.summary(even, **circular)
        for column in ("mean", "sd"):
            assert ours.loc["angle", column] == theirs.loc["angle", column]
            assert ours.loc["scale", column] != theirs.loc["scale", column]


def test_draws_that_are_not_numbers_may_be_skipped():
    holes = np.where(RNG.random((4, 150)) < 0.1, np.nan, DRAWS["scale"])
    idata = weighted_idata(UNEVEN, x=holes)
    table = summary(idata, kind="stats", round_to="none", skipna=True)
    kept = np.where(np.isnan(holes), -np.inf, UNEVEN)
    expected = np.average(
        np.nan_to_num(holes), weights=np.exp(kept) / np.exp(UNEVEN).mean(1)[:, None]
    )
    assert float(table.loc["x", "mean"]) == pytest.approx(float(expected))
    assert np.isnan(float(summary(idata, kind="stats", round_to="none").loc["x", "mean"]))
    even = weighted_idata(EVEN, x=holes)
    assert str(summary(even, kind="stats", skipna=True)) == str(
        az.summary(even, kind="stats", skipna=True)
    )


# --------------------------------------------------------------------------- print_summary


@pytest.mark.filterwarnings("ignore:.*drifts were clipped")
def test_print_summary_is_numpyros_table_with_weights(constrained_runs, capsys):
    mcmc = constrained_runs("SGLD")
    mcmc.print_summary()
    theirs = capsys.readouterr().out
    print_summary(mcmc)
    ours = capsys.readouterr().out
    rows = lambda text: {line.split()[0]: line.split()[1:] for line in text.splitlines() if line}
    found, expected = rows(ours), rows(theirs)
    for name in ("scale", "shares[0]", "upper", "inside"):
        # Mean, sd, median and interval: all draws of SGLD weigh the same.
        assert found[name][:5] == expected[name][:5]
    assert ours.splitlines()[:2] == theirs.splitlines()[:2]
    assert "Weights: effective share (Kish) 1.00, Pareto k -inf" in ours
    assert "twice" not in ours
    print_summary(mcmc, exclude_deterministic=False)
    assert re.search(r"^ +twice ", capsys.readouterr().out, flags=re.MULTILINE)


def test_print_summary_weighs(capsys):
    mcmc = models.run(models.nested_kernel("ContourSGLD"), 0, init_params=models.NESTED_START)
    samples, log_weights = weighted_samples(mcmc)
    print_summary(mcmc, prob=0.5)
    out = capsys.readouterr().out
    x = np.asarray(samples["a"]["b"])[..., 1]
    low, high = diagnostics.weighted_hdi(x, log_weights, 0.5)
    row = next(line for line in out.splitlines() if line.split()[:1] == ["a.b[1]"])
    expected = (
        diagnostics.weighted_mean(x, log_weights),
        diagnostics.weighted_sd(x, log_weights),
        diagnostics.weighted_quantile(x, log_weights, 0.5),
        low,
        high,
        diagnostics.weighted_ess(x, log_weights, "mean"),
    )
    assert row.split()[1:7] == [f"{value:.2f}" for value in expected]
    assert "25.0%" in out
