"""Twenty runs of twenty models that are long enough, with their known answers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import random
from numpyro.infer import MCMC

from benchmarks import defaults, subsampling
from benchmarks.posteriors import by_nuts, errors
from numpyro_contour import (
    SGHMC,
    SGLD,
    ContourSGHMC,
    ContourSGLD,
    ContourSGNHT,
    CyclicalSGLD,
    EnergyPartition,
    ReplicaExchangeSGLD,
    diagnose,
    to_inference_data,
    weighted_samples,
)
from numpyro_contour.diagnosis.report import Report
from numpyro_contour.examples import mixture, nine_modes
from numpyro_contour.examples.datasets import load, split_and_standardise
from numpyro_contour.kernels.base import SGMCMCKernel

#: A run is right where the pooled means are off by less than this many posterior sds,
MEAN = 0.2
#: the ratios of sds by less than this,
SD = 0.1
#: and mode masses by less than this in total variation.
MASSES = 0.05

Errors = Callable[[Any, np.ndarray], dict[str, float]]


@dataclass(frozen=True)
class Healthy:
    """A run that is long enough for its target, and how its true error is told."""

    name: str
    kernel: SGMCMCKernel
    errors: Errors
    data: tuple = ()
    #: starts of the chains, None for those of the kernel
    start: Any = None
    warmup: int = 200
    samples: int = 1000
    chains: int = 8

    def run(self) -> MCMC:
        """The finished run."""
        mcmc = MCMC(
            self.kernel,
            num_warmup=self.warmup,
            num_samples=self.samples,
            num_chains=self.chains,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(random.key(0), *self.data, init_params=self.start)
        return mcmc

    @property
    def size(self) -> str:
        """Chains, draws and steps of a draw."""
        return f"{self.chains} x {self.samples:,} x {self.kernel.settings['num_steps']}"


def is_right(found: dict[str, float]) -> bool:
    """Whether the true error is small enough to trust the run."""
    return (
        found["pooled"] < MEAN
        and found["sd ratio min"] > 1 - SD
        and found["max"] < 1 + SD
        and found.get("TV pooled", 0.0) < MASSES
    )


# ------------------------------------------------------------------------------ known answers


def two_draws(mean: Any, sd: Any) -> dict[str, np.ndarray]:
    """Two draws of this mean and sd, as `errors` takes them."""
    mean, sd = np.broadcast_arrays(np.atleast_1d(mean), np.atleast_1d(sd))
    return {"x": np.stack([mean - sd, mean + sd])}


def by_grid(potential: Callable, low: float, high: float, dim: int = 1) -> dict[str, np.ndarray]:
    """Mean and sd of a density in one or two dimensions, in double precision."""
    line = np.linspace(low, high, 4001 if dim == 1 else 801)
    if dim == 1:
        points, flat = line[:, None], jnp.asarray(line)
    else:
        points = np.stack(np.meshgrid(line, line, indexing="ij"), -1).reshape(-1, 2)
        flat = jnp.asarray(points)
    energy = np.asarray(jax.vmap(potential)(flat), np.float64)
    weights = np.exp(energy.min() - energy)
    weights /= weights.sum()
    mean = weights @ points
    return two_draws(mean, np.sqrt(weights @ (points - mean) ** 2))


def against(truth: dict[str, np.ndarray], masses: Errors | None = None) -> Errors:
    """Errors of means and sds of a potential's draws, and of the masses of modes."""

    def found(x: Any, weights: np.ndarray) -> dict[str, float]:
        samples = x if isinstance(x, dict) else {"x": x}
        of_masses = {} if masses is None else masses(x, weights)
        return errors(samples, weights, truth) | of_masses

    return found


def against_nuts(model: Callable, data: tuple = ()) -> Errors:
    """Errors beside a long run of NUTS over all rows."""

    def found(x: Any, weights: np.ndarray) -> dict[str, float]:
        return errors(x, weights, by_nuts(ContourSGLD(model).model, data, 500, 2500, 2))

    return found


def halves(indicator: Callable, mass: float) -> Errors:
    """The masses of a mode and of the rest."""
    return defaults.tv_of(defaults.share(indicator), np.array([mass, 1 - mass]))


# ------------------------------------------------------------------------------ potentials

SCALES = np.logspace(-1, 1, 30)
CORNERS = np.array([[-2.5, -2.5], [-2.5, 2.5], [2.5, -2.5], [2.5, 2.5]])
SHARES = np.array([0.1, 0.2, 0.3, 0.4])
PRECISION = np.linalg.inv(np.array([[1.0, 0.9], [0.9, 1.0]]))


def normals(x: jax.Array) -> jax.Array:
    """Thirty normals of scales from 0.1 to 10."""
    return 0.5 * jnp.sum((x / SCALES) ** 2)


def uneven(x: jax.Array) -> jax.Array:
    """The mixture of section D.2 of the paper, 1/6 N(-6, 1) + 5/6 N(4, 1)."""
    left = jnp.log(1 / 6) - 0.5 * (x + 6) ** 2
    return -jnp.logaddexp(left, jnp.log(5 / 6) - 0.5 * (x - 4) ** 2)


def student(x: jax.Array) -> jax.Array:
    """Five independent Student t of ten degrees of freedom."""
    return -jnp.sum(dist.StudentT(10.0).log_prob(x))


def banana(x: jax.Array) -> jax.Array:
    """A normal coordinate, and one around half of its square."""
    return 0.5 * x[0] ** 2 + 0.5 * ((x[1] - 0.5 * x[0] ** 2) / 0.7) ** 2


def double_well(x: jax.Array) -> jax.Array:
    """Wells at plus and minus 1, the left one deeper, six nats below the pass."""
    return 6 * (x[0] ** 2 - 1) ** 2 + 0.3 * x[0] + 0.5 * x[1] ** 2


def corners(x: jax.Array) -> jax.Array:
    """Unit normals at the corners of a square."""
    squares = jnp.sum((x - CORNERS) ** 2, -1)
    return -jax.nn.logsumexp(jnp.log(SHARES) - 0.5 * squares)


def ring(x: jax.Array) -> jax.Array:
    """A ring of radius 3."""
    return 0.5 * ((jnp.sqrt(jnp.sum(x**2) + 1e-6) - 3) / 0.4) ** 2


def of_corners(x: Any, weights: np.ndarray) -> np.ndarray:
    """The masses of the four quadrants, (chains, 4)."""
    quadrant = 2 * (x[..., 0] > 0) + (x[..., 1] > 0)
    return np.stack([(weights * (quadrant == q)).mean(1) for q in range(4)], -1)


def of_nine(x: Any, weights: np.ndarray) -> np.ndarray:
    """The masses of the nine modes, (chains, 9)."""
    return np.stack([nine_modes.mode_masses(a, w).ravel() for a, w in zip(x, weights)])


# ------------------------------------------------------------------------------ models


def normal_mean(y: jax.Array) -> None:
    """A mean, from minibatches of 100 rows."""
    mean = numpyro.sample("x", dist.Normal(0, 10))
    with numpyro.plate("rows", len(y), subsample_size=100) as rows:
        numpyro.sample("y", dist.Normal(mean, 2.0), obs=y[rows])


def categories(counts: jax.Array) -> None:
    """Shares of categories."""
    shares = numpyro.sample("x", dist.Dirichlet(jnp.ones(len(counts))))
    numpyro.sample("counts", dist.Multinomial(int(counts.sum()), shares), obs=counts)


def enumerated(y: jax.Array) -> None:
    """Two components in order; each row's is summed out."""
    share = numpyro.sample("share", dist.Beta(2, 2))
    low = numpyro.sample("low", dist.Normal(0, 5))
    gap = numpyro.sample("gap", dist.LogNormal(0, 1))
    means = jnp.stack([low, low + gap])
    with numpyro.plate("rows", len(y)):
        component = numpyro.sample(
            "component", dist.Bernoulli(share), infer={"enumerate": "parallel"}
        )
        numpyro.sample("y", dist.Normal(means[component], 1.0), obs=y)


def groups(y: jax.Array) -> None:
    """A hierarchy of group means, non-centred."""
    level = numpyro.sample("level", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfNormal(2))
    noise = numpyro.sample("noise", dist.HalfNormal(2))
    with numpyro.plate("groups", y.shape[1], dim=-1):
        effect = numpyro.sample("effect", dist.Normal(0, 1))
        with numpyro.plate("members", y.shape[0], dim=-2):
            numpyro.sample("y", dist.Normal(level + spread * effect, noise), obs=y)


# ------------------------------------------------------------------------------ healthy runs


def cooling(steps: int) -> Callable:
    """A temperature from 4 to 1 over so many steps."""
    return lambda count: jnp.maximum(1.0, 4.0 - 3.0 * count / steps)


def potentials() -> list[Healthy]:
    """Runs on potential functions of exact answers."""
    line, plane = np.linspace(-8, 6, 8), np.zeros((8, 2))
    shift = 4.7 / np.sqrt(10)
    right = lambda x: x > mixture.DIVIDE
    return [
        Healthy(
            "two normals",
            ContourSGLD(potential_fn=mixture.potential, num_steps=100),
            against(by_grid(mixture.potential, -14, 12), halves(right, mixture.MASS)),
            start=line,
        ),
        Healthy(
            "nine modes",
            ContourSGHMC(potential_fn=nine_modes.potential, num_steps=200),
            against(
                by_grid(nine_modes.potential, -4, 4, 2),
                defaults.tv_of(of_nine, nine_modes.exact_masses().ravel()),
            ),
            start=plane,
        ),
        Healthy(
            "two modes, 10 dimensions",
            ContourSGLD(potential_fn=defaults.two_modes, num_steps=200),
            against(
                two_draws(np.full(10, 0.2 * shift), np.sqrt(1 + 0.96 * shift**2)),
                halves(lambda x: x.sum(-1) > 0, 0.6),
            ),
            start=defaults.spread_starts(-1.5, 1.5, 10)(8),
        ),
        Healthy(
            "30 normals",
            SGLD(potential_fn=normals, num_steps=20),
            against(two_draws(np.zeros(30), SCALES)),
            start=np.ones((8, 30)),
            warmup=500,
        ),
        Healthy(
            "uneven normals",
            ReplicaExchangeSGLD(potential_fn=uneven, num_steps=100),
            against(by_grid(uneven, -14, 12), halves(right, 5 / 6)),
            start=line,
        ),
        Healthy(
            "correlated pair",
            CyclicalSGLD(potential_fn=lambda x: 0.5 * x @ PRECISION @ x, num_steps=50),
            against(two_draws(np.zeros(2), np.ones(2))),
            start=plane,
        ),
        Healthy(
            "Student t",
            ContourSGLD(potential_fn=student, num_steps=50),
            against(two_draws(np.zeros(5), np.full(5, np.sqrt(10 / 8)))),
            start=np.ones((8, 5)),
        ),
        Healthy(
            "banana",
            ContourSGHMC(potential_fn=banana, num_steps=100),
            against(two_draws(np.array([0.0, 0.5]), np.array([1.0, 0.99**0.5]))),
            start=np.ones((8, 2)),
        ),
        Healthy(
            "double well",
            ContourSGLD(
                potential_fn=double_well,
                num_steps=100,
                step_size=0.01,
                partition=EnergyPartition(-0.3, 14.7, 60),
            ),
            against(by_grid(double_well, -5, 5, 2)),
            start=plane + np.array([1.0, 0.0]),
        ),
        Healthy(
            "four corners, cooled",
            ContourSGLD(potential_fn=corners, num_steps=100, temperature=cooling(40_000)),
            against(by_grid(corners, -8, 8, 2), defaults.tv_of(of_corners, SHARES)),
            start=plane,
        ),
        Healthy(
            "ring",
            ContourSGNHT(potential_fn=ring, num_steps=100),
            against(by_grid(ring, -7, 7, 2)),
            start=np.ones((8, 2)),
        ),
    ]


def models() -> list[Healthy]:
    """Runs on NumPyro models."""
    key = random.key(11)
    y = 0.7 + 2.0 * random.normal(key, (5000,))
    precision = 1 / 100 + len(y) / 4
    mean = float(np.asarray(y, np.float64).sum() / 4 / precision)
    counts = np.array([3, 12, 40, 7, 22, 1])
    shares = (counts + 1) / (counts + 1).sum()
    shares_sd = np.sqrt(shares * (1 - shares) / ((counts + 1).sum() + 1))
    few = defaults.mixture_data(20, 1.45)
    yacht = split_and_standardise(load("yacht"), seed=0)
    as_data = lambda split: (jnp.asarray(split.X_train), jnp.asarray(split.y_train))
    rows = jnp.concatenate([random.normal(key, (60,)), 3.5 + random.normal(key, (140,))])
    effects = random.normal(random.key(12), (1, 10))
    members = 1 + 0.8 * effects + random.normal(key, (20, 10))
    logistic = subsampling.logistic_data(10_000)
    poisson = subsampling.poisson_data(20_000)

    def two_labels(mu: jax.Array) -> jax.Array:
        components = dist.Normal(mu, 1.0).log_prob(few[:, None])
        likelihood = jnp.sum(jax.nn.logsumexp(components, -1))
        return -likelihood - jnp.sum(dist.Normal(0, 5).log_prob(mu))

    return [
        Healthy(
            "two labels, 20 rows",
            ContourSGLD(defaults.mixture_model, num_steps=200),
            lambda x, w: against(
                by_grid(two_labels, -6, 6, 2), halves(lambda mu: mu[..., 0] < mu[..., 1], 0.5)
            )(np.asarray(x["mu"]), w),
            (few,),
        ),
        Healthy(
            "eight schools",
            ContourSGLD(defaults.eight_schools, num_steps=50),
            against_nuts(defaults.eight_schools),
        ),
        Healthy(
            "yacht, linear",
            ContourSGNHT(defaults.regression, num_steps=50),
            against_nuts(defaults.regression, as_data(yacht)),
            as_data(yacht),
        ),
        Healthy(
            "logistic, 10,000 rows",
            ContourSGLD(subsampling.logistic, num_steps=50),
            against_nuts(subsampling.logistic, logistic),
            logistic,
            samples=600,
            chains=4,
        ),
        Healthy(
            "Poisson, 20,000 rows",
            SGHMC(subsampling.poisson, num_steps=50),
            against_nuts(subsampling.poisson, poisson),
            poisson,
            samples=500,
            chains=4,
        ),
        Healthy(
            "normal mean, 5,000 rows",
            SGLD(normal_mean, num_steps=20),
            against(two_draws(mean, precision**-0.5)),
            (y,),
            chains=4,
        ),
        Healthy(
            "Dirichlet",
            ContourSGLD(categories, num_steps=50),
            against(two_draws(shares, shares_sd)),
            (counts,),
        ),
        Healthy(
            "enumerated components",
            ContourSGHMC(enumerated, num_steps=50),
            against_nuts(enumerated, (rows,)),
            (rows,),
            chains=4,
        ),
        Healthy(
            "ten groups",
            ContourSGLD(groups, num_steps=50),
            against_nuts(groups, (members,)),
            (members,),
        ),
    ]


@dataclass(frozen=True)
class Outcome:
    """A run's true error and its report."""

    errors: dict[str, float]
    report: Report
    seconds: tuple[float, float, float]


def outcome(healthy: Healthy) -> Outcome:
    """Run, report and compare."""
    begin = time.perf_counter()
    mcmc = healthy.run()
    jax.block_until_ready(mcmc.last_state.z)
    ran = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        report = diagnose(to_inference_data(mcmc))
        reported = time.perf_counter()
        x, log_weights = weighted_samples(mcmc)
    found = healthy.errors(jax.tree.map(np.asarray, x), np.exp(log_weights))
    return Outcome(found, report, (ran - begin, reported - ran, time.perf_counter() - reported))


def bad_verdicts(report: Report) -> str:
    """The bad verdicts with their figures and limits."""
    found = [f"{v.check} {v.figure:.3g} (limit {v.limit:.3g})" for v in report.faults]
    return ", ".join(found) or "none"


def healthy_runs(names: tuple[str, ...] = ()) -> dict[str, Outcome]:
    """The outcomes of the runs, those named or all."""
    found = {}
    for healthy in potentials() + models():
        if names and not any(name in healthy.name for name in names):
            continue
        found[healthy.name] = outcome(healthy)
        print(*healthy_row(healthy, found[healthy.name]), sep=" | ", flush=True)
    return found


def healthy_row(healthy: Healthy, outcome: Outcome) -> list[str]:
    """A line of the table of healthy runs."""
    found = outcome.errors
    run, report, truth = outcome.seconds
    return [
        healthy.name if is_right(found) else f"{healthy.name} (NOT RIGHT)",
        type(healthy.kernel).__name__,
        healthy.size,
        f"{found['pooled']:.3f}",
        f"{found['sd ratio min']:.3f} to {found['max']:.3f}",
        f"{found['TV pooled']:.3f}" if "TV pooled" in found else "",
        bad_verdicts(outcome.report),
        f"{run:.0f} + {report:.0f} + {truth:.0f}",
    ]


if __name__ == "__main__":
    import sys

    healthy_runs(tuple(sys.argv[1:]))
