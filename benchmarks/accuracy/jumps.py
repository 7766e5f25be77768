"""Models whose energy jumps where the gradient does not see it: right, called bad, or neither."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import xarray as xr
from scipy.special import gammaln, logsumexp

import numpyro_contour
from benchmarks.shared import runs
from benchmarks.shared.experiment import Experiment
from benchmarks.shared.tables import markdown_table
from numpyro_contour import diagnose, expectation, to_inference_data
from numpyro_contour.output.equal_weights import weighted_of
from numpyro_contour.statistics.arviz_versions import from_datasets, to_datasets

WARMUP, DRAWS, STEPS = 400, 400, 50
CHAINS = 4
#: A run is wrong if a mean is off by more than so many posterior standard deviations.
OFF = 0.2
ADJUSTED = (
    "SGLD",
    "SGHMC",
    "ContourSGLD",
    "ContourSGHMC",
    "ReplicaExchangeSGLD",
    "ReplicaExchangeSGHMC",
)

#: means and standard deviations by name
Exact = dict[str, tuple[float, float]]

_RNG = np.random.default_rng(1)
COUNTS = np.r_[_RNG.poisson(3, 35), _RNG.poisson(5, 25)]
X = _RNG.normal(size=(60, 2))
NOISE = 0.8
Y = X[:, 0] + 1.5 * (X[:, 1] > 0.3) + NOISE * _RNG.normal(size=60)
LENGTHS = 3.1 + 0.3 * _RNG.normal(size=12)


def change_point() -> None:
    """The rate of counts changes at a time that is not known."""
    before = numpyro.sample("before", dist.Exponential(0.2))
    after = numpyro.sample("after", dist.Exponential(0.2))
    tau = numpyro.sample("tau", dist.Uniform(0, 1))
    rate = jnp.where(jnp.arange(len(COUNTS)) < tau * len(COUNTS), before, after)
    numpyro.sample("y", dist.Poisson(rate), obs=COUNTS)


def threshold() -> None:
    """A regression with a step where a column passes an unknown place."""
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    step = numpyro.sample("step", dist.Normal(0, 2))
    place = numpyro.sample("place", dist.Normal(0, 1))
    mean = slope * X[:, 0] + step * (jnp.asarray(X[:, 1]) > place)
    numpyro.sample("y", dist.Normal(mean, NOISE), obs=Y)


def rounding() -> None:
    """Lengths around a level that is rounded to quarters."""
    level = numpyro.sample("level", dist.Normal(3, 2))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(jnp.round(4 * level) / 4, noise), obs=LENGTHS)


def exact_change_point() -> Exact:
    """By the sum over the rows after which the rate changes."""
    n, total = len(COUNTS), np.r_[0, np.cumsum(COUNTS)]
    k = np.arange(1, n + 1)  # (k - 1) / n < tau <= k / n
    shapes = 1 + total[1:], 1 + total[-1] - total[1:]
    rates = 0.2 + k, 0.2 + n - k
    log_share = sum(gammaln(a) - a * np.log(b) for a, b in zip(shapes, rates))
    share = np.exp(log_share - logsumexp(log_share))
    middle = (k - 0.5) / n
    mean = share @ middle
    found = {"tau": (mean, (share @ middle**2 + 1 / (12 * n**2) - mean**2) ** 0.5)}
    for name, a, b in zip(("before", "after"), shapes, rates):
        mean = share @ (a / b)
        found[name] = (mean, (share @ (a * (a + 1) / b**2) - mean**2) ** 0.5)
    return found


def exact_threshold() -> Exact:
    """By the sum over the gaps between rows in which the place lies, on a grid within them."""
    grid = np.linspace(-5, 5, 20_001)
    log_density, moments = np.empty(len(grid)), np.empty((len(grid), 2, 2))
    gap = np.searchsorted(np.sort(X[:, 1]), grid, side="right")
    for number in np.unique(gap):
        design = np.stack([X[:, 0], X[:, 1] > grid[gap == number][0]], 1)
        precision = design.T @ design / NOISE**2 + np.eye(2) / 4
        mean = np.linalg.solve(precision, design.T @ Y / NOISE**2)
        here = gap == number
        log_density[here] = 0.5 * mean @ precision @ mean - 0.5 * np.linalg.slogdet(precision)[1]
        moments[here] = np.stack([mean, mean**2 + np.diag(np.linalg.inv(precision))])
    log_density -= 0.5 * grid**2
    share = np.exp(log_density - logsumexp(log_density))
    first, second = np.einsum("g,gij->ij", share, moments)
    place = share @ grid
    sds = (second - first**2) ** 0.5
    return {
        "place": (place, (share @ (grid - place) ** 2) ** 0.5),
        "slope": (first[0], sds[0]),
        "step": (first[1], sds[1]),
    }


def exact_rounding() -> Exact:
    """On a grid."""
    level, noise = np.meshgrid(
        np.linspace(1, 5, 3201) + 1e-6, np.linspace(0.05, 2, 800), indexing="ij"
    )
    squares = ((LENGTHS[:, None, None] - np.round(4 * level) / 4) ** 2).sum(0)
    log_share = -0.5 * squares / noise**2 - len(LENGTHS) * np.log(noise)
    log_share -= 0.5 * ((level - 3) / 2) ** 2 + 0.5 * noise**2
    share = np.exp(log_share - logsumexp(log_share))
    found = {}
    for name, value in (("level", level), ("noise", noise)):
        mean = (share * value).sum()
        found[name] = (mean, (share * (value - mean) ** 2).sum() ** 0.5)
    return found


class Target(NamedTuple):
    """A model and its exact posterior."""

    model: Callable
    exact: Callable[[], Exact]


TARGETS = {
    "change point": Target(change_point, exact_change_point),
    "threshold": Target(threshold, exact_threshold),
    "rounding": Target(rounding, exact_rounding),
}


def outcome(idata: Any, exact: Exact) -> tuple[bool, bool]:
    """Whether a run is right, and whether its report finds no fault."""
    off = [
        abs(float(expectation(idata, lambda p, n=name: p[n]).mean) - mean) / sd
        for name, (mean, sd) in exact.items()
    ]
    return max(off) < OFF, diagnose(idata).trusted


def counts(kernel: Any, exact: Exact, repetitions: int, draws: int) -> Counter:
    """Runs of four chains by whether they are right and faultless."""
    mcmc = runs.run(kernel, WARMUP, draws, CHAINS * repetitions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        groups = weighted_of(to_datasets(to_inference_data(mcmc)))
        # What is known of all chains together says too much of a few: but not that the model jumps.
        groups.pop("equipartition", None)
        return Counter(
            outcome(cut(groups, slice(begin, begin + CHAINS)), exact)
            for begin in range(0, CHAINS * repetitions, CHAINS)
        )


def cut(groups: dict[str, xr.Dataset], chains: slice) -> Any:
    """Some of the chains, as a run of their own would be stored."""
    parts = {
        name: group.isel(chain=chains, missing_dims="ignore") for name, group in groups.items()
    }
    return from_datasets(parts)


def rows_of(kernel: str, repetitions: int, draws: int) -> list[list[str]]:
    """The lines of a kernel, without and with `adjusted`."""
    rows = []
    for adjusted in (False, True) if kernel in ADJUSTED else (False,):
        more = {"adjusted": True} if adjusted else {}
        row = [f"`{kernel}`", "yes" if adjusted else "no"]
        for target in TARGETS.values():
            made = getattr(numpyro_contour, kernel)(target.model, num_steps=STEPS, **more)
            found = counts(made, target.exact(), repetitions, draws)
            right = found[True, True] + found[True, False]
            bad = found[True, False] + found[False, False]
            row.append(f"{right} / {bad} / {found[False, True]}")
            # So many programs of one process are more than the system maps.
            jax.clear_caches()
        rows.append(row)
        print(*row, sep=" | ", flush=True)
    return rows


def section(rows: list[list[str]], repetitions: int, draws: int) -> str:
    """The text around the table."""
    header = ["kernel", "`adjusted`", *TARGETS]
    return (
        "## Energies that jump\n\n"
        "A change point in 60 counts, a regression with a step at an unknown place, and a level "
        "that is rounded to quarters: the energy jumps where the gradient does not see it. Exact "
        f"answers are sums over all cases. Each run has {CHAINS} chains, {WARMUP} draws of warm-up "
        f"and {draws} draws after it, of {STEPS} steps each, and nothing is given. It is right if "
        f"no posterior mean is off by more than {OFF:g} standard deviations. In each cell stand "
        f"the runs of {repetitions} that are right / those that `diagnose` calls bad / those that "
        "are wrong and without fault:\n\n" + markdown_table(header, rows)
    )


def main(experiment: Experiment) -> str:
    """The section of the page."""
    size = experiment.choose((20, DRAWS), (2, 60))
    names = experiment.choose([*runs.KERNELS], ["SGLD"])
    return section([row for name in names for row in rows_of(name, *size)], *size)
