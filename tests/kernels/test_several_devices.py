"""Chains and rows on several devices and hosts: the answers of one device, and what is sent."""

import json
import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tiers import in_second_tier

from numpyro_contour import to_inference_data
from numpyro_contour.statistics.arviz_versions import to_datasets


def flags(devices):
    """XLA's flags of this process, and so many virtual devices."""
    known = os.environ.get("XLA_FLAGS", "")
    return f"{known} --xla_force_host_platform_device_count={devices}"


# ------------------------------------------------------------------------ passes over all rows

PASSES = """
import jax, jax.numpy as jnp, numpy as np, several_devices as several
from numpyro_contour.models.all_rows import FullData, Reference
from numpyro_contour.energies.choice import of_model_at_once
from numpyro_contour.models.model_potential import ModelPotential

like, flat = {"w": jnp.zeros(2)}, jnp.array([0.3, 0.7])
reference = Reference(jnp.array([0.1, 0.1]), jnp.ones(()))

def passes(flat, X, y):
    full = FullData(ModelPotential.of(several.model, (X, y), {}, 8), like, 2000)
    at = full.at(flat, reference)
    energy, gradient = full.energy_and_gradient(flat)
    finite = full.potential.finite_on_all_rows({"w": flat})
    return at.energy.high, at.noise, energy.high, gradient, full.hessian(flat), finite

def at_once(flat, X, y):
    return of_model_at_once(ModelPotential.of(several.model, (X, y)), like)(None, flat, ())

for function in (passes, at_once):
    expected = jax.jit(function)(flat, *several.data())
    rows = several.mesh_of(1, 4)[1]
    compiled = jax.jit(function).lower(flat, *jax.device_put(several.data(), rows)).compile()
    found = compiled(flat, *jax.device_put(several.data(), rows))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)
    print(several.sent(compiled))
"""


@pytest.mark.slow
def test_each_device_passes_over_its_own_rows(run_python):
    """With 80 rows on 4 devices nothing is sent that has as many numbers as a device has rows."""
    for line in run_python(PASSES, XLA_FLAGS=flags(4)).strip().split("\n"):
        shapes = re.findall(r"\w+\[([\d,]*)\]", line)
        assert shapes
        sizes = [np.prod([int(n) for n in shape.split(",") if n]) for shape in shapes]
        assert max(sizes) <= 16, line  # the Hessians of four parts


# ------------------------------------------------------------------------ runs

LAYOUTS = """
import json, sys, jax, numpy as np, several_devices as several
from numpyro_contour import weighted_samples
found = {}
for chains, rows in json.loads(sys.argv[1]):
    mcmc = several.start(several.kernel_of("ContourSGLD", energy="minibatch", **several.GIVEN),
                         chains, rows)
    devices = {d for x in (mcmc.last_state.z["w"], mcmc._args[0]) for d in x.devices()}
    assert len(devices) == chains * rows
    found[f"{chains} x {rows}"] = several.pooled(*weighted_samples(mcmc)).tolist()
print(json.dumps(found))
"""
PROCESS = """
import sys, jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{sys.argv[-1]}", 2, int(sys.argv[-2]))
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def in_two_processes(run_python, code, *args):
    """What each of two processes with two devices each prints."""
    port = free_port()

    def of(rank):
        return run_python(PROCESS + code, *args, str(rank), port, XLA_FLAGS=flags(2))

    with ThreadPoolExecutor(2) as pool:
        return [text.strip().split("\n")[-1] for text in pool.map(of, range(2))]


@pytest.fixture(scope="module")
def one_process():
    """The answers of each layout in one process, computed once."""
    return {}


def answers(run_python, known, *layouts):
    missing = [layout for layout in layouts if f"{layout[0]} x {layout[1]}" not in known]
    if missing:
        text = run_python(LAYOUTS, json.dumps(missing), XLA_FLAGS=flags(4))
        known |= json.loads(text.strip().split("\n")[-1])
    return [known[f"{chains} x {rows}"] for chains, rows in layouts]


@pytest.mark.parametrize(
    "layouts", [*map(in_second_tier, [[(2, 2)], [(4, 1), (1, 4)]])], ids=["both", "one axis"]
)
def test_layouts_give_the_answers_of_one_device(layouts, run_python, one_process):
    """Draws of minibatches are the same bit for bit; weights are sums in another order."""
    expected, *found = answers(run_python, one_process, (1, 1), *layouts)
    draws = 4 * 10 * 2
    for values in found:
        np.testing.assert_array_equal(values[:draws], expected[:draws])
        np.testing.assert_allclose(values[draws:], expected[draws:], atol=1e-5)


@pytest.mark.slow
def test_two_processes_give_the_answers_of_one(run_python, one_process):
    """Each process has all draws and weights, though it holds the half of chains and rows."""
    (expected,) = answers(run_python, one_process, (2, 2))
    for text in in_two_processes(run_python, LAYOUTS, "[[2, 2]]"):
        np.testing.assert_allclose(json.loads(text)["2 x 2"], expected, atol=1e-5)


STORED = """
import json, sys, jax, numpy as np, several_devices as several
from numpyro_contour import weighted_samples
path = sys.argv[1]
kernel = lambda: several.kernel_of("ContourSGLD", energy="minibatch", **several.GIVEN)
for samples in (6, 10):  # goes on on the devices where it was
    mcmc = several.start(kernel(), 2, 2, samples=samples, path=path)
assert len(mcmc.last_state.z["w"].devices()) == 4
found = several.pooled(*weighted_samples(mcmc)).tolist()
try:
    several.start(kernel(), 2, 2, samples=10, warmup=6, path=path)
except (ValueError, RuntimeError) as error:
    print(json.dumps([found, type(error).__name__]))
"""


@pytest.mark.slow
def test_two_processes_write_one_store(run_python, one_process, tmp_path):
    """The run goes on in the store, and is that of one process without a break."""
    (expected,) = answers(run_python, one_process, (2, 2))
    path = tmp_path / "run.zarr"
    said = in_two_processes(run_python, STORED, str(path))
    for text, error in zip(said, ("ValueError", "RuntimeError")):
        found, refused = json.loads(text)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert refused == error  # a run of another length in the same store
    draws = to_datasets(to_inference_data(path))["weighted_posterior"]["w"].values
    np.testing.assert_array_equal(np.ravel(draws), expected[: draws.size])


# ------------------------------------------------------------------------ all that follows a run

AFTER = """
import sys, jax, numpy as np, several_devices as several
from numpyro_contour import diagnose, print_summary, to_inference_data
from numpyro_contour.statistics.arviz_versions import to_datasets

name, energy = sys.argv[1:3]
kernel = several.kernel_of(name, energy=None if energy == "None" else energy, num_steps=5)
mcmc = several.start(kernel, 2, 2, warmup=100, samples=40)
idata = to_inference_data(mcmc, log_likelihood=True)
groups = to_datasets(idata)
rows = groups["log_likelihood"]["y"].values
assert rows.shape == (4, 40, several.ROWS) and np.isfinite(rows).all()
w = groups["posterior"]["w"].values.astype(float)
if "lp" in groups["sample_stats"]:
    prior = -0.5 * (w**2 + np.log(2 * np.pi)).sum(-1)
    np.testing.assert_allclose(groups["sample_stats"]["lp"], rows.sum(-1) + prior, atol=2e-3)
np.testing.assert_allclose(groups["observed_data"]["y"], several.data()[1])
diagnose(idata)
print_summary(mcmc)
print("mean of w[1]", w[..., 1].mean(), "lp" in groups["sample_stats"])
"""

EVERY = [
    ("ContourSGLD", "None"),
    ("ContourSGLD", "full"),
    ("SGLD", "minibatch"),
    ("SGHMC", "None"),
    ("InteractingContourSGLD", "minibatch"),
    ("ReplicaExchangeSGLD", "None"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "energy"), EVERY)
def test_all_that_follows_a_run_with_nothing_given(name, energy, run_python):
    """The log densities over all rows are the sums of prior and likelihood of each draw."""
    last = run_python(AFTER, name, energy, XLA_FLAGS=flags(4)).strip().split("\n")[-1]
    assert last.endswith("True") == ("Contour" in name)
    # The data hardly tell w[1] from its prior, a standard normal.
    assert abs(float(last.split()[3])) < 2


@pytest.mark.slow
def test_all_that_follows_a_run_on_two_hosts(run_python):
    first, second = in_two_processes(run_python, AFTER, "ContourSGLD", "None")
    assert first == second


# ------------------------------------------------------------------------ what cannot work

REFUSED = """
import jax, several_devices as several
kernel = several.kernel_of("SGLD", step_size=0.01)
for arguments in ({"chain_method": "parallel"}, {"jit_model_args": False}):
    try:
        several.start(kernel, 1, 4, **arguments)
    except ValueError as error:
        print(error)
"""


@pytest.mark.slow
def test_what_cannot_work_is_refused(run_python):
    of_chains, of_data = run_python(REFUSED, XLA_FLAGS=flags(4)).strip().split("\n")
    assert of_chains.startswith("`chain_method` takes 'vectorized' or 'sequential'")
    assert of_data.startswith("`jit_model_args` of MCMC takes True")
    assert "here 4:" in of_chains
    assert "here 4:" in of_data
