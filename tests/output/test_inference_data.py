"""Weights of a finished run, and the run as ArviZ's InferenceData or, from 1.0, DataTree."""

import functools
import warnings

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
from tiers import in_second_tier, in_third_tier
from weighted_runs import weighted_only

from numpyro_contour import (
    SGLD,
    ContourSGLD,
    EnergyPartition,
    resample,
    robbins_monro,
    summary,
    to_inference_data,
    weighted_samples,
)
from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour.examples import mixture
from numpyro_contour.runs.finished_run import FinishedRun

SMALL_GAIN = robbins_monro(1.0, 0.8, 100)  # with which theta hardly moves
PARTITION = EnergyPartition(0.0, 20.0, 20)  # that of `models.nested_kernel`
COUNTS = {"steps", "diverging", "refused", "clipped"}
STATS = {"potential_energy_estimate", "step_size", "log_weight"} | COUNTS
EXACT_STATS = {"lp", "energy", "step_size", "log_weight"} | COUNTS
CONTOUR = {"energy_bin", "gradient_multiplier", "lowest_energy", "highest_energy", "bounded"}
CONTOUR |= {"log_normaliser"}
FULL_STATS = {"lp", "energy", "energy_noise"}
CONTOUR_STATS = STATS | FULL_STATS | CONTOUR | {"log_theta"}


@functools.cache
def nested_run(chains=2, thinning=1, **arguments):
    """Chains side by side on the nested pytree, which start far apart."""
    far = jnp.linspace(1.0, 2.0, chains) if chains > 1 else 1.0
    return models.run(
        models.nested_kernel("ContourSGLD", **arguments),
        0,
        warmup=0,
        init_params=jax.tree.map(lambda x: jnp.multiply.outer(far, x), models.NESTED_START),
        chains=chains,
        chain_method="vectorized" if chains > 1 else "sequential",
        thinning=thinning,
    )


def fields_of(mcmc):
    fields = mcmc.get_extra_fields(group_by_chain=True)
    return {name: np.asarray(value, np.float64) for name, value in fields.items()}


def log_psi(log_theta, energy, zeta=0.75, offset=0.0, one_sided=True, bound=-1.0):
    """The flattening function by its definition, one node after the other."""
    node = np.array(log_theta, np.float64)
    if one_sided:
        node = np.maximum.accumulate(node[::-1])[::-1]
    if bound is not None:
        for j in range(1, len(node)):
            node[j] = max(node[j], node[j - 1] - (1 - bound) * PARTITION.width / zeta)
    places = PARTITION.lower + PARTITION.width * (np.arange(len(node)) + offset)
    return np.interp(energy, places, node)  # constant outside the nodes


def without_normaliser(fields):
    """The weights by Psi alone."""
    return fields["log_weight"] - fields["log_normaliser"]


def normalised(log_weight):
    """Weights of mean 1 in each chain, one chain after the other."""
    return np.stack([chain - np.log(np.exp(chain).mean()) for chain in log_weight])


# --------------------------------------------------------------------------- weights

SHAPES = {
    "as given": ({}, {}),
    "midpoint": ({"interpolation": "midpoint", "zeta": 0.4}, {"offset": 0.5, "zeta": 0.4}),
    "backward, bare": (
        {"interpolation": "backward", "one_sided": False, "multiplier_bound": None},
        {"offset": 1.0, "one_sided": False, "bound": None},
    ),
    "tight bound": ({"multiplier_bound": 0.5, "zeta": 1.0}, {"bound": 0.5, "zeta": 1.0}),
}


def weights_by_definition(log_theta, energy, **shape):
    """zeta log Psi, by one theta for each energy."""
    chains = zip(log_theta, energy)
    psi = [[log_psi(t, u, **shape) for t, u in zip(*chain)] for chain in chains]
    return shape.get("zeta", 0.75) * np.array(psi)


@pytest.mark.filterwarnings("ignore:.*multiplier_bound")
@pytest.mark.parametrize("name", [next(iter(SHAPES)), *map(in_second_tier, list(SHAPES)[1:])])
def test_a_draw_is_weighed_by_theta_before_the_draw_changed_it(name):
    arguments, shape = SHAPES[name]
    mcmc = nested_run(**arguments)
    fields = fields_of(mcmc)
    energy, log_theta = fields["potential_energy_estimate"], fields["log_theta"]
    before = weights_by_definition(log_theta[:, :-1], energy[:, 1:], **shape)
    own = without_normaliser(fields)[:, 1:]
    np.testing.assert_allclose(own, before, atol=2e-4)
    # It can fail: theta as the draw left it gives other weights.
    after = weights_by_definition(log_theta[:, 1:], energy[:, 1:], **shape)
    assert (np.abs(own - after) > 2e-3).mean() > 0.5

    samples, log_weights = weighted_samples(mcmc)
    assert log_weights.shape == samples["c"][1].shape == (2, 60)
    np.testing.assert_allclose(log_weights, normalised(fields["log_weight"]), atol=1e-12)
    np.testing.assert_allclose(np.exp(log_weights).mean(axis=1), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(log_weights, weighted_samples(mcmc, energy="estimate")[1])


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{}, in_third_tier({"chains": 1}), {"num_steps": 10}])
def test_final_theta(arguments):
    """A draw's own weight is taken by the last theta; its share of a window stays."""
    mcmc = nested_run(gain=SMALL_GAIN, **arguments)
    fields = fields_of(mcmc)
    energy = fields["potential_energy_estimate"]
    last = np.broadcast_to(fields["log_theta"][:, -1:], fields["log_theta"].shape)
    expected = weights_by_definition(last, energy)
    share = fields["log_weight"] - fields["draw_log_weight"]
    assert share.any() == ("num_steps" in arguments)
    _, found = weighted_samples(mcmc, theta="final")
    np.testing.assert_allclose(found, normalised(expected + share), atol=5e-4)
    # It can fail: theta of the time gives other weights, with and without its normaliser.
    assert np.abs(found - normalised(without_normaliser(fields))).max() > 0.1
    assert np.abs(found - weighted_samples(mcmc)[1]).max() > 0.05
    np.testing.assert_array_equal(
        weighted_only(to_inference_data(mcmc, theta="final"))["sample_stats"]["log_weight"], found
    )


def test_final_theta_is_refused_where_theta_still_moves():
    """It would weigh draws by what did not shape them."""
    mcmc = nested_run()
    fields = fields_of(mcmc)
    energy = fields["potential_energy_estimate"]
    last = np.broadcast_to(fields["log_theta"][:, -1:], fields["log_theta"].shape)
    change = normalised(weights_by_definition(last, energy)) - normalised(fields["log_weight"])
    weights = np.exp(normalised(fields["log_weight"]))
    mean = (weights * change).mean(1, keepdims=True)
    sd = ((weights * (change - mean) ** 2).mean(1) ** 0.5).max()
    assert sd > 0.2
    message = rf"`theta` takes 'final' only where .* would change by {sd:.2f} .* `num_warmup`"
    for function in (weighted_samples, to_inference_data):
        with pytest.raises(ValueError, match=message):
            function(mcmc, theta="final")


def test_piecewise_weights_are_those_of_the_bin():
    fields = fields_of(nested_run(weight="piecewise"))
    bins = fields["energy_bin"].astype(int)
    theta = np.take_along_axis(fields["log_theta"][:, :-1], bins[:, 1:, None], axis=2)[..., 0]
    np.testing.assert_allclose(fields["log_weight"][:, 1:], 0.75 * theta, atol=1e-4)


@pytest.mark.slow
def test_thinning_keeps_every_third_weight():
    everything, thinned = nested_run(chains=1), nested_run(chains=1, thinning=3)
    raw = fields_of(everything)["log_weight"][:, 2::3]
    np.testing.assert_allclose(weighted_samples(thinned)[1], normalised(raw), atol=1e-12)
    kept, every = (
        weighted_only(to_inference_data(run))["sample_stats"]["log_theta"].values
        for run in (thinned, everything)
    )
    np.testing.assert_array_equal(kept, every[:, 2::3])


@pytest.mark.slow
def test_without_the_weights_the_answer_is_wrong():
    """0.4 N(-6, 1) + 0.6 N(4, 1): the mass of a mode, and of what is 2 sd from both centres."""
    chains = 16
    kernel = ContourSGLD(
        potential_fn=mixture.potential,
        step_size=0.1,
        num_steps=50,
        draw="last",
        partition=EnergyPartition(0.0, 20.0, 40),
    )
    mcmc = models.run(
        kernel,
        0,
        warmup=500,
        samples=2000,
        init_params=jnp.full(chains, -6.0),
        chains=chains,
        chain_method="vectorized",
    )
    x, log_weights = weighted_samples(mcmc)
    weights = np.exp(log_weights)
    share = 1 / (weights**2).mean()  # Kish: of the draws, how many they are worth
    assert 0.1 < share < 0.7
    far = np.minimum(np.abs(x + 6), np.abs(x - 4)) > 2
    for event, exact in ((x > mixture.DIVIDE, mixture.MASS), (far, 2 * stats.norm.cdf(-2))):
        by_chain = (weights * event).mean(1)
        error = by_chain.std(ddof=1) / chains**0.5
        assert error < 0.02
        assert abs(by_chain.mean() - exact) < 4 * error + 0.003  # of the step size
    assert far.mean() > 5 * exact


# --------------------------------------------------------------------------- warnings


def walled(x):
    return jnp.where(x < 0, jnp.inf, x**2 / 2)


@functools.cache
def refusing_run(kernel_class, **arguments):
    if kernel_class is ContourSGLD:
        # A zeta so low that no multiplier reaches its bound: one warning at a time.
        arguments |= {"partition": EnergyPartition(0.0, 5.0, 10), "zeta": 0.2, "gain": SMALL_GAIN}
    kernel = kernel_class(potential_fn=walled, step_size=0.3, **arguments)
    start = jnp.array([1.0, 2.0])
    return models.run(kernel, 0, warmup=0, init_params=start, chains=2, chain_method="vectorized")


@pytest.mark.parametrize("kernel_class", [SGLD, ContourSGLD])
@pytest.mark.parametrize("theta", ["online", in_second_tier("final")])
def test_refused_moves_weigh_nothing_and_are_reported(kernel_class, theta):
    mcmc = refusing_run(kernel_class)
    refused = np.asarray(mcmc.last_state.sampler.chain.guard.refused)
    assert refused.min() > 0
    counted = np.asarray(mcmc.get_extra_fields(group_by_chain=True)["refused"])
    shares = (counted[:, -1] - counted[:, 0]) / 59  # steps from the first draw to the last
    chain, share = shares.argmax(), shares.max()
    message = rf"{share:.1%} of the steps of chain {chain}: moves were refused .* `step_size`"
    with pytest.warns(UserWarning, match=message) as warned:
        samples, log_weights = weighted_samples(mcmc, theta=theta)
    assert warned[0].filename == __file__
    message = rf"This run cannot be trusted: refused moves\. .*{message}.* `diagnose`"
    with pytest.warns(UserWarning, match=message) as warned:
        to_inference_data(mcmc, theta=theta)
    assert [w.filename for w in warned] == [__file__]
    assert np.isneginf(log_weights).sum(axis=1).tolist() == refused.tolist()
    # A refused attempt leaves the chain where it was.
    stays = np.diff(samples, axis=1) == 0
    np.testing.assert_array_equal(np.isneginf(log_weights[:, 1:]), stays)
    np.testing.assert_allclose(np.exp(log_weights).mean(axis=1), 1.0, rtol=1e-12)


def test_a_window_with_one_move_has_a_weight():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, log_weights = weighted_samples(refusing_run(ContourSGLD, num_steps=20))
    assert np.isfinite(log_weights).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda: models.nested_kernel("SGLD", step_size=4.0), "drifts were clipped"),
        (
            lambda: models.nested_kernel("ContourSGLD", multiplier_bound=0.99),
            "multipliers were decided by `multiplier_bound`",
        ),
    ],
)
def test_what_else_is_reported(kernel, message):
    mcmc = models.run(kernel(), 0, init_params=models.NESTED_START)
    with pytest.warns(UserWarning, match=rf"% of the steps of chain 0: .*{message}"):
        to_inference_data(mcmc)


# --------------------------------------------------------------------------- InferenceData
# The shared runs on constrained sites are short: they start far out, where drifts are clipped.
clipped_at_first = pytest.mark.filterwarnings("ignore:.*drifts were clipped")


def groups_of(idata):
    """The groups of an InferenceData of arviz 0.23, or of a DataTree."""
    return set(idata.groups()) if callable(idata.groups) else set(idata.children)


@clipped_at_first
@pytest.mark.parametrize(
    ("name", "variables"), [in_second_tier("SGLD", STATS), ("ContourSGLD", CONTOUR_STATS)]
)
def test_groups_variables_and_dimensions(name, variables, constrained_runs):
    mcmc = constrained_runs(name)
    idata = to_inference_data(mcmc)
    groups = {
        "posterior",
        "sample_stats",
        "observed_data",
        "equipartition",
        "gradient",
        "curvature",
    }
    more = {"energy_partition", "weighted_posterior", "weighted_sample_stats"}
    assert groups_of(idata) == groups | (more if name == "ContourSGLD" else set())
    idata = weighted_only(idata)
    draws = {"scale": (), "upper": (), "inside": (), "twice": (), "shares": ("shares_dim_0",)}
    assert {k: v.dims for k, v in idata["posterior"].data_vars.items()} == {
        site: ("chain", "draw", *dims) for site, dims in draws.items()
    }
    for site, values in weighted_samples(mcmc)[0].items():
        np.testing.assert_array_equal(idata["posterior"][site], values)

    sample_stats = idata["sample_stats"]
    dims = {k: v.dims for k, v in sample_stats.data_vars.items()}
    assert dims.pop("log_theta", None) in (None, ("chain", "draw", "bin"))
    assert dims == dict.fromkeys(variables - {"log_theta"}, ("chain", "draw"))
    np.testing.assert_array_equal(sample_stats["log_weight"], weighted_samples(mcmc)[1])
    fields = fields_of(mcmc)
    for variable in variables - {"log_weight", "log_theta", "diverging"} - FULL_STATS:
        np.testing.assert_array_equal(sample_stats[variable], fields[variable])
    if "log_theta" in variables:
        assert sample_stats["log_theta"].shape == (2, 60, 20)
        np.testing.assert_allclose(sample_stats["log_theta"], fields["log_theta"], rtol=1e-6)
        np.testing.assert_allclose(np.exp(sample_stats["log_theta"]).sum("bin"), 1.0, atol=1e-4)
    else:
        # Plain Langevin: every draw weighs the same, by either theta.
        np.testing.assert_array_equal(sample_stats["log_weight"], 0.0)
        np.testing.assert_array_equal(weighted_samples(mcmc, theta="final")[1], 0.0)


@pytest.mark.slow
@clipped_at_first
@pytest.mark.parametrize("name", models.KINDS)
def test_observed_data_are_all_rows(name, constrained_runs):
    """The run saw 20 of them at a time."""
    _, y = models.constrained_data()
    observed = to_inference_data(constrained_runs(name))["observed_data"]
    assert set(observed.data_vars) == {"y"}
    assert observed["y"].dims == ("rows",)
    np.testing.assert_array_equal(observed["y"], y)


def test_a_prior_whose_draws_numpyro_refuses_is_no_obstacle():
    """Of a volatility with a wide prior nearly all draws are 0 or infinite: no standard deviation.

    As in models of stochastic volatility.
    """

    def model(y):
        log_sd = numpyro.sample("log_sd", dist.Normal(0, 1e4))
        numpyro.sample("y", dist.Normal(0, jnp.exp(log_sd)), obs=y)

    y = jnp.array([0.3, -1.2, 0.7])
    mcmc = models.run(SGLD(model, step_size=0.1), 0, y, samples=5, warmup=0)
    np.testing.assert_allclose(to_inference_data(mcmc)["observed_data"]["y"], y)


def test_draws_of_a_pytree_are_named_after_their_places():
    mcmc = nested_run()
    idata = to_inference_data(mcmc)
    groups = {"posterior", "sample_stats", "energy_partition"}
    checked = {"equipartition", "gradient", "curvature"}
    weighted = {"weighted_posterior", "weighted_sample_stats"}
    assert groups_of(idata) == groups | checked | weighted
    idata = weighted_only(idata)
    samples = mcmc.get_samples(group_by_chain=True)
    leaves = {"a.b": samples["a"]["b"], "c.0": samples["c"][0], "c.1": samples["c"][1]}
    assert set(idata["posterior"].data_vars) == set(leaves)
    for name, leaf in leaves.items():
        np.testing.assert_array_equal(idata["posterior"][name], leaf)
    assert idata["posterior"]["c.0"].shape == (2, 60, 2, 2)


@pytest.mark.slow
def test_theta_need_not_be_collected():
    with_theta = nested_run(gain=SMALL_GAIN)
    without = nested_run(gain=SMALL_GAIN, collect_theta=False)
    without_trace = to_inference_data(with_theta, collect_theta=False)
    for idata in (to_inference_data(without), without_trace):
        assert set(idata["weighted_sample_stats"].data_vars) == EXACT_STATS | CONTOUR
    for theta in ("online", "final"):
        one, other = (weighted_samples(m, theta=theta)[1] for m in (with_theta, without))
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_theta_of_every_so_many_draws():
    mcmc = nested_run()
    whole = weighted_only(to_inference_data(mcmc))["sample_stats"]["log_theta"]
    strided = weighted_only(to_inference_data(mcmc, collect_theta=7))["sample_stats"]["log_theta"]
    assert strided.dims == ("chain", "theta_draw", "bin")
    np.testing.assert_array_equal(strided["theta_draw"], np.arange(6, 60, 7))
    np.testing.assert_array_equal(strided, whole.values[:, 6::7])


# --------------------------------------------------------------------------- values


def test_weights_follow_from_theta_edges_and_energies():
    """All that is needed to weigh the draws is in the file."""
    idata = to_inference_data(nested_run())
    stats, partition = idata["weighted_sample_stats"], idata["energy_partition"]
    edges = partition["lower_edge"].values, partition["upper_edge"].values
    for lower, upper in zip(*edges):
        np.testing.assert_allclose(lower, np.arange(20.0))
        np.testing.assert_allclose(upper, np.arange(1.0, 21.0))
    energy = -stats["lp"].values
    log_theta = stats["log_theta"].values
    zeta = stats.attrs["zeta"]
    expected = np.full(energy.shape, np.nan)
    for chain, draw in np.ndindex(60 - 1, 2):
        chain, draw = draw, chain + 1
        # A draw is weighed by theta as the draw before it left it.
        expected[chain, draw] = zeta * log_psi(log_theta[chain, draw - 1], energy[chain, draw])
    raw = stats["log_weight"].values + partition["log_normaliser"].values[:, None]
    raw -= stats["log_normaliser"].values
    np.testing.assert_allclose(raw[:, 1:], expected[:, 1:], atol=2e-3)
    bins = np.clip(np.floor(energy), 0, 19)
    np.testing.assert_array_equal(stats["energy_bin"], bins)


@clipped_at_first
def test_the_partition_is_that_of_the_state(constrained_runs):
    mcmc = constrained_runs("ContourSGLD")
    partition = to_inference_data(mcmc)["energy_partition"]
    state = mcmc.last_state
    np.testing.assert_allclose(partition["theta"], np.exp(state.log_theta), rtol=1e-6)
    np.testing.assert_array_equal(partition["visits"], state.sampler.theta.bin_counts)
    np.testing.assert_allclose(partition["lower_edge"], np.tile(130 + 3.5 * np.arange(20), (2, 1)))
    np.testing.assert_allclose(partition["upper_edge"][:, -1], 200.0)
    assert partition["theta"].dims == ("chain", "bin")
    # The trace ends where the state is.
    trace = weighted_only(to_inference_data(mcmc))["sample_stats"]["log_theta"]
    np.testing.assert_allclose(np.exp(trace[:, -1]), partition["theta"], rtol=1e-5)


@clipped_at_first
@pytest.mark.parametrize("values", [2**23, 1000])
def test_log_likelihood_of_all_rows(constrained_runs, values, monkeypatch):
    """Also in chunks of 5 draws, which do not divide 120."""
    monkeypatch.setattr("numpyro_contour.runs.log_likelihood._VALUES_A_CHUNK", values)
    mcmc = constrained_runs("ContourSGLD")
    X, y = (np.asarray(data, np.float64) for data in models.constrained_data())
    idata = to_inference_data(mcmc, log_likelihood=True, coords={"rows": np.arange(200) + 1000})
    np.testing.assert_array_equal(idata["observed_data"]["y"]["rows"], np.arange(200) + 1000)
    for prefix in ("", "weighted_"):
        posterior = idata[f"{prefix}posterior"]
        draws = {name: x.values.astype(np.float64) for name, x in posterior.items()}
        mean = draws["shares"] @ X.T + draws["inside"][..., None]
        expected = stats.norm.logpdf(y, mean, draws["scale"][..., None])
        found = idata[f"{prefix}log_likelihood"]["y"]
        assert found.dims == ("chain", "draw", "rows")
        np.testing.assert_array_equal(found["rows"], np.arange(200) + 1000)
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.slow
@clipped_at_first
def test_lp_is_the_exact_log_density_and_no_estimate(constrained_runs):
    exact = weighted_only(to_inference_data(nested_run()))["sample_stats"]
    assert "potential_energy_estimate" not in exact
    fields = fields_of(nested_run())
    np.testing.assert_allclose(exact["lp"], -fields["potential_energy_estimate"])
    run = constrained_runs("ContourSGLD")
    assert "lp" not in weighted_only(to_inference_data(run, energy="estimate"))["sample_stats"]
    # From minibatches: over all rows, at the draws as the chain had them.
    potential = run.sampler.model_potential(models.constrained_data())
    flat = run.get_extra_fields(group_by_chain=True)["unconstrained"][1, -3:]
    z = unravel_like(flat, jax.tree.map(lambda x: x[:3], run.last_state.z | {}))
    found = weighted_only(to_inference_data(run))["sample_stats"]["lp"].values[1, -3:]
    np.testing.assert_allclose(found, -jax.vmap(potential.full)(z), rtol=1e-5)
    noisy = models.nested_kernel("SGLD", energy=lambda key, z: jax.value_and_grad(noisy_u)(z))
    mcmc = models.run(noisy, 0, samples=5, init_params=models.NESTED_START)
    assert "lp" not in weighted_only(to_inference_data(mcmc))["sample_stats"]
    full = models.constrained_kernel("SGLD", energy="full")
    mcmc = models.run(full, 0, *models.constrained_data(), samples=5)
    lp = weighted_only(to_inference_data(mcmc))["sample_stats"]["lp"]
    z = full.first_state(jax.random.key(0), 0, None, models.constrained_data(), {}).z
    assert lp.shape == (1, 5)
    assert full.has_exact_energy(models.constrained_data())
    assert np.isfinite(full.model_potential(models.constrained_data()).full(z))


def noisy_u(z):
    return models.nested_potential(z) + 0.0


@clipped_at_first
def test_settings_and_versions_are_attributes():
    kernel = models.normal_kernel(
        "ContourSGLD",
        zeta=0.6,
        temperature=2.0,
        minibatch_size={"rows": 7},
        step_size=decaying,
        jumps=False,
    )
    mcmc = models.run(kernel, 0, models.normal_data(), samples=5)
    for group in ("posterior", "sample_stats"):
        attrs = to_inference_data(mcmc)[group].attrs
        expected = {
            "kernel": "ContourSGLD",
            "zeta": 0.6,
            "temperature": 2.0,
            "num_steps": 1,
            "draw": "reservoir",
            "minibatch_size": '{"rows": 7}',
            "step_size": "decaying",
            "random_field": "consistent",
            "one_sided": 1,
            "multiplier_bound": -1.0,
            "inference_library": "numpyro",
        }
        assert {name: attrs[name] for name in expected} == expected
        assert {"numpyro_contour_version", "jax_version", "inference_library_version"} <= set(attrs)
    sgld = models.normal_kernel("SGLD", jumps=False)
    run = models.run(sgld, 0, models.normal_data(), samples=5)
    plain = to_inference_data(run)["posterior"].attrs
    assert plain["kernel"] == "SGLD"
    assert "zeta" not in plain


def decaying(count):
    return 1e-3 / (1 + count)


@clipped_at_first
def test_groups_that_are_given(constrained_runs):
    mcmc = constrained_runs("ContourSGLD")
    X, y = models.constrained_data()
    rng = np.random.default_rng(0)
    drawn, new = rng.normal(size=(2, 60, 200)), rng.normal(size=(120, 9))
    prior = {"shares": rng.normal(size=(7, 3)), "y": rng.normal(size=(7, 200))}
    idata = to_inference_data(
        mcmc,
        coords={"share": ["a", "b", "c"]},
        dims={"shares": ["share"], "y": ["rows"], "new": ["place"], "X": ["rows", "column"]},
        prior=prior,
        posterior_predictive={"y": drawn},
        predictions={"new": new},
        constant_data={"X": X},
    )
    assert idata["posterior"]["shares"].dims == ("chain", "draw", "share")
    assert idata["posterior"]["share"].values.tolist() == ["a", "b", "c"]
    assert idata["prior"]["shares"].dims == ("chain", "draw", "share")
    assert idata["prior_predictive"]["y"].dims == ("chain", "draw", "rows")
    assert idata["constant_data"]["X"].dims == ("rows", "column")
    for group, name, values in (
        ("prior", "shares", prior["shares"][None]),
        ("prior_predictive", "y", prior["y"][None]),
        ("weighted_posterior_predictive", "y", drawn),
        ("constant_data", "X", X),
        ("observed_data", "y", y),
    ):
        np.testing.assert_array_equal(idata[group][name], values)
    other = to_inference_data(mcmc, prior={"y": np.zeros((7, 9))})  # of other rows
    assert other["prior_predictive"]["y"].dims == ("chain", "draw", "y_dim_0")
    assert idata["predictions"]["new"].shape == (2, 60, 9)
    np.testing.assert_array_equal(idata["weighted_predictions"]["new"][1, 0], new[60])


def test_a_factor_is_no_observation():
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.factor("soft", -jnp.abs(mu))
        numpyro.sample("y", dist.Normal(mu, 1), obs=y)

    run = lambda y: models.run(models.KERNELS["SGLD"](model, step_size=0.1), 0, y, samples=5)
    assert set(to_inference_data(run(1.5))["observed_data"].data_vars) == {"y"}


@clipped_at_first
@pytest.mark.parametrize("name", [models.KINDS[0], *map(in_second_tier, models.KINDS[1:])])
def test_from_numpyro_keeps_working(name, constrained_runs):
    """Without weights: observed data and log likelihood are those of all rows."""
    mcmc = constrained_runs(name)
    idata = az.from_numpyro(mcmc, log_likelihood=True)
    assert "lp" not in idata["sample_stats"]
    assert idata["observed_data"]["y"].shape == (200,)
    ours = weighted_only(to_inference_data(mcmc, log_likelihood=True))["log_likelihood"]["y"]
    np.testing.assert_allclose(idata["log_likelihood"]["y"], ours, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("chunk_bytes", [600, 2**30])
def test_the_log_likelihood_goes_through_rows_in_pieces(chunk_bytes):
    """As many at once as fit into the memory of a chunk, the last piece reaching back."""
    y = models.normal_data()
    kernel = models.normal_kernel("SGLD", chunk_bytes=chunk_bytes)
    mcmc = models.run(kernel, 0, y, samples=5, warmup=0, chains=2)
    rows = FinishedRun.of(mcmc).full_data((y,), {}).rows_at_once()
    assert rows >= 100 if chunk_bytes == 2**30 else 1 < rows < 100 and 100 % rows
    found = weighted_only(to_inference_data(mcmc, log_likelihood=True))["log_likelihood"]["y"]
    draws = {
        name: x for name, x in mcmc.get_samples(group_by_chain=True).items() if name != "log_weight"
    }
    expected = numpyro.infer.log_likelihood(kernel.model, draws, y, batch_ndims=2)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_arviz_may_be_imported_first(run_python):
    """arviz 1.x then loads numpyro piecemeal, and misses some of it."""
    code = """
import arviz as az
from numpyro_contour.core.arrays.vectors import unravel_like
from numpyro_contour import SGLD, to_inference_data
from numpyro.infer import MCMC
import jax, jax.numpy as jnp, models
mcmc = MCMC(models.normal_kernel("SGLD"), num_warmup=0, num_samples=5, progress_bar=False)
mcmc.run(jax.random.key(0), models.normal_data())
for idata in (to_inference_data(mcmc), az.from_numpyro(mcmc)):
    print(idata["observed_data"]["y"].shape)
"""
    assert run_python(code).split("\n")[:2] == ["(100,)", "(100,)"]


# --------------------------------------------------------------------------- files


def written(kind, constrained_runs):
    if kind == "refusing":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return to_inference_data(refusing_run(ContourSGLD))
    return to_inference_data(nested_run() if kind == "nested" else constrained_runs(kind))


@clipped_at_first
@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("form", ["netcdf", "zarr"])
@pytest.mark.parametrize(
    "kind",
    [in_second_tier("SGLD"), "ContourSGLD", in_second_tier("nested"), in_second_tier("refusing")],
)
def test_files_give_back_what_was_written(kind, form, constrained_runs, tmp_path):
    idata = written(kind, constrained_runs)
    if kind == "refusing":
        assert np.isneginf(weighted_only(idata)["sample_stats"]["log_weight"]).any()
    path = str(tmp_path / f"run.{form}")
    if form == "netcdf":
        idata.to_netcdf(path)
        again = az.from_netcdf(path)
    else:
        # arviz 0.23 does not write the current Zarr itself.
        tree = idata if isinstance(idata, xr.DataTree) else idata.to_datatree()
        tree.to_zarr(path)
        again = xr.open_datatree(path, engine="zarr")
    assert groups_of(again) == groups_of(idata)
    for group in groups_of(idata):
        before, after = idata[group], again[group]
        assert set(after.variables) == set(before.variables)
        assert after.attrs.keys() == before.attrs.keys()
        for name, value in before.attrs.items():
            np.testing.assert_array_equal(np.ravel(after.attrs[name]), np.ravel(value))
        for name, variable in before.variables.items():
            assert after[name].dims == variable.dims
            if variable.dtype == object:  # names, of which files make strings of their own kind
                assert after[name].dtype.kind in "OUT"
            else:
                assert after[name].dtype == variable.dtype
            assert after[name].attrs == variable.attrs
            np.testing.assert_array_equal(after[name].values, variable.values)
    if kind == "ContourSGLD":
        assert str(summary(again)) == str(summary(idata))
        assert resample(again)["posterior"].sizes == resample(idata)["posterior"].sizes
    again.close()
