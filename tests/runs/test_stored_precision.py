"""Draws that are stored in half precision, and more of them than memory should hold."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zarr
from numpyro.infer import MCMC

from numpyro_contour import SGLD, run_stored, summary, to_inference_data, weighted_samples
from numpyro_contour.runs.stored import store as stores
from numpyro_contour.runs.stored.rounded import Rounding

KEY = jax.random.key(0)


def energy(z):
    return jnp.sum(z["a"] ** 2) / 2 + (z["b"] - 40.0) ** 2 / 2


def stored(path, samples=60, **more):
    kernel = SGLD(potential_fn=energy, step_size=0.1, num_steps=3, preconditioner="identity")
    mcmc = MCMC(kernel, num_warmup=10, num_samples=samples, progress_bar=False)
    start = {"a": jnp.zeros(3), "b": jnp.array(40.0)}
    run_stored(mcmc, path, KEY, segment_draws=20, init_params=start, **more)
    return mcmc


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run in full precision."""
    path = tmp_path_factory.mktemp("whole") / "run.zarr"
    return stored(path), path


@pytest.mark.slow
def test_draws_in_half_precision_are_the_same_run_rounded(whole, tmp_path):
    path = tmp_path / "run.zarr"
    stored(path, samples=40, draws_dtype="float16")
    mcmc = stored(path, draws_dtype="float16")  # what is not rounded goes on
    assert zarr.open_group(path, mode="r")["posterior/a"].dtype == np.float16
    exact, log_weights = weighted_samples(whole[0])
    draws, also = weighted_samples(mcmc)
    for name in "ab":
        assert draws[name].dtype == np.float32
        np.testing.assert_array_equal(draws[name], exact[name].astype(np.float16), err_msg=name)
    np.testing.assert_array_equal(also, log_weights)
    jax.tree.map(np.testing.assert_array_equal, mcmc.last_state.z, whole[0].last_state.z)
    assert to_inference_data(path)["posterior"]["a"].dtype == np.float32
    error = 40 * 2.0**-11
    means = [summary(to_inference_data(where)).loc["b", "mean"] for where in (path, whole[1])]
    assert abs(means[0] - means[1]) < error


@pytest.mark.slow
def test_a_store_keeps_its_precision(whole, tmp_path):
    with pytest.raises(ValueError, match=r"`draws_dtype` is missing there and float16 here"):
        stored(whole[1], draws_dtype="float16")
    with pytest.raises(ValueError, match=r"`draws_dtype` takes one of 'float16', 'float32', but"):
        stored(tmp_path / "other.zarr", draws_dtype="bfloat16")


def test_draws_that_half_precision_cannot_hold_are_refused():
    kept = Rounding("float16")({"b": np.full((1, 20), 60_000.0)})
    assert kept["b"].dtype == np.float16
    with pytest.raises(ValueError, match=r"`draws_dtype`.*65504.*'b' has a draw of 70000"):
        Rounding("float16")({"b": np.array([[1.0, 7e4]])})
    infinite = Rounding("float16")({"b": np.array([[np.inf, np.nan]])})["b"]
    np.testing.assert_array_equal(infinite, [[np.inf, np.nan]])


def test_rounding_that_hides_the_spread_is_told_once():
    noise = np.random.default_rng(0).normal(size=(2, 50, 4))
    rounding = Rounding("float16")
    fine, coarse = 1000 + 10 * noise, 1000 + 0.5 * noise
    rounding({"w": fine, "z": np.ones((2, 50))})  # nothing is said of either
    with pytest.warns(UserWarning, match="Draws of 'w' are stored as float16"):
        rounding({"w": coarse})
    rounding({"w": coarse})


def test_integers_and_draws_that_are_short_already_stay():
    kept = Rounding("float32")({"n": np.arange(3), "x": np.zeros(3, np.float32)})
    assert kept["n"].dtype == np.arange(3).dtype
    assert kept["x"].dtype == np.float32


def test_draws_that_memory_should_not_hold_lie_in_a_file(whole, monkeypatch):
    exact = stores.RunStore.open(whole[1]).draws("posterior/a")
    monkeypatch.setattr(stores, "_IN_MEMORY", 1)
    monkeypatch.setattr(stores, "_AT_ONCE", 100)
    found = stores.RunStore.open(whole[1]).draws("posterior/a")
    assert isinstance(found, np.memmap)
    np.testing.assert_array_equal(found, exact)
    draws = weighted_samples(whole[0])[0]["a"]
    np.testing.assert_array_equal(draws, exact)
