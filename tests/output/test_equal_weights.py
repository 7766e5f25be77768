"""Draws of equal weight beside the weighted ones, for every function of ArviZ."""

import functools

import arviz as az
import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from scipy import stats
from weighted_runs import weighted_idata, weighted_only

from numpyro_contour import (
    ContourSGLD,
    EnergyPartition,
    diagnose,
    expectation,
    predictive,
    resample,
    summary,
    to_inference_data,
)
from numpyro_contour.examples import mixture
from numpyro_contour.output.equal_weights import weighted_of, with_equal_weights
from numpyro_contour.statistics.arviz_versions import from_datasets, to_datasets

CHAINS = 64


@functools.cache
def mixture_idata():
    """Chains on 0.4 N(-6, 1) + 0.6 N(4, 1), half of which start in each mode."""
    kernel = ContourSGLD(
        potential_fn=mixture.potential,
        step_size=0.1,
        num_steps=75,
        partition=EnergyPartition(0.0, 20.0, 40),
    )
    mcmc = models.run(
        kernel,
        0,
        warmup=250,
        samples=400,
        init_params=jnp.where(jnp.arange(CHAINS) % 2, 4.0, -6.0),
        chains=CHAINS,
        chain_method="vectorized",
    )
    return to_inference_data(mcmc)


def of_chains(begin, end):
    """Some of the chains, as a run of their own."""
    groups = to_datasets(mixture_idata())
    return from_datasets(
        {n: g.isel(chain=slice(begin, end), missing_dims="ignore") for n, g in groups.items()}
    )


def arvizs(idata):
    """The columns of ArviZ's own table for the position."""
    table = az.summary(idata, fmt="xarray", round_to="none")["z"]
    return {str(name): float(x) for name, x in zip(table[table.dims[0]].values, table.values)}


EXACT = 0.4 * -6 + 0.6 * 4


@pytest.mark.slow
def test_arvizs_own_summary_is_that_of_the_posterior():
    idata = mixture_idata()
    found, ours = arvizs(idata), expectation(idata, "z")
    assert abs(found["mean"] - EXACT) < 4 * found["mcse_mean"] < 1.0
    assert abs(found["mean"] - ours.mean) < 2 * ours.mcse
    assert 0.5 < found["mcse_mean"] / ours.mcse < 2
    assert found["r_hat"] < 1.1
    # It can fail: the flattened density has another mean.
    flattened = float(idata["weighted_posterior"]["z"].mean())
    assert abs(flattened - EXACT) > 6 * found["mcse_mean"]


@pytest.mark.slow
def test_its_errors_are_those_of_replicates():
    """Sixteen runs of four chains: the errors that ArviZ reports are as large as they are."""
    runs = [arvizs(of_chains(begin, begin + 4)) for begin in range(0, CHAINS, 4)]
    z = np.array([(run["mean"] - EXACT) / run["mcse_mean"] for run in runs])
    # The sum of sixteen squares, two-sided at 1e-3 each; normal errors of few modes are a guess.
    low, high = stats.chi2.ppf([1e-3, 1 - 1e-3], len(z))
    assert low < (z**2).sum() < 2 * high


def test_draws_are_taken_by_weight_in_the_order_of_time_with_all_their_groups():
    rng = np.random.default_rng(1)
    log_weights = rng.normal(size=(3, 50))
    number = np.arange(150.0).reshape(3, 50)
    groups = to_datasets(weighted_idata(log_weights, a=number, b=np.stack([number, -number], -1)))
    groups["log_likelihood"] = xr.Dataset({"y": (("chain", "draw", "row"), number[..., None] + 7)})
    groups["prior"] = xr.Dataset({"a": (("chain", "draw"), np.zeros((1, 9)))})
    groups["sample_stats"]["log_theta"] = (("chain", "draw", "bin"), np.zeros((3, 50, 2)))
    groups["sample_stats"]["lp"] = (("chain", "draw"), number - 1)
    found = with_equal_weights(groups)
    weights = np.exp(log_weights)
    weights *= 50 / weights.sum(1, keepdims=True)
    taken = found["posterior"]["a"].values
    for chain in range(3):
        assert (np.diff(taken[chain]) >= 0).all()
        counts = (taken[chain][:, None] == number[chain]).sum(0)
        assert counts.sum() == 50
        assert (np.abs(counts - weights[chain]) < 1).all()
    np.testing.assert_array_equal(found["posterior"]["b"][..., 1], -taken)
    np.testing.assert_array_equal(found["log_likelihood"]["y"][..., 0], taken + 7)
    np.testing.assert_array_equal(found["sample_stats"]["lp"], taken - 1)
    assert set(found["sample_stats"].data_vars) == {"lp"}
    xr.testing.assert_identical(found["prior"], groups["prior"])
    for name in ("posterior", "sample_stats", "log_likelihood"):
        xr.testing.assert_identical(found[f"weighted_{name}"], groups[name])
    again = with_equal_weights(groups)
    xr.testing.assert_identical(again["posterior"], found["posterior"])
    # There and back.
    back = weighted_of(found)
    assert set(back) == set(groups)
    for name, group in groups.items():
        xr.testing.assert_identical(back[name], group)


def test_draws_of_equal_weight_are_kept_once():
    groups = to_datasets(weighted_idata(np.full((2, 30), -1.5), a=np.zeros((2, 30))))
    assert set(with_equal_weights(groups)) == set(groups)


def test_a_chain_without_weight_is_left_out_of_them():
    log_weights = np.zeros((3, 30))
    log_weights[1] = -np.inf
    groups = to_datasets(weighted_idata(log_weights, a=np.arange(90.0).reshape(3, 30)))
    found = with_equal_weights(groups)
    assert found["posterior"]["chain"].values.tolist() == [0, 2]
    np.testing.assert_array_equal(found["posterior"]["a"], groups["posterior"]["a"][[0, 2]])
    assert found["weighted_posterior"].sizes["chain"] == 3
    log_weights[:] = -np.inf
    groups = to_datasets(weighted_idata(log_weights, a=np.zeros((3, 30))))
    assert set(with_equal_weights(groups)) == {"posterior", "sample_stats"}


def test_what_is_added_later_is_of_the_draws_of_equal_weight():
    rng = np.random.default_rng(2)
    groups = to_datasets(weighted_idata(rng.normal(size=(2, 40)), a=rng.normal(size=(2, 40))))
    idata = from_datasets(
        with_equal_weights(groups)
        | {"posterior_predictive": xr.Dataset({"y": (("chain", "draw"), np.zeros((2, 40)))})}
    )
    with pytest.raises(
        ValueError, match=r"`group` takes one of the groups of draws, \['posterior'"
    ):
        summary(idata, group="posterior_predictive")


@pytest.mark.slow
def test_one_chain_that_is_selected_is_a_run_of_one():
    one, same = of_chains(2, 3), mixture_idata().sel(chain=2)
    found, expected = (summary(data, kind="stats") for data in (same, one))
    assert str(found) == str(expected)
    assert expectation(same, "z").mean == expectation(one, "z").mean
    assert [v.check for v in diagnose(same).verdicts] == [v.check for v in diagnose(one).verdicts]


def test_runs_that_are_joined_along_their_chains():
    """Labels of chains are there twice, and what was measured on all chains of a run, by run."""
    one, two = (
        {
            name: group.assign_coords(chain=range(4)) if "chain" in group.dims else group
            for name, group in to_datasets(of_chains(begin, begin + 4)).items()
        }
        for begin in (0, 4)
    )
    joined = from_datasets({n: xr.concat([one[n], two[n]], "chain", data_vars="all") for n in one})
    whole = of_chains(0, 8)
    for chains in (None, [1, 5]):
        assert str(summary(joined, chains=chains)) == str(summary(whole, chains=chains))
    found, expected = (
        {
            v.check: v.text
            for v in diagnose(data).verdicts
            if v.check not in ("variances", "gradient")
        }
        for data in (joined, whole)
    )
    assert found == expected


@pytest.mark.filterwarnings("ignore:Passing a dict or None as alias_mapping")
def test_the_energy_of_the_draws_is_there_for_arviz():
    stats_of_run = mixture_idata()["sample_stats"]
    np.testing.assert_array_equal(stats_of_run["energy"], -stats_of_run["lp"])
    assert stats_of_run.energy.shape == (CHAINS, 400)  # and is not hidden by the argument `energy`
    az.plot_energy(of_chains(0, 2))
    az.plot_energy(resample(of_chains(0, 2), 100))


def test_files_of_earlier_versions_still_open(tmp_path):
    """They had weighted draws under the plain names, and theta itself."""
    new = of_chains(0, 4)
    old = to_datasets(weighted_only(new))
    stats_of_run = old["sample_stats"]
    theta = np.exp(stats_of_run["log_theta"].astype(float))
    old["sample_stats"] = stats_of_run.drop_vars("log_theta").assign(theta=theta)
    path = str(tmp_path / "old.nc")
    from_datasets(old).to_netcdf(path)
    again = az.from_netcdf(path)
    assert str(summary(again)) == str(summary(new))
    assert str(diagnose(again)) == str(diagnose(new))
    again.close()


@pytest.mark.slow
def test_predictions_follow_their_draws():
    def model(y=None):
        a = numpyro.sample("a", dist.Normal(0, 1))
        numpyro.deterministic("twice", 2 * a)
        numpyro.sample("y", dist.Normal(a, 1), obs=y)

    kernel = ContourSGLD(model, step_size=0.1, num_steps=5, partition=EnergyPartition(1.0, 6.0, 10))
    mcmc = models.run(kernel, 0, 0.5, warmup=50, samples=60)
    drawn = predictive(mcmc, jax.random.key(1), return_sites=["twice", "y"])
    idata = to_inference_data(mcmc, posterior_predictive=drawn, log_likelihood=True)
    for prefix in ("", "weighted_"):
        a = idata[f"{prefix}posterior"]["a"].values
        np.testing.assert_allclose(idata[f"{prefix}posterior_predictive"]["twice"], 2 * a)
        likelihood = stats.norm.logpdf(0.5, a, 1)
        found = idata[f"{prefix}log_likelihood"]["y"].values.reshape(a.shape)
        np.testing.assert_allclose(found, likelihood, rtol=1e-4)
    assert len(np.unique(idata["posterior"]["a"])) < 60


def test_draws_in_which_a_move_was_refused_are_the_divergences_of_arviz():
    """Beyond a wall at 2 the energy is not finite: moves there are refused."""
    kernel = ContourSGLD(
        potential_fn=lambda x: jnp.where(jnp.abs(x) > 2, jnp.inf, x**2 / 2).sum(),
        step_size=0.3,
        num_steps=3,
        partition=EnergyPartition(0.0, 4.0, 10),
    )
    mcmc = models.run(kernel, 0, init_params=jnp.zeros(2), warmup=50, samples=200)
    with pytest.warns(UserWarning, match="This run cannot be trusted|refused"):
        idata = to_inference_data(mcmc)
    of_run = idata["weighted_sample_stats"]
    refused = of_run["refused"].values
    diverging = of_run["diverging"].values
    assert diverging.dtype == bool
    assert not diverging[:, 0].any()
    np.testing.assert_array_equal(diverging[:, 1:], refused[:, 1:] > refused[:, :-1])
    assert 0 < diverging.mean() < 1
    # Draws of equal weight have that of their draw.
    number = {float(x): bool(d) for x, d in zip(of_run["lp"].values[0], diverging[0])}
    for x, found in zip(
        idata["sample_stats"]["lp"][0].values, idata["sample_stats"]["diverging"][0].values
    ):
        assert number[float(x)] == found


def test_parallel_coordinates_are_drawn():
    """arviz 0.23 looks for divergences, and does not draw without them."""
    groups = to_datasets(of_chains(0, 2))
    groups["posterior"] = groups["posterior"].assign(twice=2 * groups["posterior"]["z"])
    az.plot_parallel(from_datasets(groups))


def test_a_variable_that_a_user_adds_to_the_draws_of_equal_weight_is_not_lost_without_a_word():
    idata = of_chains(0, 4)
    idata["posterior"]["twice"] = 2 * idata["posterior"]["z"]
    told = r"'twice': only 'posterior' has it.*`data\['weighted_posterior'\]\['twice'\] = \.\.\.`"
    with pytest.warns(UserWarning, match=told) as caught:
        table = summary(idata)
    assert len(caught) == 1
    assert list(table.index) == ["z"]
    with pytest.warns(UserWarning, match=told):
        resample(idata)
    with pytest.raises(ValueError, match=r"`var_names` takes no " + told):
        summary(idata, ["twice"])
    with pytest.raises(ValueError, match=r"`f` takes no " + told):
        expectation(idata, "twice")
    # Who asks for others knows.
    assert str(summary(idata, ["z"])) == str(table)
    # And what it says is enough.
    idata["weighted_posterior"]["twice"] = 2 * idata["weighted_posterior"]["z"]
    table = summary(idata, kind="stats", round_to="none")
    assert float(table.loc["twice", "mean"]) == pytest.approx(2 * float(table.loc["z", "mean"]))
