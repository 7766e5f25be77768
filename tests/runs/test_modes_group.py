"""The group `modes` of a run: masses by draws and by bridges against those that are known."""

import dataclasses
import functools

import arviz as az
import jax
import jax.numpy as jnp
import models
import numpy as np
import pytest
from weighted_runs import weighted_only

from numpyro_contour import SGLD, ContourSGLD, diagnose, to_inference_data
from numpyro_contour.runs import modes_group
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.known_modes import known_modes
from numpyro_contour.statistics.arviz_versions import from_datasets, to_datasets

CHAINS, DRAWS = 4, 400
MASSES = np.array([0.7, 0.3])
CENTRES = np.array([[-3.0, 0.0], [3.0, 1.0]], np.float32)
SDS = np.array([[0.8, 1.2], [1.2, 0.8]], np.float32)
#: of the energies, which hides in no ratio of masses
LOG_INTEGRAL = 7.0


def potential(x):
    """Two normals that hardly overlap."""
    log_p = jax.scipy.stats.norm.logpdf(x, CENTRES, SDS).sum(1) + jnp.log(MASSES)
    return -jax.nn.logsumexp(log_p) - LOG_INTEGRAL


def starts():
    return jnp.array(CENTRES[np.arange(CHAINS) % 2])


@functools.cache
def mcmc():
    kernel = ContourSGLD(potential_fn=potential, num_steps=20)
    arguments = {"samples": DRAWS, "warmup": 250, "chains": CHAINS, "init_params": starts()}
    return models.run(kernel, 3, chain_method="vectorized", **arguments)


@functools.cache
def idata():
    return weighted_only(to_inference_data(mcmc()))


@pytest.mark.slow
def test_masses_are_right_within_their_errors():
    group = idata()["modes"]
    mass, error = group["mass"].values, group["mass_mcse"].values
    assert (np.abs(mass - MASSES) < 4 * error).all()
    assert (error < 0.05).all()
    np.testing.assert_allclose(group["mass_by_chain"].values.mean(0), mass, rtol=1e-6)
    bridged, error = group["mass_by_bridge"].values, group["mass_by_bridge_mcse"].values
    # The normals are the modes, but for a Hessian of float32 from differences of gradients.
    assert (np.abs(bridged - MASSES) < 4 * error + 2e-3).all()
    assert (error < 0.02).all()
    np.testing.assert_allclose(group["mass_by_normal"].values, MASSES, atol=0.01)


def test_modes_are_where_they_are():
    group = idata()["modes"]
    np.testing.assert_allclose(group["mean"].values, CENTRES, atol=0.02)
    np.testing.assert_allclose(group["sd"].values, SDS, rtol=0.03)
    assert group["coordinate"].values.tolist() == ["z[0]", "z[1]"]
    energies = [float(potential(x)) for x in CENTRES]
    np.testing.assert_allclose(group["energy"].values, energies, atol=2e-3)
    integrals = LOG_INTEGRAL + np.log(MASSES)
    np.testing.assert_allclose(group["log_integral_by_normal"].values, integrals, atol=0.03)


def test_draws_belong_to_the_normal_that_is_higher_there():
    x, mode = idata()["posterior"]["z"].values, idata()["sample_stats"]["mode"].values
    heights = -0.5 * (((x[:, :, None] - CENTRES) / SDS) ** 2).sum(-1)  # of one volume
    # Between the modes float32 and the Hessian decide.
    assert (heights.argmax(-1) == mode).mean() > 0.995


def test_jumps_are_counted_from_mode_to_mode():
    group = idata()["modes"]
    tried, made = group["jumps_tried"].values, group["jumps_made"].values
    assert tried.shape == (CHAINS, 2, 2)
    assert (tried[:, [0, 1], [0, 1]] == 0).all()
    # Two tries in each draw of 20 steps, and as many one way as the other but for the last.
    assert (tried.sum((1, 2)) == 2 * DRAWS).all()
    # From where the chains are: in the mean the share of the draws, without weights.
    there = (idata()["sample_stats"]["mode"].values == 0).mean()
    assert there > 0.6
    assert abs(tried[:, 0].sum() / tried.sum() - there) < 0.08
    assert (made <= tried).all()
    assert (np.abs(made[:, 0, 1] - made[:, 1, 0]) < 0.3 * made[:, 0, 1]).all()
    assert (made[:, 0, 1] > 10).all()


def test_the_report_tells_of_modes_and_sees_wrong_weights():
    report = diagnose(idata())
    assert [report[name].outcome for name in ("modes", "jumps", "mode masses")] == ["good"] * 3
    groups = to_datasets(idata())
    stats = groups["sample_stats"]
    tampered = stats["log_weight"] + np.log(5) * (stats["mode"] == 1)
    groups["sample_stats"] = stats.assign(log_weight=tampered)
    found = diagnose(from_datasets(groups))["mode masses"]
    assert found.outcome == "bad"
    assert found.figure == pytest.approx(0.7 - 0.7 / 2.2, abs=0.1)


def test_a_file_gives_the_group_back(tmp_path):
    written = to_inference_data(mcmc())
    written.to_netcdf(str(tmp_path / "run.nc"))
    again = az.from_netcdf(str(tmp_path / "run.nc"))
    assert set(again["modes"].data_vars) == set(written["modes"].data_vars)
    for name, variable in written["modes"].data_vars.items():
        np.testing.assert_array_equal(again["modes"][name].values, variable.values)
    # Draws of equal weight have modes too.
    assert written["sample_stats"]["mode"].shape == (CHAINS, DRAWS)
    assert diagnose(again).to_dict() == diagnose(mcmc()).to_dict()
    again.close()


def test_modes_of_chains_that_ran_apart_are_united():
    """Each chain has its own slots: what two have in about one place is one mode."""
    run = FinishedRun.of(mcmc())
    before = modes_group.modes_dataset(run, np.zeros((CHAINS, DRAWS)))
    warmup = run.state.warmup
    modes = jax.tree.map(np.array, warmup.modes)
    counts = jax.tree.map(np.array, warmup.jumps)
    order = np.arange(modes.log_mass.shape[1])[::-1]
    for leaf in jax.tree.leaves(modes):
        if leaf.ndim > 1:
            leaf[1] = leaf[1, order]
    for leaf in counts:
        leaf[1] = leaf[1][np.ix_(order, order)]
    modes.modes.mean[2] += 0.5  # less than two standard deviations
    modes.modes.mean[3, :, 0] += np.where(modes.modes.known[3], 30.0, 0.0)  # elsewhere
    state = run.state._replace(warmup=warmup._replace(modes=modes, jumps=counts))
    apart = dataclasses.replace(run, state=state, computed={})
    assert len(known_modes(apart).energy) == 4
    after = modes_group.modes_dataset(apart, np.zeros((CHAINS, DRAWS)))
    united = after["mean"].values[:, 0] < 10
    assert united.sum() == 2
    for name in ("jumps_tried", "jumps_made"):
        found = after[name].values[:, united][:, :, united]
        np.testing.assert_array_equal(found[:3], before[name].values[:3])
        assert found[3].sum() == 0
        assert after[name].values[3].sum() == before[name].values[3].sum()


def test_one_mode_and_chains_that_do_not_jump_have_no_group():
    run = FinishedRun.of(mcmc())
    warmup = run.state.warmup
    modes = warmup.modes.modes
    first = modes._replace(known=modes.known & (warmup.modes.log_mass > 4.3))
    alone = warmup.modes._replace(modes=first)
    for changed in (warmup._replace(modes=alone), warmup._replace(modes=(), jumps=()), ()):
        state = run.state._replace(warmup=changed)
        other = dataclasses.replace(run, state=state, computed={})
        assert modes_group.modes_dataset(other, np.zeros((CHAINS, DRAWS))) is None


def test_masses_that_could_not_be_evaluated_are_left_out_with_a_warning():
    run = dataclasses.replace(FinishedRun.of(mcmc()), kernel=SGLD(potential_fn=lambda x: x @ "a"))
    with pytest.warns(UserWarning, match="masses of the modes were not compared"):
        group = modes_group.modes_dataset(run, np.zeros((CHAINS, DRAWS)))
    assert "mass_by_bridge" not in group
    assert "mass" in group
