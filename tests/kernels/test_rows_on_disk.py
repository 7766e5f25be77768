"""Runs on data that stay on disk draw what runs on the same data in memory draw."""

import json
import sys

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from models import run
from tiers import in_second_tier

import numpyro_contour
from numpyro_contour import EnergyPartition, on_disk, summary, to_inference_data, weighted_samples
from numpyro_contour.models.disk.read_ahead import ReadAhead

N = 400
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, 2)).astype(np.float32)
Y = (X @ np.array([1.0, -0.5], np.float32) + RNG.standard_normal(N)).astype(np.float32)


def by_index(X, y):
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=20) as idx:
        numpyro.sample("y", dist.Normal(X[idx] @ slopes, 1), obs=y[idx])


def by_subsample(X, y):
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=20):
        rows = numpyro.subsample(X, event_dim=1)
        numpyro.sample("y", dist.Normal(rows @ slopes, 1), obs=numpyro.subsample(y, event_dim=0))


def as_memmap(folder):
    for name, array in {"x": X, "y": Y}.items():
        np.save(folder / f"{name}.npy", array)
    return tuple(on_disk(folder / f"{name}.npy") for name in ("x", "y"))


def as_zarr(folder):
    zarr = pytest.importorskip("zarr")
    made = []
    for name, array in {"x": X, "y": Y}.items():
        stored = zarr.create_array(
            str(folder / name), shape=array.shape, chunks=(64, *array.shape[1:]), dtype=array.dtype
        )
        stored[...] = array
        made.append(on_disk(stored))
    return tuple(made)


def kernel_of(name, model, energy):
    given = {"partition": EnergyPartition(540.0, 640.0, 20)} if "Contour" in name else {}
    if "Replica" in name:
        given = {"temperatures": (1.0, 2.0)}
    # Some sizes of steps are given and others found, so that both kinds of draws are seen.
    if energy == "minibatch":
        given["step_size"] = 1e-4
    return getattr(numpyro_contour, name)(model, energy=energy, num_steps=10, **given)


def drawn(kernel, data, chains, method):
    mcmc = run(kernel, 0, *data, samples=8, warmup=12, chains=chains, chain_method=method)
    return mcmc, weighted_samples(mcmc)


CASES = [
    ("SGLD", "minibatch", by_index, as_memmap, 1, "sequential"),
    ("ContourSGLD", "minibatch", by_subsample, as_zarr, 2, "vectorized"),
    in_second_tier("ContourSGLD", "control_variate", by_subsample, as_memmap, 2, "vectorized"),
    in_second_tier("SGLD", "control_variate", by_index, as_zarr, 2, "vectorized"),
    in_second_tier("SGLD", "full", by_index, as_memmap, 1, "sequential"),
    in_second_tier("SGLD", "control_variate", by_subsample, as_memmap, 2, "sequential"),
    in_second_tier("InteractingContourSGLD", "minibatch", by_index, as_memmap, 2, "vectorized"),
    in_second_tier("ReplicaExchangeSGLD", "minibatch", by_index, as_memmap, 2, "vectorized"),
    in_second_tier("ReplicaExchangeSGHMC", "control_variate", by_index, as_memmap, 1, "sequential"),
    in_second_tier("CyclicalSGHMC", "minibatch", by_subsample, as_memmap, 1, "sequential"),
]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`num_warmup` has 12 draws", "ignore:Replicas 0 and 1")
@pytest.mark.parametrize(("name", "energy", "model", "made", "chains", "method"), CASES)
def test_draws_are_those_of_the_data_in_memory(
    name, energy, model, made, chains, method, tmp_path, monkeypatch
):
    calls = []
    called = ReadAhead.__call__

    def counted(self, now, then):
        calls.append(np.shape(now[0]))
        return called(self, now, then)

    monkeypatch.setattr(ReadAhead, "__call__", counted)
    kernel = kernel_of(name, model, energy)
    of_memory = drawn(kernel, (X, Y), chains, method)
    assert not calls
    on_disk_too = drawn(kernel, made(tmp_path), chains, method)
    (samples, weights), (same_samples, same_weights) = of_memory[1], on_disk_too[1]
    close = {"rtol": 1e-3, "atol": 1e-4}
    np.testing.assert_allclose(same_samples["slopes"], samples["slopes"], **close)
    np.testing.assert_allclose(same_weights, weights, **close)
    assert np.ptp(of_memory[1][0]["slopes"]) > 0.01
    # The rows of the 10 steps of a draw come in one call for all chains that run together, and in
    # a warm-up those of a minibatch that is always the same in another.
    if energy == "full":
        assert not calls
        return
    together = chains if method == "vectorized" else 1
    of_draws = [shape for shape in calls if 10 in shape[-3:-1]]
    assert len(of_draws) >= 20 * chains / together
    assert len(calls) <= 2 * len(of_draws)
    assert all(np.prod(shape[:-2], dtype=int) in (1, together, 2 * together) for shape in of_draws)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`num_warmup` has 12 draws")
def test_what_is_made_of_a_run_is_the_same(tmp_path):
    kernel = kernel_of("ContourSGLD", by_index, "control_variate")
    in_memory, _ = drawn(kernel, (X, Y), 2, "vectorized")
    stored, _ = drawn(kernel, as_memmap(tmp_path), 2, "vectorized")
    of_memory, of_disk = (to_inference_data(x, log_likelihood=True) for x in (in_memory, stored))
    for group in ("log_likelihood", "observed_data", "weighted_posterior"):
        for name, values in of_memory[group].items():
            np.testing.assert_allclose(of_disk[group][name], values, rtol=1e-3, atol=1e-3)
    close = {"rtol": 0.02, "atol": 0.01}
    table, other = (summary(x).astype(float) for x in (of_memory, of_disk))
    np.testing.assert_allclose(other[["mean", "sd"]], table[["mean", "sd"]], **close)


ONE_RUN = """
import json, os, sys, threading, time
import jax, numpy as np, numpyro, numpyro.distributions as dist
from numpyro.infer import MCMC
from numpyro_contour import SGLD, on_disk, weighted_samples

path, stays, N = sys.argv[1], sys.argv[2] == "disk", int(sys.argv[3])
array = np.lib.format.open_memmap(path, "w+", np.float32, (N, 8))
rng = np.random.default_rng(0)
for begin in range(0, N, 500_000):
    array[begin : begin + 500_000] = rng.standard_normal((500_000, 8), np.float32)
array.flush()
del array
X = np.load(path, mmap_mode="r")


def model(X):
    mean = numpyro.sample("mean", dist.Normal(0, 1).expand([7]).to_event(1))
    with numpyro.plate("rows", len(X), subsample_size=100) as idx:
        rows = X[idx]
        numpyro.sample("x", dist.Normal(mean, 1).to_event(1), obs=rows[:, :7])


def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


peak, going = 0, True


def watch():
    global peak
    while going:
        peak = max(peak, anonymous())
        time.sleep(0.01)


def run(X):
    kernel = SGLD(model, energy="control_variate", step_size=1e-9, num_steps=10, chunk_bytes=2**23)
    mcmc = MCMC(kernel, num_warmup=12, num_samples=5, progress_bar=False)
    mcmc.run(jax.random.key(0), X)
    return mcmc


np.save(path + "few.npy", X[:1000])
run(on_disk(path + "few.npy") if stays else X[:1000])  # what is compiled takes memory too
before = anonymous()
watching = threading.Thread(target=watch)
watching.start()
mcmc = run(X if stays else np.array(X))
going = False
watching.join()
print(json.dumps({"grown": peak - before, "bytes": X.nbytes}))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the memory that is taken")
def test_memory_does_not_grow_with_the_file(tmp_path, run_python):
    def found(where, rows):
        printed = run_python(ONE_RUN, str(tmp_path / "x.npy"), where, str(rows))
        return json.loads(printed.splitlines()[-1])

    # Compiling takes 150 to 350 MB, whatever the size of the file.
    stored, loaded = found("disk", 40_000_000), found("memory", 1_000_000)
    assert stored["grown"] < 0.5 * stored["bytes"]
    assert loaded["grown"] > loaded["bytes"]
