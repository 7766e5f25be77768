"""Rows larger than memory: is the posterior right, and what does a step on them cost?"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.processes import alone, private_peak, xla_flags
from benchmarks.shared.tables import markdown_table
from benchmarks.shared.timing import by_steps, step_costs
from numpyro_contour import SGLD, on_disk

ROWS, IN_MEMORY = 100_000_000, (1_000_000, 10_000_000)
QUICK_ROWS, QUICK_IN_MEMORY = 20_000, (5000,)
COLUMNS = 8
MINIBATCH = 1000
STEPS_A_DRAW = 100
CHAINS = 2
#: bytes of private memory that the run may take: more is refused by the system
LIMIT = 2 * 2**30
#: bytes of a chunk of a pass over all rows
CHUNK_BYTES = 2**26
# To compile the run takes 0.8 GB with it, and nearly all of the limit without.
_COMPILING = "--xla_cpu_use_fusion_emitters=false"
# Rows that are made at once.
_CHUNK = 1_000_000


class Posterior(NamedTuple):
    """The exact posterior of the slopes, a normal distribution."""

    mean: np.ndarray
    sd: np.ndarray


def model(rows: Any) -> None:
    """Linear regression of the last column on all others, with noise of variance 1."""
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([COLUMNS - 1]).to_event(1))
    with numpyro.plate("rows", len(rows), subsample_size=MINIBATCH) as idx:
        x = rows[idx]
        numpyro.sample("y", dist.Normal(x[:, :-1] @ slopes, 1), obs=x[:, -1])


def make(path: Path, rows: int) -> Posterior:
    """Write the data in chunks, and the exact posterior from sums over them."""
    rng = np.random.default_rng(0)
    slopes = np.linspace(-1, 1, COLUMNS - 1, dtype=np.float32)
    mixed = np.eye(COLUMNS - 1, dtype=np.float32) + 0.3  # the columns are correlated
    data = np.lib.format.open_memmap(path, "w+", np.float32, (rows, COLUMNS))
    moments = np.zeros((COLUMNS, COLUMNS))
    for begin in range(0, rows, _CHUNK):
        part = rng.standard_normal((min(_CHUNK, rows - begin), COLUMNS), np.float32)
        part[:, :-1] = part[:, :-1] @ mixed
        part[:, -1] += part[:, :-1] @ slopes
        data[begin : begin + len(part)] = part
        wide = part.astype(float)
        moments += wide.T @ wide
    data.flush()
    covariance = np.linalg.inv(np.eye(COLUMNS - 1) + moments[:-1, :-1])
    return Posterior(covariance @ moments[:-1, -1], np.sqrt(np.diag(covariance)))


def large(path: Path, exact: Posterior, warmup: int, draws: int, steps: int) -> dict[str, Any]:
    """A run with nothing given on a file that stays on disk, in a process of limited memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    # In single precision the energy of a minibatch is off by N eps / sqrt(n), nats here: no step
    # would be small enough for the acceptance that the warm-up tunes it to.
    numpyro.enable_x64()
    rows = on_disk(path)
    kernel = SGLD(model, num_steps=STEPS_A_DRAW, chunk_bytes=CHUNK_BYTES)
    with private_peak() as peak:
        began = time.perf_counter()
        mcmc = runs.run(kernel, warmup, draws, CHAINS, rows)
        found = np.asarray(mcmc.get_samples()["slopes"], float)
        seconds = time.perf_counter() - began
    cost = step_costs({"disk": of_data(rows)}, steps, 5)["disk"]
    return {
        "rows": len(rows),
        "errors": (found.mean(0) - exact.mean) / exact.sd,
        "sd": found.std(0) / exact.sd,
        "seconds": seconds,
        "peak": peak(),
        "step": float(np.median(cost)),
    }


def of_data(rows: Any, chains: int = 1) -> Any:
    """Runs of a number of steps on minibatches alone, whose cost is that of rows and gradient."""
    kernel = SGLD(
        model,
        energy="minibatch",
        step_size=1e-3 / len(rows),
        preconditioner="identity",
        num_steps=STEPS_A_DRAW,
    )
    method = "vectorized" if chains > 1 else "sequential"
    return by_steps(kernel, STEPS_A_DRAW, rows, num_chains=chains, chain_method=method)


def ratio(path: Path, size: int, chains: int, steps: int, rounds: int) -> list[str]:
    """What a step costs in memory and on disk, and the ratio, as cells."""
    rows = np.load(path, mmap_mode="r")[:size]
    methods = {
        "memory": of_data(jnp.asarray(rows), chains),
        "disk": of_data(on_disk(rows), chains),
    }
    found = step_costs(methods, steps, rounds)
    return [
        *(f"{size:,}", str(chains)),
        *(f"{np.median(cost):.0f}" for cost in found.values()),
        f"{np.median(found['disk'] / found['memory']):.2f}",
    ]


def main(experiment: Experiment) -> str:
    """The section of the page."""
    size = experiment.choose(ROWS, QUICK_ROWS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        began = time.perf_counter()
        exact = make(path, size)
        made = time.perf_counter() - began
        draws = experiment.choose((100, 300, 20_000), (30, 30, STEPS_A_DRAW))
        with xla_flags(_COMPILING):
            found = alone(large, path, exact, *draws)
        cells = [
            alone(ratio, path, n, chains, *experiment.choose((2000, 9), (STEPS_A_DRAW, 2)))
            for n in experiment.choose(IN_MEMORY, QUICK_IN_MEMORY)
            for chains in experiment.choose((1, 4), (1,))
        ]
        gigabytes = path.stat().st_size / 1e9
    least, most = found["sd"].min(), found["sd"].max()
    rows = [
        ["largest error of a mean, posterior sd", f"{np.abs(found['errors']).max():.2f}"],
        ["sd of the draws by the exact ones", f"{least:.2f} to {most:.2f}"],
        ["peak of private memory, MiB", f"{found['peak'] / 2**20:,.0f}"],
        ["seconds of the run, with warm-up and compiling", f"{found['seconds']:,.0f}"],
        ["a step on the whole file, us", f"{found['step']:.0f}"],
        ["rows a second", f"{1e6 * MINIBATCH / found['step']:,.0f}"],
    ]
    return (
        f"## Rows larger than memory\n\nThis is a linear regression on {size:,} rows of {COLUMNS} "
        f"columns, a file of {gigabytes:.2g} GB that was made in {made:,.0f} seconds. `SGLD` runs "
        f"with nothing given on minibatches of {MINIBATCH:,}, with {CHAINS} vectorised chains of "
        f"{draws[1]:,} draws. The system refuses the process more than {LIMIT / 2**30:.0f} GiB of "
        "private memory. Pages of the file are not among it: the system takes them back where it "
        "needs memory. Most of the memory is what XLA takes to compile, which would be twice as "
        f"much without the flag `{_COMPILING}`. A pass over all rows takes chunks of "
        f"{CHUNK_BYTES / 2**20:.0f} MiB. The run is in double precision, since in single precision "
        "an energy of a minibatch would have a rounding error of some tenths of a nat; the data "
        "are in single precision. The exact posterior is normal, from sums over all rows.\n\n"
        + markdown_table(["", ""], rows)
        + "\nA step in memory, and the same step on rows that stay on disk, with the file in the "
        f"page cache. Steps are of a minibatch of {MINIBATCH:,} rows alone, {STEPS_A_DRAW} of them "
        "in a draw. The two take turns, and ratios are taken within rounds.\n\n"
        + markdown_table(
            ["rows", "chains", "in memory, us a step", "on disk, us a step", "ratio"], cells
        )
    )
