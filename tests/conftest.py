"""Fixtures that several test modules share."""

import contextlib
import ctypes
import os
import platform
import subprocess
import sys
import zlib
from pathlib import Path

CACHE = Path(__file__).parents[1] / ".jax-cache"
BENCHMARKS = Path(__file__).parent / "benchmarks"
CACHE_BYTES = 500e6  # all tests on one Python write 120 MB
MEMORY = 1.2e9  # bytes of a worker from which on compiled programs are forgotten


def processor():
    """A number that differs where compiled programs may not run."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        features = next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        features = platform.processor()
    return f"{zlib.crc32(features.encode()):08x}"


def trim(folder):
    """Remove the files that were not read for longest, where there are too many."""
    files = []
    for path in folder.rglob("*-cache"):
        # Other tests that run now may remove it first.
        with contextlib.suppress(FileNotFoundError):
            files.append((path, path.stat()))
    excess = sum(stat.st_size for _, stat in files) - CACHE_BYTES
    for path, stat in sorted(files, key=lambda file: file[1].st_atime):
        if excess <= 0:
            break
        path.unlink(missing_ok=True)
        excess -= stat.st_size


# Compiling is most of the work of these tests, and many of them compile the same programs. They
# are kept from run to run. The variables reach worker processes too: they share one directory.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    trim(CACHE)
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(CACHE / processor())
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.02"

# The older emitters of loops compile twice as fast, programs that are not split for parallel
# compilation in two thirds of the time, and LLVM's first level of optimization takes another
# quarter off, for runs as fast. XLA ends a process that gives a flag it does not know, so it is
# asked about them: its versions differ.
FLAGS = (
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_backend_optimization_level=1",
)


def are_known(*flags):
    """Whether XLA takes these flags."""
    probe = [sys.executable, "-c", "import jax; jax.devices()"]
    variables = os.environ | {"XLA_FLAGS": " ".join(flags)}
    return subprocess.run(probe, env=variables, capture_output=True).returncode == 0


if "XLA_FLAGS" not in os.environ:
    known = FLAGS if are_known(*FLAGS) else filter(are_known, FLAGS)
    os.environ["XLA_FLAGS"] = " ".join(known)

import jax
import models
import pytest


def is_optimized(item):
    """Whether XLA optimizes for this test: for others, compiling would take longer than to run."""
    return item.get_closest_marker("optimized") is not None


def pytest_collection_modifyitems(items):
    """Benchmarks are of the second tier; the longest item comes first, what is optimized last."""
    for item in items:
        if BENCHMARKS in item.path.parents:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: (item.name != "README.md", is_optimized(item)))


def pytest_runtest_setup(item):
    """A change of how programs are compiled forgets those that there are."""
    if is_optimized(item) == jax.config.read("jax_disable_most_optimizations"):
        jax.config.update("jax_disable_most_optimizations", not is_optimized(item))
        jax.clear_caches()


def memory():
    """The bytes of memory that only this process has; 0 where the system does not say."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return 1024 * next((int(line.split()[1]) for line in lines if line.startswith("RssAnon")), 0)


@pytest.fixture(scope="module", autouse=True)
def _few_programs():
    """Compiled programs and what they were made of take memory, 5 GB for all tests of a worker."""
    yield
    if memory() > MEMORY:
        jax.clear_caches()
        # What is freed stays with the process otherwise, between what is not.
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(scope="session")
def constrained_runs():
    """Two chains, one after the other, on the model with constrained sites, for each kernel."""
    finished = {}

    def of(name):
        if name not in finished:
            finished[name] = models.run(
                models.constrained_kernel(name), 0, *models.constrained_data(), chains=2
            )
        return finished[name]

    return of


@pytest.fixture(scope="session")
def two_chains(constrained_runs):
    """Two chains, one after the other, of each kernel; of one of each kind on `constrained_runs`.

    The others run on a model that compiles faster.
    """
    finished = {}

    def of(name):
        if name in models.KINDS:
            return constrained_runs(name)
        if name not in finished:
            kernel = models.normal_kernel(name)
            finished[name] = models.run(kernel, 0, models.normal_data(), chains=2)
        return finished[name]

    return of


@pytest.fixture(scope="session")
def compilations():
    """A list to which XLA's compilations are added while the tests run."""
    seen = []

    def listen(event, duration, **details):
        if event == "/jax/core/compile/backend_compile_duration":
            seen.append(details.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture
def run_python():
    """Run code in a fresh interpreter, for what must be set before JAX starts."""

    def run(code, *args, **environment):
        finished = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code, *args],
            cwd=Path(__file__).parent / "helpers",
            env=os.environ
            | {"JAX_PLATFORMS": "cpu", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
            | environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert finished.returncode == 0, finished.stderr[-3000:]
        return finished.stdout

    return run
