"""The report on a run: runs that are broken in one way each, and each limit from both sides."""

import json
import re
import warnings

import arviz as az
import models
import numpy as np
import pytest
import xarray as xr
from tiers import in_second_tier, in_third_tier

from numpyro_contour import diagnose, resample, to_inference_data
from numpyro_contour.diagnosis import (
    chain_checks,
    flattening_checks,
    mixing_checks,
    noise_checks,
    step_checks,
    warmup_checks,
    weight_checks,
)
from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.diagnosis.report import Report, unknown, verdict
from numpyro_contour.examples import faults
from numpyro_contour.statistics import scalars
from numpyro_contour.statistics.estimates import weighted_quantile

# --------------------------------------------------------------------------- runs


FIRST = ("healthy", "trapped chain")
THIRD = ("uneven weights",)
SECOND = [name for name in faults.RUNS if name not in FIRST + THIRD]


@pytest.mark.parametrize("name", [*FIRST, *map(in_second_tier, SECOND), *map(in_third_tier, THIRD)])
def test_the_fault_of_a_run_is_named_first(name):
    report = diagnose(faults.run(name))
    expected = faults.RUNS[name].check
    if expected is None:
        assert report.trusted, report
        assert {v.outcome for v in report.verdicts} == {"good"}
    else:
        assert report.faults[0].check == expected, report
        assert report.faults[0].advice


@pytest.mark.slow
@pytest.mark.parametrize("name", models.of_second_tier("ContourSGLD", among=models.KINDS))
def test_a_file_tells_what_the_run_tells(name, two_chains, tmp_path):
    idata = to_inference_data(two_chains(name))
    report = diagnose(idata)
    path = str(tmp_path / "run.nc")
    idata.to_netcdf(path)
    again = diagnose(az.from_netcdf(path))
    assert again.to_dict() == report.to_dict()
    assert diagnose(two_chains(name)).to_dict() == report.to_dict()
    assert report.title == f"{name}, 2 chains of 60 draws"
    # Sixty draws of a few steps each.
    assert report["length"].outcome == "bad"


@pytest.mark.slow
def test_a_bad_verdict_is_one_warning_at_the_users_line(two_chains):
    with pytest.warns(UserWarning, match=r"This run cannot be trusted: .* `diagnose`") as warned:
        to_inference_data(two_chains("ContourSGLD"))
    assert [w.filename for w in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a report that was asked for is not announced
        diagnose(two_chains("ContourSGLD"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SGLD", "ContourSGLD"])
def test_draws_without_the_rest_of_their_run_are_not_called_faultless(name, two_chains):
    """What ArviZ takes from NumPyro, and what was resampled, has not what the other checks need."""
    mcmc = two_chains(name)
    for data, why in (
        (az.from_numpyro(mcmc, log_likelihood=False), "`az.from_numpyro` takes the draws alone"),
        (resample(mcmc, keep_chains=True), "The draws were resampled"),
    ):
        report = diagnose(data)
        assert not report.trusted
        assert report["record"] in report.untold
        assert why in report["record"].finding
        rest = Report(report.title, tuple(v for v in report.verdicts if v.outcome != "bad"))
        assert rest.headline.startswith(f"No fault was found, but: {why}")
    assert "record" not in [v.check for v in diagnose(mcmc).verdicts]


def test_what_has_no_weights_is_refused():
    draws = xr.Dataset({"x": (("chain", "draw"), np.zeros((1, 10)))})
    with pytest.raises(ValueError, match="`data` takes the result of `to_inference_data`"):
        diagnose(draws)


# --------------------------------------------------------------------------- one check at a time

CHAINS, DRAWS, BINS = 4, 500, 20


def healthy(**changed):
    """Groups of a run without a fault, as a program would make them: a normal in two dimensions.

    `changed` replaces variables, or attributes of `sample_stats`.
    """
    rng = np.random.default_rng(0)
    x = rng.normal(size=(CHAINS, DRAWS, 2)) * 1.3
    energy = 0.5 * (x**2).sum(-1)
    log_weight = -energy + energy / 1.3**2
    edges = np.tile(np.linspace(0, 10, BINS + 1), (CHAINS, 1))
    theta = np.tile(np.diff(-np.exp(-edges[0])), (CHAINS, 1))
    theta /= theta.sum(1, keepdims=True)
    per_draw = {
        "log_weight": log_weight,
        "lp": -energy,
        "energy_bin": np.clip(energy / 0.5, 0, BINS - 1).astype(int),
        "lowest_energy": energy,
        "highest_energy": energy,
        "steps": np.tile(100 + 10 * np.arange(DRAWS), (CHAINS, 1)),
        "refused": np.full((CHAINS, DRAWS), 90),
        "clipped": np.full((CHAINS, DRAWS), 90),
        "bounded": np.full((CHAINS, DRAWS), 90),
        "x": x,
        "theta_trace": np.tile(theta[:, None], (1, DRAWS, 1)),
    }
    partition = {
        "lower_edge": edges[:, :-1],
        "upper_edge": edges[:, 1:],
        "partition_theta": theta,
        "visits": np.round(1000 * theta),
    }
    identity = {"ratio": np.ones(2), "mcse": np.full(2, 0.02), "mean_ratio": 1.0, "mean_mcse": 0.02}
    settings = {"temperature": 1.0, "step_size": 0.1, "theta": "learnt", "zeta": 0.75}
    for values in (per_draw, partition, identity, settings):
        values |= {name: new for name, new in changed.items() if name in values}
    settings |= {name: new for name, new in changed.items() if np.ndim(new) == 0}
    per_draw |= {
        name: new
        for name, new in changed.items()
        if np.ndim(new) and name not in partition and name not in identity
    }
    posterior = {"x": (("chain", "draw", "place"), per_draw.pop("x"))}
    bins = {"log_theta": (("chain", "draw", "bin"), np.log(per_draw.pop("theta_trace")))}
    partition["theta"] = partition.pop("partition_theta")
    dims = {"ratio": ("coordinate",), "mcse": ("coordinate",)}
    return {
        "posterior": xr.Dataset(posterior),
        "sample_stats": xr.Dataset(
            {name: (("chain", "draw"), x) for name, x in per_draw.items()} | bins, attrs=settings
        ),
        "energy_partition": xr.Dataset(
            {name: (("chain", "bin"), x) for name, x in partition.items()}
        ),
        "equipartition": xr.Dataset(
            {name: (dims.get(name, ()), x) for name, x in identity.items()},
            {"coordinate": ["x[0]", "x[1]"]},
        ),
    }


def of(check, groups):
    """The verdicts of one check by their names."""
    return {v.check: v for v in check(Evidence(groups))}


CHECKS = (
    step_checks.guard,
    step_checks.multiplier_bound,
    step_checks.equipartition,
    noise_checks.energy_noise,
    flattening_checks.partition,
    flattening_checks.against_draws,
    flattening_checks.drift,
    flattening_checks.spread,
    mixing_checks.length,
    mixing_checks.trips,
    chain_checks.agreement,
    chain_checks.spreads,
    mixing_checks.effective,
    weight_checks.weights,
    weight_checks.flatness,
)


def test_nothing_is_wrong_with_exact_draws():
    for check in CHECKS:
        for name, found in of(check, healthy()).items():
            assert found.outcome == "good", (name, found)
            assert not found.advice


def counted(share):
    """Counts that grow by a share of the steps, from a warm-up with many."""
    return (90 + share * 10 * np.arange(DRAWS)) * np.ones((CHAINS, 1))


def steps_up(share, chain=1):
    """Counts that grow in one chain only."""
    counts = counted(0.0)
    counts[chain] = counted(share)[0]
    return counts


@pytest.mark.parametrize(
    ("check", "name", "variable", "limit", "settings"),
    [
        (step_checks.guard, "refused moves", "refused", 0.01, {}),
        (step_checks.guard, "step size", "clipped", 0.02, {}),
        (step_checks.guard, "step size", "clipped", 0.05, {"step_size": "tuned"}),
        (step_checks.multiplier_bound, "multiplier bound", "bounded", 0.25, {}),
    ],
)
def test_shares_of_steps(check, name, variable, limit, settings):
    """While draws were collected: what the warm-up counted is not in them."""
    for share, outcome in ((0.9 * limit, "good"), (1.1 * limit, "bad")):
        found = of(check, healthy(**{variable: steps_up(share)}, **settings))[name]
        assert found.outcome == outcome
        np.testing.assert_allclose(found.figure, share)
        assert f"{share:.1%} of the steps of chain 1" in found.finding


@pytest.mark.parametrize("dim_explains", [True, False])
def test_a_multiplier_at_its_bound_where_modes_begin(dim_explains):
    """In one dimension theta falls steeply where modes begin: that is no fault."""
    stats = healthy()["sample_stats"]
    energy, log_weights = -stats["lp"].values, stats["log_weight"].values
    bulk = float(weighted_quantile(energy, log_weights, 0.9))
    # With a bound of 0.1 as much as 5 nats are explained, above the bulk.
    bound = 0.1 if dim_explains else -1.0
    limit = max(bulk, energy.min() + 0.75 / (0.25 - bound))
    assert (limit > bulk) == dim_explains
    for top, higher in ((limit, False), (energy.max(), True)):
        multipliers = np.where(energy <= top, bound, 0.2)
        groups = healthy(
            bounded=counted(1.0), gradient_multiplier=multipliers, multiplier_bound=bound
        )
        found = of(step_checks.multiplier_bound, groups)["multiplier bound"]
        beyond = ((energy > limit) & (energy <= top)).sum(1) / (energy <= top).sum(1)
        np.testing.assert_allclose(found.figure, beyond.max(), rtol=1e-6)
        assert (found.figure > 0) == higher


@pytest.mark.parametrize(
    ("ratio", "mcse", "mean", "outcome"),
    [
        ([1.19, 1.0], 0.01, 1.09, "good"),  # a small bias
        ([1.25, 1.0], 0.01, 1.12, "bad"),
        ([1.0, 0.75], 0.01, 0.88, "bad"),
        ([1.25, 1.0], 0.06, 1.12, "good"),  # within its error
        ([1.25, 1.26], 0.06, 1.255, "bad"),  # but not the mean
        ([1.0, np.nan], 0.02, 1.0, "bad"),
    ],
)
def test_variances(ratio, mcse, mean, outcome):
    groups = healthy(
        ratio=np.array(ratio), mcse=np.full(2, mcse), mean_ratio=mean, mean_mcse=mcse / 2
    )
    found = of(step_checks.equipartition, groups)["variances"]
    assert found.outcome == outcome
    if ratio == [1.0, 0.75]:
        assert found.finding.startswith("Draws of `x[1]` vary 0.75 +- 0.01 times as much")
        assert "`step_size`" in found.advice
    groups.pop("equipartition")
    assert of(step_checks.equipartition, groups)["variances"].outcome == "not checked"


def test_variances_of_the_papers_weights():
    groups = healthy(ratio=np.array([1.5, 1.0]), weight="piecewise")
    assert "weight='consistent'" in of(step_checks.equipartition, groups)["variances"].advice


@pytest.mark.parametrize(("bins", "outcome"), [(2.9, "good"), (3.1, "bad")])
def test_energy_noise_in_bins(bins, outcome):
    noise = np.full((CHAINS, DRAWS), 0.5 * bins)
    noise[:, ::3] *= 100  # rare noise is not typical
    groups = healthy(energy_noise=noise, potential_energy_estimate=noise)
    found = of(noise_checks.energy_noise, groups)["energy noise"]
    assert found.outcome == outcome
    np.testing.assert_allclose(found.figure, bins)


@pytest.mark.parametrize(
    ("nats", "temperature", "outcome"),
    [(9, 1, "good"), (11, 1, "bad"), (19, 2, "good"), (21, 2, "bad")],
)
def test_energy_noise_in_nats_where_bins_are_as_wide_as_the_noise(nats, temperature, outcome):
    noise = np.full((CHAINS, DRAWS), 1.0)
    noise[1] = nats
    wide = moved_edges(upper=10.0 * BINS)
    groups = healthy(energy_noise=noise, temperature=temperature, **wide)
    found = of(noise_checks.energy_noise, groups)["energy noise"]
    assert found.outcome == outcome
    if outcome == "bad":
        assert found.figure == nats
        assert f"chain 1 by {nats} nats, {nats / 10:g} bins" in found.finding
        assert f"(limit {10 * temperature} nats)" in found.finding


def test_energy_noise_with_a_control_variate_is_not_mended_by_one():
    groups = healthy(energy_noise=np.full((CHAINS, DRAWS), 30.0))
    assert "control_variate" in of(noise_checks.energy_noise, groups)["energy noise"].advice
    groups["warmup"] = xr.Dataset({"control_variate": (("chain",), np.ones(CHAINS))})
    assert "control_variate" not in of(noise_checks.energy_noise, groups)["energy noise"].advice


def test_energy_noise_where_the_model_cannot_have_a_control_variate():
    settings = {"energy": "None", "step_size": "tuned"}
    groups = healthy(energy_noise=np.full((CHAINS, DRAWS), 30.0), **settings)
    assert "control_variate" not in of(noise_checks.energy_noise, groups)["energy noise"].advice
    groups["sample_stats"].attrs["energy"] = "minibatch"
    assert "control_variate" in of(noise_checks.energy_noise, groups)["energy noise"].advice


def test_energy_noise_that_was_not_measured():
    groups = healthy(potential_energy_estimate=np.zeros((CHAINS, DRAWS)))
    assert of(noise_checks.energy_noise, groups)["energy noise"].outcome == "not checked"
    groups["warmup"] = xr.Dataset({"energy_noise": (("chain",), np.full(CHAINS, 9.0))})
    assert of(noise_checks.energy_noise, groups)["energy noise"].figure == 18.0


def test_one_anchor_for_several_modes():
    noise = np.full((CHAINS, DRAWS), 1.2)
    even = np.zeros((CHAINS, DRAWS))

    def anchor(noise, log_weight=even):
        groups = healthy(energy_noise=noise, log_weight=log_weight)
        groups["warmup"] = xr.Dataset({"control_variate": (("chain",), np.ones(CHAINS))})
        return of(noise_checks.anchors, groups)["anchor"]

    assert anchor(noise).outcome == "good"
    noise[0, :100] = 340.0
    assert anchor(noise).outcome == "bad"
    assert "1.2 nats in the median, but 340 nats in 5% of it" in anchor(noise).finding
    # Draws without weight do not count, nor noise that is high everywhere.
    weights = even.copy()
    weights[0, :100] = -8.0
    assert anchor(noise, weights).outcome == "good"
    assert anchor(np.full_like(noise, 340.0)).outcome == "good"
    assert not of(noise_checks.anchors, healthy(energy_noise=noise))


def moved_edges(**changed):
    lower = changed.get("lower", 0.0)
    upper = changed.get("upper", 10.0)
    edges = np.linspace(lower, upper, BINS + 1)
    edges = np.tile(edges, (CHAINS, 1))
    return {"lower_edge": edges[:, :-1], "upper_edge": edges[:, 1:]}


def test_partition_below():
    typical = Evidence(healthy()).typical_energy
    assert abs(typical - np.log(2)) < 0.06
    for above, outcome in ((2.9, "good"), (3.1, "bad")):
        groups = healthy(**moved_edges(lower=typical + above, upper=20.0))
        found = of(flattening_checks.partition, groups)["partition below"]
        assert found.outcome == outcome
        np.testing.assert_allclose(found.figure, above)
        # Of a posterior at twice the temperature half as many units.
        hot = healthy(temperature=2.0, **moved_edges(lower=typical + above, upper=20.0))
        assert of(flattening_checks.partition, hot)["partition below"].outcome == "good"


def test_partition_above():
    for share, outcome in ((0.019, "good"), (0.021, "bad")):
        visits = np.full((CHAINS, BINS), 50.0)
        visits[2, -1] += share / (1 - share) * visits[2].sum()
        found = of(flattening_checks.partition, healthy(visits=visits))["partition above"]
        assert found.outcome == outcome
        np.testing.assert_allclose(found.figure, share, rtol=1e-2)
        assert "chain 2" in found.finding


@pytest.mark.parametrize(
    ("empty", "found", "limit"), [(10, True, 0.3), (5, True, 0.02), (10, False, 0.02)]
)
def test_partition_above_where_heavy_tails_ended_it(empty, found, limit):
    """Bins that are left over lie below the others, in a partition that the warm-up found."""
    for factor, outcome in ((0.95, "good"), (1.05, "bad")):
        visits = np.full((CHAINS, BINS), 50.0)
        visits[:, :empty] = 0.0
        share = factor * limit
        visits[2, -1] += share / (1 - share) * visits[2].sum()
        groups = healthy(visits=visits)
        if found:
            groups["warmup"] = xr.Dataset({"lower_edge": (("chain",), np.zeros(CHAINS))})
        seen = of(flattening_checks.partition, groups)["partition above"]
        assert (seen.outcome, seen.limit) == (outcome, limit)


def test_bin_width():
    sd = Evidence(healthy()).energy_sd
    assert abs(sd - 1) < 0.1
    for widths, outcome in ((3.9, "good"), (4.1, "bad")):
        groups = healthy(**moved_edges(upper=widths * sd * BINS))
        found = of(flattening_checks.partition, groups)["bin width"]
        assert found.outcome == outcome
        np.testing.assert_allclose(found.figure, widths)
    assert "raise `num_bins`, or leave `partition`" in found.advice
    groups["warmup"] = xr.Dataset({"lower_edge": (("chain", "stage"), np.ones((CHAINS, 3)))})
    found = of(flattening_checks.partition, groups)["bin width"]
    assert "raise `num_warmup`, or give `partition`" in found.advice
    # Noise spreads the energies that the run saw; it has a check of its own.
    noise = np.full((CHAINS, DRAWS), 2.0 * sd)
    noisy = healthy(energy_noise=noise, **moved_edges(upper=8.0 * sd * BINS))
    found = of(flattening_checks.partition, noisy)["bin width"]
    np.testing.assert_allclose(found.figure, 8 / 5**0.5)


def learnt(theta, **settings):
    """Groups of a run with this theta in the mean; its last theta is nobody's."""
    last = np.full_like(theta, 1 / BINS)
    trace = np.tile(theta[:, None], (1, DRAWS, 1))
    return healthy(partition_theta=last, theta_trace=trace, **settings)


def test_theta_against_draws():
    theta = healthy()["energy_partition"]["theta"].values
    for moved, outcome in ((0.1, "good"), (0.3, "bad")):
        wrong = theta.copy()
        wrong[3] *= 1 - moved
        wrong[3, -1] += moved
        found = of(flattening_checks.against_draws, learnt(wrong))["theta against draws"]
        assert found.outcome == outcome
        assert abs(found.figure - moved) < 0.05
    given = healthy(partition_theta=wrong, theta="given")
    assert not of(flattening_checks.drift, given)
    assert not of(flattening_checks.spread, given)
    assert (
        "leave `theta`" in of(flattening_checks.against_draws, given)["theta against draws"].advice
    )
    papers = learnt(wrong, random_field="csgld")
    advice = of(flattening_checks.against_draws, papers)["theta against draws"].advice
    assert "random_field='consistent'" in advice
    # The theta of "scalable" is the masses to the power of 1 / zeta.
    powers = theta ** (1 / 0.75)
    powers /= powers.sum(1, keepdims=True)
    scalable = learnt(powers, random_field="scalable")
    assert of(flattening_checks.against_draws, scalable)["theta against draws"].figure < 0.05
    noisy = healthy(energy_noise=np.full((CHAINS, DRAWS), 0.3))
    found = of(flattening_checks.against_draws, noisy)["theta against draws"]
    assert found.outcome == "not checked"


def test_theta_over_time():
    for moved, outcome in ((0.14, "good"), (0.16, "bad")):
        trace = np.exp(healthy()["sample_stats"]["log_theta"].values)
        late = trace.copy()
        late[:3, 3 * DRAWS // 4 :] *= 1 - moved
        late[:3, 3 * DRAWS // 4 :, -1] += moved
        found = of(flattening_checks.drift, healthy(theta_trace=late))["theta over time"]
        assert found.outcome == outcome
        np.testing.assert_allclose(found.figure, moved, rtol=1e-2)
    # One chain that wanders is no drift.
    trace[0] = late[0]
    assert of(flattening_checks.drift, healthy(theta_trace=trace))["theta over time"].figure < 0.01
    groups = healthy()
    groups["sample_stats"] = groups["sample_stats"].drop_vars("log_theta")
    for check in (
        flattening_checks.drift,
        flattening_checks.against_draws,
        flattening_checks.spread,
    ):
        (found,) = of(check, groups).values()
        assert found.outcome == "not checked"
        assert "`collect_theta=True`" in found.finding


def test_theta_between_chains():
    theta = healthy()["energy_partition"]["theta"].values
    for moved, outcome in ((0.25, "good"), (0.28, "bad")):  # three quarters from the mean
        wrong = theta.copy()
        wrong[1] *= 1 - moved
        wrong[1, -1] += moved
        found = of(flattening_checks.spread, learnt(wrong))["theta between chains"]
        assert found.outcome == outcome
        np.testing.assert_allclose(found.figure, 0.75 * moved, rtol=1e-2)
        assert "chain 1" in found.finding


def autoregressive(effective, seed=0):
    """Draws of which so many in all chains are independent."""
    tau = CHAINS * DRAWS / effective
    r = (tau - 1) / (tau + 1)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(CHAINS, DRAWS))
    for t in range(1, DRAWS):
        x[:, t] = r * x[:, t - 1] + (1 - r**2) ** 0.5 * x[:, t]
    return x


def test_length():
    for effective, outcome in ((100, "bad"), (400, "good")):
        x = healthy()["posterior"]["x"].values
        x[..., 1] = autoregressive(effective)
        found = of(mixing_checks.length, healthy(x=x))["length"]
        assert found.outcome == outcome
        assert found.figure == pytest.approx(effective, rel=0.5)
        assert "`x[1]`" in found.finding
        # Where the chains are does not enter, nor do weights.
        x[..., 1] += 100 * np.arange(CHAINS)[:, None]
        elsewhere = healthy(x=x, log_weight=np.zeros((CHAINS, DRAWS)))
        same = of(mixing_checks.length, elsewhere)["length"]
        np.testing.assert_allclose(same.figure, found.figure)


def test_length_finds_the_worst_of_many_coordinates():
    x = np.random.default_rng(1).normal(size=(CHAINS, DRAWS, 200))
    x[..., 137] = autoregressive(40)
    groups = healthy()
    groups["posterior"] = xr.Dataset({"x": (("chain", "draw", "place"), x)})
    assert "`x[137]`" in of(mixing_checks.length, groups)["length"].finding


def test_very_many_coordinates_are_looked_at_in_part(monkeypatch):
    x = np.random.default_rng(1).normal(size=(CHAINS, DRAWS, 3, 7))
    x[..., 2, 6] = autoregressive(40)  # the 21st: every tenth is taken
    groups = healthy()
    groups["posterior"] = xr.Dataset(
        {"x": (("chain", "draw", "i", "j"), x), "name": (("place",), ["a", "b"])}
    )
    assert "`x[2, 6]`" in of(mixing_checks.length, groups)["length"].finding
    monkeypatch.setattr(scalars, "_MOST_COORDINATES", 3)
    assert "`x[2, 6]`" not in of(mixing_checks.length, groups)["length"].finding
    x[..., 1, 0] = x[..., 2, 6]
    assert "`x[1, 0]`" in of(mixing_checks.length, groups)["length"].finding


def test_few_draws_are_too_few():
    groups = {
        name: group.isel(draw=slice(5), missing_dims="ignore") for name, group in healthy().items()
    }
    assert of(mixing_checks.length, groups)["length"].outcome == "bad"
    assert of(chain_checks.agreement, groups)["chains"].outcome == "not checked"


def test_round_trips():
    energy = -healthy()["sample_stats"]["lp"].values
    stuck = energy.copy()
    stuck[2] = 9.0 + 0.1 * energy[2]
    found = of(mixing_checks.trips, healthy(lowest_energy=stuck, highest_energy=stuck))
    assert found["round trips"].outcome == "bad"
    assert found["round trips"].figure == 0
    assert "Chain 2 went 0 times" in found["round trips"].finding
    assert of(mixing_checks.trips, healthy())["round trips"].figure > 20
    # A window that reaches from typical energies up is enough for one way.
    wide = of(mixing_checks.trips, healthy(lowest_energy=0 * energy))["round trips"]
    assert wide.outcome == "good"
    # A chain need not go as high as the others do,
    less = np.where(np.arange(CHAINS)[:, None] == 2, energy, 5 * energy)
    assert of(mixing_checks.trips, healthy(highest_energy=less))["round trips"].outcome == "good"
    # but at least above typical energies.
    flat = np.where(np.arange(CHAINS)[:, None] == 2, 0.1 * energy, energy)
    found = of(mixing_checks.trips, healthy(lowest_energy=flat, highest_energy=flat))
    assert found["round trips"].figure == 0


def test_chains_disagree():
    x = healthy()["posterior"]["x"].values
    assert of(chain_checks.agreement, healthy(x=x))["chains"].figure < 1.02
    x[3, :, 0] += 2.5
    found = of(chain_checks.agreement, healthy(x=x))["chains"]
    assert found.outcome == "bad"
    assert "R-hat of `x[0]`" in found.finding
    assert "in chain 3" in found.advice
    one = {name: group.isel(chain=[0], missing_dims="ignore") for name, group in healthy().items()}
    assert of(chain_checks.agreement, one)["chains"].outcome == "not checked"


def test_chains_agree_only_with_their_weights():
    """A chain that samples another density agrees where its weights correct it."""
    groups = healthy()
    x, log_weight = groups["posterior"]["x"].values, groups["sample_stats"]["log_weight"].values
    wide = np.random.default_rng(5).normal(size=(DRAWS, 2)) * 3.0
    x[0] = wide
    unweighted = of(chain_checks.agreement, healthy(x=x))["chains"]
    log_weight[0] = -0.5 * (wide**2).sum(-1) * (1 - 1 / 9)
    weighted = of(chain_checks.agreement, healthy(x=x, log_weight=log_weight))["chains"]
    assert weighted.figure < 1.05 < unweighted.figure


def test_spread_of_chains():
    """A chain that is wider than the others, most of all in tails that ranks do not see."""
    x = healthy()["posterior"]["x"].values
    for far, outcome in ((1.4, "good"), (2.2, "bad")):
        wide = x.copy()
        # Of a standard deviation r times the others' the mean variance is (3 + r**2) / 4.
        wide[1, :, 1] *= far
        expected = far / ((3 + far**2) / 4) ** 0.5
        found = of(chain_checks.spreads, healthy(x=wide))["spread of chains"]
        assert found.outcome == outcome
        assert found.figure == pytest.approx(expected, rel=0.1)
        assert "`x[1]`" in found.finding
        assert "larger in chain 1" in found.finding
    narrow = x.copy()
    narrow[3, :, 0] *= 0.4
    found = of(chain_checks.spreads, healthy(x=narrow))["spread of chains"]
    assert "smaller in chain 3" in found.finding
    tail = x.copy()
    tail[0, 7, 0] = 60.0
    weights = np.zeros((CHAINS, DRAWS))
    groups = healthy(x=tail, log_weight=weights)
    assert of(chain_checks.agreement, groups)["chains"].outcome == "good"
    assert of(chain_checks.spreads, groups)["spread of chains"].outcome == "bad"
    # Without weight it is nowhere.
    weights[0, 7] = -np.inf
    groups = healthy(x=tail, log_weight=weights)
    assert of(chain_checks.spreads, groups)["spread of chains"].outcome == "good"


def test_effective_draws():
    x = np.random.default_rng(1).normal(size=(CHAINS, DRAWS, 50))
    even = np.zeros((CHAINS, DRAWS))
    for effective, outcome in ((45, "bad"), (250, "good")):
        x[..., 17] = autoregressive(effective)
        groups = healthy(log_weight=even)
        groups["posterior"] = xr.Dataset({"x": (("chain", "draw", "place"), x)})
        found = of(mixing_checks.effective, groups)["effective draws"]
        assert found.outcome == outcome
        assert "mean of `x[17]`" in found.finding
        assert found.figure == pytest.approx(effective, rel=0.5)
    # Signs that change at every draw leave the mean precise, and slow magnitudes nothing else.
    signs = np.random.default_rng(2).choice([-1, 1], size=(CHAINS, DRAWS))
    x[..., 17] = signs * np.exp(0.5 * autoregressive(30))
    groups["posterior"] = xr.Dataset({"x": (("chain", "draw", "place"), x)})
    found = of(mixing_checks.effective, groups)["effective draws"]
    assert found.outcome == "bad"
    assert "standard deviation of `x[17]`" in found.finding
    # Uneven weights leave few draws of any variable.
    uneven = even.copy()
    uneven[:, ::50] = 6.0
    groups["sample_stats"]["log_weight"] = (("chain", "draw"), uneven)
    assert of(mixing_checks.effective, groups)["effective draws"].outcome == "bad"


def test_weights_by_bin():
    assert not of(weight_checks.by_bin, healthy())
    for width, outcome in ((0.45, "good"), (0.48, "bad")):  # 0.1 sqrt(12) / 0.75 is 0.46
        groups = healthy(weight="piecewise", **moved_edges(upper=width * BINS))
        found = of(weight_checks.by_bin, groups)["weights by bin"]
        assert found.outcome == outcome
        np.testing.assert_allclose(found.figure, 0.75 * width / 12**0.5)
        hot = healthy(weight="piecewise", temperature=2.0, **moved_edges(upper=width * BINS))
        assert of(weight_checks.by_bin, hot)["weights by bin"].outcome == "good"


def test_multipliers_where_psi_may_rise():
    multiplier = np.ones((CHAINS, DRAWS))
    for share, outcome in ((0.008, "good"), (0.012, "bad")):
        multiplier[2, : int(share * DRAWS)] = 3.1
        assert not of(step_checks.multiplier, healthy(gradient_multiplier=multiplier))
        groups = healthy(gradient_multiplier=multiplier, one_sided=0)
        found = of(step_checks.multiplier, groups)["multiplier"]
        assert found.outcome == outcome
        np.testing.assert_allclose(found.figure, share)
        assert "chain 2" in found.finding


def test_uneven_weights():
    for share, outcome in ((0.06, "good"), (0.04, "bad")):
        log_weight = np.full((CHAINS, DRAWS), -50.0)
        log_weight[:, : int(share * DRAWS)] = 0.0
        found = of(weight_checks.weights, healthy(log_weight=log_weight))["weights"]
        assert found.outcome == outcome
        np.testing.assert_allclose(found.figure, share)


def test_heavy_tails_of_weights():
    log_weight = np.random.default_rng(5).exponential(0.8, size=(CHAINS, DRAWS))
    found = of(weight_checks.weights, healthy(log_weight=log_weight))["weights"]
    assert found.outcome == "bad"
    assert found.limit == 0.7
    assert 0.7 < found.figure < 1.3


def test_chains_without_weights_and_weights_that_are_no_numbers():
    none = np.zeros((CHAINS, DRAWS))
    none[1] = -np.inf
    found = of(weight_checks.weights, healthy(log_weight=none))["weights"]
    assert found.finding == "No draw of chain 1 has any weight."
    broken = np.zeros((CHAINS, DRAWS))
    broken[0, 7] = np.nan
    found = of(weight_checks.weights, healthy(log_weight=broken))["weights"]
    assert found.finding == "1 of the 2000 log weights are not numbers."
    energy = healthy()["sample_stats"]["lp"].values
    energy[0, 7] = np.nan
    for check in CHECKS:
        of(check, healthy(log_weight=none))
        of(check, healthy(log_weight=broken, lp=energy))


def test_final_temperature():
    assert not of(step_checks.final_temperature, healthy())
    temperature = np.full((CHAINS, DRAWS), 2.0)
    for share, outcome in ((0.08, "bad"), (0.12, "good")):
        temperature[:, -int(share * DRAWS) :] = 1.0
        groups = healthy()
        groups["sample_stats"]["temperature"] = (("chain", "draw"), temperature)
        found = of(step_checks.final_temperature, groups)["temperature"]
        assert found.outcome == outcome
        np.testing.assert_allclose(found.figure, share)
        assert Evidence(groups).temperature == 1.0


def test_swaps():
    for rate, outcome in ((0.004, "bad"), (0.006, "good")):
        groups = healthy()
        rates = np.full((CHAINS, DRAWS, 2), 0.3)
        rates[:, -1, 1] = rate
        groups["sample_stats"]["swap_rates"] = (("chain", "draw", "pair"), rates)
        found = of(step_checks.swaps, groups)["swaps"]
        assert found.outcome == outcome
        assert found.finding.startswith(f"Replicas 1 and 2 made {rate:.2%}")


STAGES = ("descent", "tune", "tune", "pilot", "window", "learn")


def warmed_up(**changed):
    """A warm-up that found what it was to find."""
    shape = (CHAINS, len(STAGES))
    stages = {
        "energy": np.tile([10.0, 5.0, 2.0, 2.0, 2.1, 2.0], (CHAINS, 1)),
        "energy_sd": np.full(shape, 1.0),
        "acceptance": np.full(shape, 0.9),
    }
    chains = {"ended": np.ones(CHAINS), "moved": np.ones(CHAINS)}
    coordinates = {
        "relaxation_times": np.full((CHAINS, 2), 50.0),
        "preconditioner": np.ones((CHAINS, 2)),
        "gradient_noise": np.ones((CHAINS, 2)),
    }
    values = {}
    for dims, group in (
        (("chain", "stage"), stages),
        (("chain",), chains),
        (("chain", "coordinate"), coordinates),
    ):
        values |= {name: (dims, changed.get(name, x)) for name, x in group.items()}
    coords = {
        "stage": [f"{i + 1} {name}" for i, name in enumerate(STAGES)],
        "coordinate": ["a", "b"],
    }
    attributes = {"num_warmup": 300, "target_acceptance": 0.9}
    return healthy() | {"warmup": xr.Dataset(values, coords, attributes)}


def at(value, chain, column, base):
    array = np.array(base, float)
    array[chain, column] = value
    return array


ENERGY = warmed_up()["warmup"]["energy"].values
ONES = np.ones((CHAINS, len(STAGES)))


def above(nats):
    """The energies with those of chain 2 so much above the others."""
    return at(ENERGY[2] + nats, 2, slice(None), ENERGY)


PAIRS = np.ones((CHAINS, 2))


@pytest.mark.parametrize(
    ("changed", "check", "words"),
    [
        ({}, None, "300 draws found"),
        ({"ended": np.array([1, 1, 0, 1])}, "warm-up", "has not ended"),
        ({"energy": at(np.nan, 1, -1, ENERGY)}, "warm-up", "energy of chain 1 was not finite"),
        ({"moved": np.array([1, 1, 1, 0])}, "warm-up", "Chain 3 did not move"),
        ({"energy": above(11.0)}, "warm-up", "chain 2 was 11 nats above that of chain 0"),
        ({"energy": above(9.0)}, None, "found what"),
        # Five standard deviations are more than ten nats.
        ({"energy": above(11.0), "energy_sd": 3.0 * ONES}, None, "found what"),
        # A mode with ten times the room in both coordinates may be 2.3 nats higher.
        ({"energy": above(11.0), "preconditioner": at(10.0, 2, slice(None), PAIRS)}, None, "found"),
        ({"acceptance": at(0.59, 1, 2, 0.9 * ONES)}, "warm-up", "for chain 1: moves .* of 0.59"),
        ({"acceptance": at(0.61, 1, 2, 0.9 * ONES)}, None, "found what"),
        ({"acceptance": at(0.5, 1, 1, 0.9 * ONES)}, None, "found what"),  # not the last window
        ({"energy_sd": at(6.1, 0, -1, ONES)}, "warm-up", "chain 0 are of the wrong width"),
        ({"energy_sd": at(0.14, 0, -1, ONES)}, "warm-up", "chain 0 are of the wrong width"),
        ({"energy_sd": at(5.9, 0, -1, ONES)}, None, "found what"),
        ({"energy_sd": at(0.16, 0, -1, ONES)}, None, "found what"),
        ({"relaxation_times": at(9.0, 3, 1, 50 * PAIRS)}, "gradient noise", "`b` of chain 3 had"),
        ({"relaxation_times": at(11.0, 3, 1, 50 * PAIRS)}, None, "found what"),
        (
            # Few relaxations for another reason than noise: V M / tau is below a half.
            {
                "relaxation_times": at(9.0, 3, 1, 50 * PAIRS),
                "gradient_noise": at(0.7, 3, 1, PAIRS),
            },
            None,
            "found what",
        ),
    ],
)
def test_warmup(changed, check, words):
    verdicts = warmup_checks.warmup(Evidence(warmed_up(**changed)))
    faults_found = [v for v in verdicts if v.outcome == "bad"]
    assert [v.check for v in faults_found] == ([] if check is None else [check])
    assert len(verdicts) == 1
    assert re.search(words, verdicts[0].finding)


@pytest.mark.parametrize(
    ("fall", "after", "is_bad"),
    [
        (2.1, 1.1, True),
        (1.9, 1.1, False),
        # A first jump into a deeper mode, in which the chain stays; or the end of a climb.
        (9.0, 0.9, False),
    ],
)
@pytest.mark.parametrize("stage", ["settle", "window"])
def test_a_fall_that_goes_on(stage, fall, after, is_bad):
    before = {"settle": 2, "window": -2}[stage]
    groups = warmed_up(energy=at(2.0 + fall, 1, before, ENERGY))
    if stage == "settle":
        stages = [f"{i + 1} {name}" for i, name in enumerate(STAGES)]
        stages[2] = "3 settle"
        groups["warmup"] = groups["warmup"].assign_coords(stage=stages)
    stats = groups["sample_stats"]
    # The energy in the stage after, whose standard deviation is 1, is 2.
    groups["sample_stats"] = stats.assign(lp=xr.full_like(stats["log_weight"], after - 2.0))
    (found,) = warmup_checks.warmup(Evidence(groups))
    assert (found.outcome == "bad") is is_bad
    assert ("of chain 1 was still falling" in found.finding) is is_bad


def test_a_chain_at_the_place_of_another_is_told():
    groups = warmed_up()
    groups["warmup"]["taken_from"] = (("chain",), np.array([-1, 3, -1, -1]))
    (found,) = warmup_checks.warmup(Evidence(groups))
    assert found.outcome == "good"
    assert "Chain 1 began at the place of chain 3" in found.finding


# --------------------------------------------------------------------------- the report

REPORT = Report(
    "ContourSGLD, 2 chains of 10 draws",
    (
        verdict("first", 0.5, 1.0, False, "All is well.", "Change nothing."),
        unknown("second", "It was not looked at."),
        verdict("third", 2.0, 1.0, True, "2 is more than 1 & <that>.", "Lower `it`."),
        verdict("fourth", 3.0, 1.0, True, "More.", "Lower `this`."),
    ),
)


def test_report_as_text():
    assert repr(REPORT).splitlines() == [
        "ContourSGLD, 2 chains of 10 draws",
        "2 faults: third, fourth.",
        "",
        " BAD  third: 2 is more than 1 & <that>. Lower `it`.",
        " BAD  fourth: More. Lower `this`.",
        "  ok  first: All is well.",
        "   ?  second: It was not looked at.",
    ]
    assert REPORT.warning() == (
        "This run cannot be trusted: third. 2 is more than 1 & <that>. Lower `it`. Further: "
        "fourth. `diagnose` has the whole report."
    )
    healthy_report = Report("SGLD", REPORT.verdicts[:2])
    assert healthy_report.trusted
    assert not REPORT.trusted
    assert "No fault was found." in repr(healthy_report)


def test_report_for_notebooks():
    table = REPORT._repr_html_()
    assert "2 is more than 1 &amp; &lt;that&gt;." in table
    assert table.index("third") < table.index("first") < table.index("second")
    assert table.count("<tr>") == 5
    cells = re.findall(r"<t[dh] style=\"([^\"]*)\">", table)
    assert len(cells) == 25
    assert all("padding: 0.3em 1.2em" in style for style in cells)
    # A column has one side for its header and its cells: figure and limit the right one.
    sides = [re.search("text-align: (left|right)", style)[1] for style in cells]
    assert sides == ["left", "left", "right", "right", "left"] * 5


def test_large_figures_of_a_report_are_not_powers_of_ten():
    shown = [
        verdict("length", 2982.4, 200.0, False, "", ""),
        verdict("x", 4e-5, 3e7, False, "", ""),
    ]
    table = Report("SGLD", tuple(shown))._repr_html_()
    for number in ("2,982", "200", "4e-05", "3e+07"):
        assert f">{number}</td>" in table


def test_report_for_programs():
    found = json.loads(json.dumps(REPORT.to_dict()))
    assert (found["title"], found["trusted"]) == (REPORT.title, False)
    assert [v["check"] for v in found["verdicts"]] == ["first", "second", "third", "fourth"]
    assert found["verdicts"][1]["figure"] is None
    assert found["verdicts"][2] == {
        "check": "third",
        "outcome": "bad",
        "figure": 2.0,
        "limit": 1.0,
        "finding": "2 is more than 1 & <that>.",
        "advice": "Lower `it`.",
    }
    assert REPORT["third"].figure == 2.0
    with pytest.raises(KeyError, match="fifth"):
        REPORT["fifth"]
