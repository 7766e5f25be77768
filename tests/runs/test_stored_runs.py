"""Stored runs: bit for bit those of `MCMC.run`, whatever breaks in between, and nothing is lost."""

import json
import shutil
import warnings
from pathlib import Path

import arviz as az
import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
import zarr.storage
from numpyro.infer import MCMC
from tiers import in_third_tier

from numpyro_contour import (
    SGLD,
    ContourSGLD,
    EnergyPartition,
    ReplicaExchangeSGLD,
    diagnose,
    expectation,
    on_disk,
    plots,
    resample,
    run_stored,
    summary,
    to_inference_data,
)
from numpyro_contour.runs.stored.store import RunStore
from numpyro_contour.statistics.arviz_versions import to_datasets

KEY = jax.random.key(0)
SEGMENT = 30  # three segments and a bit
START = {"a": jnp.zeros(2), "b": jnp.zeros(())}


def energy(z):
    return jnp.sum(z["a"] ** 2) / 2 + z["b"] ** 2 / 2


def contour(step_size=0.1, potential_fn=energy):
    return ContourSGLD(
        potential_fn=potential_fn,
        step_size=step_size,
        num_steps=3,
        partition=EnergyPartition(0.0, 10.0, 20),
        preconditioner="identity",
    )


def plain():
    return SGLD(potential_fn=energy, step_size=0.1, num_steps=3, preconditioner="identity")


def driver(kernel=contour, samples=100, chains=1, **more):
    return MCMC(
        kernel(),
        num_warmup=40,
        num_samples=samples,
        num_chains=chains,
        progress_bar=False,
        **more,
    )


def start(chains):
    return START if chains == 1 else jax.tree.map(lambda x: jnp.stack([x] * chains), START)


def stored(path, kernel=contour, samples=100, chains=1, segment=SEGMENT, key=KEY, **more):
    mcmc = driver(kernel, samples, chains, **more)
    run_stored(mcmc, path, key, segment_draws=segment, init_params=start(chains))
    return mcmc


def assert_same_run(one, other):
    for collected in ("get_samples", "get_extra_fields"):
        for by_chain in (True, False):
            pair = (getattr(m, collected)(group_by_chain=by_chain) for m in (one, other))
            jax.tree.map(np.testing.assert_array_equal, *pair)
    jax.tree.map(np.testing.assert_array_equal, plain_keys(one), plain_keys(other))


def plain_keys(mcmc):
    is_key = lambda x: jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
    data = lambda x: jax.random.key_data(x) if is_key(x) else x
    return [np.asarray(data(x)) for x in jax.tree.leaves(mcmc.last_state)]


def arrays_of(path):
    """All draws in a store, by name."""
    root = zarr.open_group(path, mode="r")
    groups = ("posterior", "fields", "stats")
    return {f"{g}/{name}": x[:] for g in groups for name, x in root[g].arrays()}


def assert_same_arrays(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store that was made without a break."""
    path = tmp_path_factory.mktemp("whole") / "run.zarr"
    stored(path)
    return path


@pytest.fixture
def copy(whole, tmp_path):
    """Another one like it, to be broken."""
    return shutil.copytree(whole, tmp_path / "run.zarr")


# ---------------------------------------------------------------------- the run itself


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chains", "more"),
    [
        (1, {}),
        (2, {"chain_method": "vectorized"}),
        in_third_tier(2, {"chain_method": "sequential"}),
        in_third_tier(2, {"chain_method": jax.vmap}),
        in_third_tier(1, {"thinning": 2}),
        in_third_tier(1, {"jit_model_args": True}),
    ],
    ids=["one", "vectorized", "sequential", "vmap", "thinning", "jit_model_args"],
)
def test_the_draws_are_those_of_the_mcmc(tmp_path, chains, more):
    mcmc = stored(tmp_path / "run.zarr", plain, chains=chains, **more)
    other = driver(plain, chains=chains, **more)
    other.run(KEY, init_params=start(chains))
    assert_same_run(mcmc, other)


@pytest.mark.slow
@pytest.mark.parametrize("segment", [7, 100, None])
def test_how_long_segments_are_changes_no_bit(tmp_path, whole, segment):
    stored(tmp_path / "run.zarr", segment=segment)
    assert_same_arrays(arrays_of(whole), arrays_of(tmp_path / "run.zarr"))


@pytest.mark.slow
def test_a_finished_run_goes_on_with_more_draws(tmp_path, whole):
    path = tmp_path / "run.zarr"
    stored(path, samples=45)
    stored(path)
    assert_same_arrays(arrays_of(whole), arrays_of(path))
    again = stored(path, samples=45)  # nothing is left to be done, and nothing is lost
    assert again.get_samples()["b"].shape == (100,)


# ---------------------------------------------------------------------- what breaks


class Broken(Exception):
    """What a test raises where a process would die."""


@pytest.mark.slow
def test_a_run_that_dies_at_any_write_goes_on_from_the_segment_before(tmp_path, whole, monkeypatch):
    """Each write of a file, one after the other, is the last that a process makes."""
    expected = arrays_of(whole)
    path = tmp_path / "run.zarr"
    put = zarr.storage._local._put
    left = []

    def dies(where, value, exclusive=False):
        left[0] -= 1
        if left[0] < 0:
            where.parent.mkdir(parents=True, exist_ok=True)
            (where.parent / f"{where.name}.killed.partial").write_bytes(b"half")
            raise Broken
        return put(where, value, exclusive)

    monkeypatch.setattr(zarr.storage._local, "_put", dies)
    deaths = 0
    for writes in (0, 1, 2, 20, 45, 61, 79, 93, 108, 125, 1000):
        left[:] = [writes]
        try:
            stored(path)
        except Broken:
            deaths += 1
            if deaths > 3:  # whatever a reader finds is whole
                left[:] = [10**9]
                reads_whole_segments(path, expected)
            continue
        break
    assert deaths > 6
    assert_same_arrays(expected, arrays_of(path))
    assert not list(path.rglob("*.partial"))


def reads_whole_segments(path, expected):
    progress = zarr.open_group(path, mode="r").attrs["progress"]
    if not progress["kept"]:
        return
    assert progress["kept"] % SEGMENT == 0 or progress["kept"] == 100
    draws = to_inference_data(path)["weighted_posterior"]["b"].values
    np.testing.assert_array_equal(draws, expected["posterior/b"][:, : progress["kept"]])


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_in_the_store(tmp_path, whole, monkeypatch):
    path = tmp_path / "run.zarr"
    append = RunStore.append
    calls = []

    def interrupted(self, *arguments):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        append(self, *arguments)

    mcmc = driver()
    with monkeypatch.context() as patched:
        patched.setattr(RunStore, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_stored(mcmc, path, KEY, segment_draws=SEGMENT, init_params=START)
    groups = to_datasets(to_inference_data(path))  # before the run has been checked
    assert groups["energy_partition"]["theta"].shape == (1, 20)
    assert groups["posterior"].attrs["kernel"] == "ContourSGLD"
    assert diagnose(path).to_dict()
    kept = mcmc.get_samples()["b"]
    assert len(kept) == 2 * SEGMENT  # after two segments of warm-up
    assert int(mcmc.last_state.steps) == (40 + 2 * SEGMENT) * 3
    stored(path)
    assert_same_arrays(arrays_of(whole), arrays_of(path))


ON_A_FULL_DISK = """
import resource, sys
sys.path.append(sys.argv[1])
from stored_runs import stored
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, -1))
try:
    stored(sys.argv[2])
except OSError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
stored(sys.argv[2])
"""


@pytest.mark.slow
def test_a_full_disk_loses_nothing(run_python, tmp_path, whole):
    """A limit on the size of a file is the quota that any user can set."""
    shutil.copy(Path(__file__), tmp_path / "stored_runs.py")
    path = tmp_path / "run.zarr"
    said = run_python(ON_A_FULL_DISK, str(tmp_path), str(path))
    assert "could not be written (File too large)" in said
    assert "make room, and the same call goes on" in said
    assert_same_arrays(arrays_of(whole), arrays_of(path))


def test_a_torn_last_segment_is_made_again(copy, whole):
    root = zarr.open_group(copy, mode="r+")
    slot = "ab"[root.attrs["progress"]["segments"] % 2]
    (chunk,) = (copy / "state" / slot / "c").rglob("*")
    chunk.write_bytes(chunk.read_bytes()[:100])
    with pytest.warns(UserWarning, match="last segment of the store is torn"):
        mcmc = stored(copy)
    assert_same_arrays(arrays_of(whole), arrays_of(copy))
    assert int(mcmc.last_state.steps) == (40 + 100) * 3
    for slot in "ab":
        (chunk,) = (copy / "state" / slot / "c").rglob("*")
        chunk.write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"state .* is not the one that was written"):
        stored(copy, samples=130)
    assert to_inference_data(copy)["posterior"]["b"].shape == (1, 100)


def test_the_state_of_another_segment_is_told_by_its_check_sum(copy, whole):
    """As where a disk kept an older file: it can be read, but is not the one that was written."""
    root = zarr.open_group(copy, mode="r+")
    last, before = "ab"[:: 1 if root.attrs["progress"]["segments"] % 2 == 0 else -1]
    older = root["state"][before][:]
    root["state"].create_array(last, data=older, chunks=older.shape, overwrite=True)
    with pytest.warns(UserWarning, match="last segment of the store is torn"):
        mcmc = stored(copy)
    assert int(mcmc.last_state.steps) == (40 + 100) * 3
    assert_same_arrays(arrays_of(whole), arrays_of(copy))


def test_what_a_run_is_writing_is_not_read_yet(copy, whole):
    root = zarr.open_group(copy, mode="r+")
    for name in ("posterior/a", "posterior/b"):
        array = root[name]
        array.resize((1, 105, *array.shape[2:]))
        array[:, 100:] = 7.0
    for name in ("a", "b"):
        one, other = (
            to_datasets(to_inference_data(path))["weighted_posterior"][name].values
            for path in (copy, whole)
        )
        np.testing.assert_array_equal(one, other)


def test_checks_that_are_torn_are_made_again(copy):
    shutil.rmtree(copy / "checks")
    with pytest.raises(ValueError, match=r"lost what was found of its run"):
        to_inference_data(copy)
    stored(copy)
    assert "energy_partition" in to_datasets(to_inference_data(copy))


@pytest.mark.parametrize("broken", ["missing", "torn"])
def test_lost_draws_are_missed(copy, broken):
    chunk = copy / "posterior" / "b" / "c" / "0" / "0"
    if broken == "missing":
        chunk.unlink()
    else:
        chunk.write_bytes(chunk.read_bytes()[:30])
    with pytest.raises(ValueError, match=r"lost draws of 'posterior/b'.*there are 100"):
        summary(copy)
    with pytest.raises(ValueError, match="lost draws of 'posterior/b'"):
        stored(copy)


def test_one_process_writes_at_a_time(copy):
    from numpyro_contour.runs.stored.processes import locked

    with locked(copy), pytest.raises(RuntimeError, match="Another process writes"):
        stored(copy)


# ---------------------------------------------------------------------- other runs are refused


def narrower(z):
    return jnp.sum(z["a"] ** 2) + z["b"] ** 2 / 2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"key": jax.random.key(1)}, r"`key` is \[0, 0\] there and \[0, 1\] here"),
        ({"kernel": lambda: contour(0.2)}, "`step_size` is 0.1 there and 0.2 here"),
        ({"kernel": plain}, "`kernel` is ContourSGLD there and SGLD here"),
        ({"kernel": lambda: contour(0.1, narrower)}, "the density of the model differs"),
        ({"chains": 2}, "`num_chains` is 1 there and 2 here"),
        ({"thinning": 5}, "`thinning` is 1 there and 5 here"),
    ],
)
def test_another_run_is_refused_with_what_differs(copy, more, said):
    before = arrays_of(copy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two chains on one device
        with pytest.raises(ValueError, match=said):
            stored(copy, **more)
    assert_same_arrays(before, arrays_of(copy))


@pytest.mark.slow
def test_other_data_are_refused(tmp_path):
    kernel = lambda: models.normal_kernel("SGLD", step_size=1e-3, energy="minibatch", num_steps=2)
    y = models.normal_data()

    def run(*data):
        mcmc = MCMC(kernel(), num_warmup=2, num_samples=4, progress_bar=False)
        run_stored(mcmc, tmp_path / "run.zarr", KEY, *data)

    run(y)
    with pytest.raises(ValueError, match="values of the data differ"):
        run(y + 1)
    with pytest.raises(ValueError, match=r"`args\[0\]` is float32\[100\] there and float32\[50\]"):
        run(y[:50])


def test_other_versions_are_told(copy):
    file = copy / "zarr.json"
    known = json.loads(file.read_text())
    known["attributes"]["identity"]["versions"]["jax"] = "0.1"
    file.write_text(json.dumps(known))
    with pytest.warns(UserWarning, match=r"begun with jax 0\.1, now"):
        stored(copy)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "there is nothing at"),
        ("empty", "cannot be read as one"),
        ("group", "is another Zarr group"),
        ("newer", "has form 99"),
    ],
)
def test_what_is_no_store_is_refused(copy, tmp_path, made, said):
    path = tmp_path / "other.zarr"
    if made == "empty":
        path.mkdir()
    if made == "group":
        zarr.open_group(path, mode="w")
    if made == "newer":
        path = copy
        zarr.open_group(path, mode="r+").attrs["numpyro_contour_format"] = 99
    with pytest.raises(ValueError, match=said):
        to_inference_data(path)


def test_arguments_are_checked(tmp_path):
    with pytest.raises(ValueError, match="`segment_draws`"):
        stored(tmp_path / "run.zarr", segment=0)
    with pytest.raises(ValueError, match="multiple of `thinning`"):
        stored(tmp_path / "run.zarr", thinning=3)
    with pytest.raises(ValueError, match="kernel of numpyro_contour, but got str"):
        run_stored("mcmc", tmp_path / "run.zarr", KEY)
    assert not list(tmp_path.glob("*.zarr"))


# ---------------------------------------------------------------------- what is read


def test_the_store_reads_as_the_run_in_memory(whole):
    other = driver()
    other.run(KEY, init_params=START)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_memory = to_datasets(to_inference_data(other))
    found = to_datasets(to_inference_data(whole))
    assert found.keys() == in_memory.keys()
    for name, group in in_memory.items():
        for attribute in (found[name].attrs, group.attrs):
            attribute.pop("created_at", None)
        xr.testing.assert_allclose(found[name], group)
        assert found[name].attrs == group.attrs


def test_draws_are_read_when_they_are_used(whole):
    groups = to_datasets(to_inference_data(whole))
    for name in ("posterior", "weighted_posterior"):
        assert not groups[name]["a"].variable._in_memory
    assert not groups["weighted_sample_stats"]["log_theta"].variable._in_memory


def test_everything_takes_the_folder(whole):
    assert list(summary(whole).index) == ["a[0]", "a[1]", "b"]
    assert abs(float(expectation(whole, lambda d: d["b"]).mean)) < 1
    assert diagnose(whole).to_dict()
    assert resample(str(whole), 50)["posterior"]["a"].shape == (1, 50, 2)
    assert plots.plot_theta_trace(whole) is not None


def test_a_run_in_its_warmup_has_no_draws(tmp_path, monkeypatch):
    append = RunStore.append

    def once(self, *arguments):
        append(self, *arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(RunStore, "append", once)
        with pytest.raises(KeyboardInterrupt):
            stored(tmp_path / "run.zarr")
    with pytest.raises(ValueError, match="still in its warm-up"):
        to_inference_data(tmp_path / "run.zarr")


@pytest.mark.slow
def test_stores_of_one_model_are_chains_of_one_run(whole, tmp_path):
    stored(tmp_path / "b.zarr", key=jax.random.key(1), chains=2, chain_method="vectorized")
    joined = to_datasets(to_inference_data([whole, tmp_path / "b.zarr"]))
    assert joined["posterior"]["a"].shape == (3, 100, 2)
    assert joined["energy_partition"]["theta"].shape == (3, 20)
    of_each = [arrays_of(path)["posterior/b"] for path in (whole, tmp_path / "b.zarr")]
    np.testing.assert_array_equal(joined["weighted_posterior"]["b"], np.concatenate(of_each))
    assert az.ess(to_inference_data([whole, tmp_path / "b.zarr"]), var_names="b") is not None
    stored(tmp_path / "c.zarr", kernel=lambda: contour(0.2), samples=20)
    with pytest.raises(ValueError, match=r"`step_size` is 0.1 there and 0.2 here"):
        to_inference_data([whole, tmp_path / "c.zarr"])
    stored(tmp_path / "d.zarr", key=jax.random.key(2), samples=20)
    with pytest.warns(UserWarning, match=r"\[100, 20\] draws a chain: the first 20"):
        joined = to_inference_data([whole, tmp_path / "d.zarr"])
    assert joined["posterior"]["b"].shape == (2, 20)


def regression(x, y):
    """Rows differ in their curvature: a control variate of first order leaves noise."""
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=10) as idx:
        numpyro.sample("y", dist.Normal(slope * x[idx], 1), obs=y[idx])


@pytest.mark.long
@pytest.mark.parametrize("name", ["SGLD", "ContourSGLD", "ReplicaExchangeSGLD"])
def test_minibatches_and_a_tuned_warmup(tmp_path, name):
    """Anchors, modes and weights over all rows are in the state or in the store."""
    kernel = {"SGLD": SGLD, "ContourSGLD": ContourSGLD, "ReplicaExchangeSGLD": ReplicaExchangeSGLD}
    x = np.linspace(-3, 3, 300, dtype=np.float32)
    y = x + models.normal_data(rows=300)
    layout = {"num_warmup": 60, "num_chains": 2, "chain_method": "vectorized"}

    def mcmc():
        return MCMC(
            kernel[name](regression, num_steps=5),
            num_samples=60,
            progress_bar=False,
            **layout,
        )

    one, other, path = mcmc(), mcmc(), tmp_path / "run.zarr"
    run_stored(one, path, KEY, x, y, segment_draws=25)
    other.run(KEY, x, y)
    assert_same_run(one, other)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_memory = to_datasets(to_inference_data(other))
        of_mcmc = to_datasets(to_inference_data(one))
    found = to_datasets(to_inference_data(path))
    for name, group in in_memory.items():
        xr.testing.assert_allclose(found[name], group, rtol=1e-4)
        xr.testing.assert_allclose(of_mcmc[name], group, rtol=1e-4)


def on_rows(rows, likelihood="normal"):
    mean = numpyro.sample("mean", dist.Normal(0, 1).expand([2]).to_event(1))
    family = {"normal": dist.Normal, "laplace": dist.Laplace}[likelihood]
    with numpyro.plate("rows", len(rows), subsample_size=10) as idx:
        numpyro.sample("y", family(mean, 1).to_event(1), obs=rows[idx])


@pytest.mark.slow
def test_data_that_stay_on_disk_and_options_that_are_no_arrays(tmp_path):
    rows = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)

    def mcmc(samples):
        kernel = SGLD(on_rows, step_size=1e-4, num_steps=3, energy="minibatch")
        return MCMC(kernel, num_warmup=2, num_samples=samples, progress_bar=False)

    for samples in (6, 9):
        mcmc_on_disk = mcmc(samples)
        data = on_disk(tmp_path / "rows.npy")
        run_stored(mcmc_on_disk, tmp_path / "run.zarr", KEY, data, likelihood="normal")
    in_memory = mcmc(9)
    in_memory.run(KEY, rows)
    assert_same_run(mcmc_on_disk, in_memory)
    with pytest.raises(ValueError, match=r"`likelihood` is 'normal' there and 'laplace' here"):
        run_stored(mcmc(9), tmp_path / "run.zarr", KEY, data, likelihood="laplace")


def assert_same_groups(path, mcmc):
    """A store says of a run what is said of it in memory."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_memory = to_datasets(to_inference_data(mcmc))
    found = to_datasets(to_inference_data(path))
    assert found.keys() == in_memory.keys()
    for name, group in in_memory.items():
        xr.testing.assert_allclose(found[name], group, rtol=1e-4)


@pytest.mark.slow
def test_draws_at_other_temperatures_have_no_weight_in_a_store(tmp_path):
    """Segments do not know what temperature the last draw will have."""

    def cooling():
        return SGLD(
            potential_fn=energy,
            step_size=0.1,
            num_steps=3,
            preconditioner="identity",
            temperature=lambda step: jnp.where(step < 240, 2.0, 1.0),
        )

    mcmc = stored(tmp_path / "run.zarr", cooling)
    weights = to_datasets(to_inference_data(tmp_path / "run.zarr"))["weighted_sample_stats"]
    # 40 draws of warm-up and 40 of those that are kept end by step 240.
    assert int(np.isneginf(weights["log_weight"]).sum()) == 40
    assert_same_groups(tmp_path / "run.zarr", mcmc)


@pytest.mark.slow
def test_modes_of_a_run_in_a_store(tmp_path):
    """The masses are those of all draws, whose modes are told segment by segment."""

    def two_modes(z):
        return -jnp.logaddexp(-jnp.sum((z - 4) ** 2) / 2, np.log(1.5) - jnp.sum((z + 4) ** 2) / 2)

    layout = {"num_chains": 4, "chain_method": "vectorized", "progress_bar": False}
    start = jnp.tile(jnp.array([[4.0], [-4.0]]), (2, 2))

    def mcmc():
        return MCMC(SGLD(potential_fn=two_modes), num_warmup=100, num_samples=60, **layout)

    one, path = mcmc(), tmp_path / "run.zarr"
    run_stored(one, path, KEY, init_params=start, segment_draws=25)
    groups = to_datasets(to_inference_data(path))
    assert groups["modes"].sizes["mode"] == 2
    other = mcmc()
    # With the warm-up in the program of the draws: the host's is the same but for rounding.
    other.sampler.init = other.sampler.first_state
    other.run(KEY, init_params=start)
    assert_same_groups(path, other)
