"""All that is made of a run serves one of `ModeJumping` too: groups, tables, stores, verdicts."""

import functools

import arviz as az
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from numpyro.infer import MCMC, NUTS

from numpyro_contour import (
    SGLD,
    ModeJumping,
    diagnose,
    expectation,
    plots,
    predictive,
    print_summary,
    resample,
    run_stored,
    summary,
    to_inference_data,
    weighted_samples,
)
from numpyro_contour.kernels import mode_jumping_start
from numpyro_contour.statistics.arviz_versions import to_datasets

CHAINS, DRAWS = 4, 500
MASS = 0.7
CENTRES = np.array([[3.0, 1.0], [-3.0, 0.0]], np.float32)
SDS = np.array([[0.8, 1.2], [1.2, 0.8]], np.float32)
LOG_INTEGRAL = 7.0


def log_density(x):
    """Two normals that hardly overlap."""
    log_p = jax.scipy.stats.norm.logpdf(x, CENTRES, SDS).sum(1)
    return jax.nn.logsumexp(log_p + np.log([MASS, 1 - MASS])) + LOG_INTEGRAL


def model(y):
    x = numpyro.sample("x", dist.ImproperUniform(dist.constraints.real_vector, (), (2,)))
    numpyro.factor("density", log_density(x))
    numpyro.deterministic("sum", x.sum())
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(0, 1), obs=y)


Y = np.zeros(3, np.float32)


def driver(kernel=None, draws=DRAWS):
    return MCMC(
        ModeJumping(NUTS(model)) if kernel is None else kernel,
        num_warmup=300,
        num_samples=draws,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )


@functools.cache
def mcmc():
    made = driver()
    made.run(random.key(0), Y)
    return made


@functools.cache
def groups():
    return to_datasets(to_inference_data(mcmc()))


def test_draws_have_equal_weights_and_are_kept_once():
    assert not [name for name in groups() if name.startswith("weighted_")]
    posterior = groups()["posterior"]
    np.testing.assert_array_equal(posterior["x"], mcmc().get_samples(True)["x"])
    assert posterior.attrs["kernel"] == "ModeJumping(NUTS)"
    assert posterior.attrs["target_accept_prob"] == 0.8
    samples, log_weights = weighted_samples(mcmc())
    assert not log_weights.any()
    np.testing.assert_array_equal(samples["x"], posterior["x"])


def test_sample_stats_have_the_names_that_arviz_knows():
    stats = groups()["sample_stats"]
    fields = mcmc().get_extra_fields(True)
    for name, field in (
        ("energy", "energy"),
        ("n_steps", "num_steps"),
        ("diverging", "diverging"),
        ("acceptance_rate", "accept_prob"),
        ("mode", "mode"),
    ):
        np.testing.assert_array_equal(stats[name], fields[field], err_msg=name)
    np.testing.assert_array_equal(stats["lp"], -fields["potential_energy"])
    assert "mode" in to_datasets(az.from_numpyro(mcmc()))["sample_stats"]


def test_the_group_of_modes_has_masses_by_every_way():
    modes = groups()["modes"]
    first = int(np.argmax(modes["mean"].sel(coordinate="x[0]").values))
    for name in ("mass", "mass_by_normal", "mass_by_bridge"):
        mass = modes[name].values[first]
        assert mass == pytest.approx(MASS, abs=0.05 if name == "mass" else 0.01), name
    np.testing.assert_allclose(modes["mean"].values[first], CENTRES[0], atol=0.15)
    np.testing.assert_allclose(modes["sd"].values[first], SDS[0], rtol=0.15)
    constant = 3 * 0.5 * np.log(2 * np.pi)  # of the observations
    found = np.logaddexp.reduce(modes["log_integral_by_normal"].values)
    assert found == pytest.approx(LOG_INTEGRAL - constant, abs=0.02)
    tried, made = modes["jumps_tried"].values, modes["jumps_made"].values
    assert not np.diagonal(tried, axis1=1, axis2=2).any()
    assert (made <= tried).all()
    labels = np.asarray(mcmc().get_extra_fields(True)["mode"])
    # A way of the inner kernel for each draw, and hardly any from mode to mode.
    walks = modes["walks"].values
    assert (walks.sum((1, 2)) == DRAWS).all()
    assert np.diagonal(walks, axis1=1, axis2=2).sum() > 0.98 * labels.size
    assert modes["moves_tried"].values.sum() >= CHAINS * DRAWS


def test_the_search_is_a_group_of_its_own():
    found = groups()["mode_search"]
    assert found["descents"].values.sum() <= int(found["all_descents"])
    assert float(found["unseen_mass"]) < 0.01
    assert found.sizes["known_mode"] == 2


def test_tables_expectations_and_plots_take_it(capsys):
    idata = to_inference_data(mcmc())
    positive = expectation(idata, lambda posterior: posterior["x"][..., 0] > 0)
    assert abs(positive.mean - MASS) < 4 * positive.mcse
    assert summary(idata).loc["x[0]", "ess_bulk"] > 500
    assert resample(idata, 100, seed=0)["posterior"]["x"].shape[-2:] == (100, 2)
    assert predictive(mcmc(), random.key(1), Y)["y"].shape == (CHAINS, DRAWS, 3)
    print_summary(mcmc())
    printed = capsys.readouterr().out
    assert "Number of divergences: " in printed
    assert "2 modes are known. Chains change theirs in " in printed
    plots.plot_modes(idata)
    plots.plot_dashboard(idata)


def test_a_right_run_has_no_fault():
    report = diagnose(mcmc())
    assert report.headline == "No fault was found."
    checks = {v.check for v in report.verdicts}
    assert {"unseen modes", "divergences", "mode agreement", "jumps", "mode masses"} <= checks
    assert "refused moves" not in checks
    assert report["mode agreement"].figure < 1.05


@pytest.mark.slow
def test_a_stored_run_is_the_same_and_goes_on(tmp_path):
    path = tmp_path / "run.zarr"
    run_stored(driver(), path, random.key(0), Y, segment_draws=250)
    stored = to_datasets(to_inference_data(path))
    np.testing.assert_array_equal(stored["posterior"]["x"], groups()["posterior"]["x"])
    for name in ("energy", "mode", "diverging", "n_steps"):
        np.testing.assert_array_equal(
            stored["sample_stats"][name], groups()["sample_stats"][name], err_msg=name
        )
    assert diagnose(path).headline == "No fault was found."
    longer = driver(draws=DRAWS + 250)
    run_stored(longer, path, random.key(0), Y, segment_draws=250)
    assert to_datasets(to_inference_data(path))["posterior"].sizes["draw"] == DRAWS + 250
    with pytest.raises(ValueError, match="`tries` is None there and 2 here"):
        run_stored(driver(ModeJumping(NUTS(model), tries=2)), path, random.key(0), Y)


def test_one_mode_makes_a_run_without_modes():
    kernel = ModeJumping(NUTS(potential_fn=lambda x: 0.5 * x @ x))
    made = driver(kernel, 200)
    made.run(random.key(0), init_params=jnp.zeros((CHAINS, 2)))
    found = to_datasets(to_inference_data(made))
    assert "modes" not in found
    assert found["mode_search"].sizes["known_mode"] == 1
    report = diagnose(made)
    assert report.headline == "No fault was found."
    assert "1 mode, 0 of them" in report["unseen modes"].finding


@pytest.mark.slow
def test_chains_that_were_not_told_of_a_mode_are_not_trusted():
    start = {"x": jnp.asarray(CENTRES[np.arange(CHAINS) % 2])}
    made = driver(ModeJumping(NUTS(model), tries=0), 200)
    made.run(random.key(0), Y, init_params=start)
    report = diagnose(made)
    assert report["chains"].outcome != "good"
    given = driver(ModeJumping(NUTS(model), modes={"x": CENTRES[:1]}), 200)
    given.run(random.key(0), Y)
    assert diagnose(given)["unseen modes"].outcome == "not checked"


def test_modes_that_are_too_many_to_jump_between_are_told_of(monkeypatch):
    monkeypatch.setattr(mode_jumping_start, "_MOST_MODES", 2)
    centres = np.array([-20.0, 0.0, 20.0], np.float32)
    kernel = ModeJumping(NUTS(potential_fn=lambda x: -jax.nn.logsumexp(-0.5 * (x - centres) ** 2)))
    made = driver(kernel, 200)
    made.run(random.key(0), init_params=jnp.zeros(CHAINS))
    found = to_datasets(to_inference_data(made))
    assert float(found["mode_search"]["left_out_mass"]) == pytest.approx(1 / 3, abs=0.01)
    assert diagnose(made)["unseen modes"].outcome == "bad"


@pytest.mark.slow
def test_runs_of_our_adjusted_kernels_are_taken_too():
    kernel = ModeJumping(SGLD(potential_fn=lambda x: -log_density(x), adjusted=True, num_steps=20))
    made = driver(kernel, 600)
    made.run(random.key(1), init_params=jnp.asarray(CENTRES[np.arange(CHAINS) % 2]))
    found = to_datasets(to_inference_data(made))
    assert found["posterior"].attrs["kernel"] == "ModeJumping(SGLD)"
    labels = found["sample_stats"]["mode"].values
    z = found["posterior"]["z"].values
    right = found["modes"]["mean"].values[:, 0] > 0
    assert (right[labels] == (z[..., 0] > 0)).mean() > 0.99
    assert diagnose(made).headline == "No fault was found."
    print_summary(made)


@pytest.mark.slow
def test_double_precision_works_as_well():
    with jax.enable_x64(True):
        kernel = ModeJumping(NUTS(potential_fn=lambda x: -log_density(x)))
        made = driver(kernel, 300)
        made.run(random.key(0), init_params=jnp.zeros((CHAINS, 2)))
        x = np.asarray(made.get_samples(True))
        assert x.dtype == np.float64
        share = (x[..., 0] > 0).mean(1)
        assert abs(share.mean() - MASS) < 4 * (MASS * (1 - MASS) / 400) ** 0.5
