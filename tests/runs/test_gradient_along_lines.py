"""The gradient against the energy along lines between draws: jumps are seen, corners are not."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from tiers import in_second_tier, in_third_tier

import numpyro_contour
from numpyro_contour import SGLD, ContourSGLD, diagnose, to_inference_data
from numpyro_contour.runs import gradient_along_lines as module
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.gradient_along_lines import gradient_along_lines
from numpyro_contour.statistics.arviz_versions import to_datasets

CHAINS, DRAWS = 4, 50
ROWS = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)


@functools.cache
def plane_run():
    """Draws of a normal in two dimensions: the ends of the lines."""
    kernel = SGLD(potential_fn=lambda x: 0.5 * x @ x, step_size=0.1, num_steps=20)
    mcmc = models.run(
        kernel, 0, chains=CHAINS, samples=DRAWS, warmup=10, chain_method="vectorized",
        init_params=jnp.zeros((CHAINS, 2)),
    )  # fmt: skip
    return FinishedRun.of(mcmc)


def of(potential, log_weights=None, **changed):
    """The lines of another potential energy between the same draws."""
    run = dataclasses.replace(plane_run(), kernel=SGLD(potential_fn=potential, **changed))
    even = np.zeros((CHAINS, DRAWS)) if log_weights is None else log_weights
    return gradient_along_lines(run, even)


def heaped(x):
    return jnp.sum(jnp.square(ROWS - jnp.round(x)))


SMOOTH = {
    "normal": lambda x: 0.5 * x @ x,
    "correlated": lambda x: 5e4 * (x[0] - x[1]) ** 2 + 0.5 * x[0] ** 2,
    "quartic": lambda x: jnp.sum(x**4),
    "heavy tails": lambda x: jnp.sum(jnp.log1p(x**2)),
    "two modes": lambda x: -jnp.logaddexp(-20 * x[0] ** 2, -20 * (x[0] - 1) ** 2) + x[1] ** 2,
    "funnel": lambda x: 0.5 * x[0] ** 2 / 9 + 0.5 * x[1] ** 2 * jnp.exp(-x[0]) + 0.5 * x[0],
    "Laplace": lambda x: 3 * jnp.sum(jnp.abs(x)),
    "absolute errors of rows": lambda x: jnp.sum(jnp.abs(ROWS - x)),
    "hinges": lambda x: jnp.sum(jax.nn.relu(1 - ROWS @ x)),
    "a network": lambda x: jnp.sum(jnp.square(jax.nn.relu(ROWS * x) @ jnp.ones(2) - 1)),
    "clipped": lambda x: 10 * jnp.sum(jnp.clip(x, -0.5, 1) ** 2) + x @ x,
}
JUMPING = {
    "threshold": lambda x: 0.5 * x @ x + 2.0 * (x[0] > 0.3),
    "rounding": lambda x: jnp.sum(jnp.round(4 * x) ** 2 / 16),
    "fine rounding": lambda x: 2 * jnp.sum(jnp.floor(200 * x) ** 2 / 4e4),
    "argmax": lambda x: 0.5 * x @ x + jnp.array([0.0, 1.5])[jnp.argmax(x)],
    "a table": lambda x: jnp.array([0.5, 2.0, 0.0, 1.0])[jnp.int32(x[0] + 2) % 4],
    "counted rows": lambda x: 0.3 * jnp.sum(ROWS[:, 0] > x[0]),
    "heaped": heaped,
}


@pytest.mark.parametrize("name", [*list(SMOOTH)[:4], *map(in_second_tier, list(SMOOTH)[4:])])
def test_smooth_energies_and_corners_do_not_jump(name):
    found = of(SMOOTH[name])
    assert found.sizes["line"] == 32
    assert float(found["jump"].mean()) < 0.02


@pytest.mark.parametrize("name", JUMPING)
def test_jumps_are_seen(name):
    assert float(of(JUMPING[name])["jump"].mean()) > 0.4


def test_a_jump_has_its_size():
    """2 nats on each line that crosses the threshold."""
    found = of(JUMPING["threshold"])
    x = np.asarray(plane_run().samples)
    crossed = (x[:, : DRAWS // 2, 0] > 0.3) != (x[:, DRAWS // 2 :, 0] > 0.3)
    places = np.linspace(0, crossed.size - 1, 32).round().astype(int)
    np.testing.assert_allclose(found["jump"], 2.0 * crossed.ravel()[places], atol=0.02)
    np.testing.assert_allclose(
        found["rise"], np.diff(_energies(x), axis=0)[0].ravel()[places], rtol=1e-3, atol=1e-3
    )


def _energies(x):
    energies = 0.5 * (x**2).sum(-1) + 2.0 * (x[..., 0] > 0.3)
    return np.stack([energies[:, : DRAWS // 2], energies[:, DRAWS // 2 :]])


def test_large_energies_are_rounded_and_do_not_jump():
    assert float(of(lambda x: 1e6 + 0.5 * x @ x)["jump"].mean()) < 0.02


def test_what_is_left_out(monkeypatch):
    few = np.full((CHAINS, DRAWS), -np.inf)
    few[0, :15] = 0.0
    assert of(SMOOTH["normal"], few) is None
    few[0, :16] = 0.0
    assert of(SMOOTH["normal"], few).sizes["line"] == 8
    # Lines on which the energy is not finite tell nothing.
    assert of(lambda x: jnp.where(x[0] > -9, jnp.nan, 0.0)) is None
    monkeypatch.setattr(module, "_OPERATIONS", 10.0)
    assert of(SMOOTH["normal"]) is None


def test_a_fault_costs_a_warning_not_the_results():
    def fails(x):
        raise RuntimeError("no such table")

    with pytest.warns(UserWarning, match="not compared .* RuntimeError: no such table"):
        assert of(fails) is None


# --------------------------------------------------------------------------- models

COUNTS = np.r_[np.random.default_rng(1).poisson(3, 35), np.random.default_rng(2).poisson(7, 25)]
X = np.random.default_rng(3).normal(size=(200, 2))
Y = X[:, 0] + 2.0 * (X[:, 1] > 0.3) + 0.5 * np.random.default_rng(4).normal(size=200)


def change_point():
    """The rate of the counts changes at a time that is not known."""
    before = numpyro.sample("before", dist.Exponential(0.2))
    after = numpyro.sample("after", dist.Exponential(0.2))
    tau = numpyro.sample("tau", dist.Uniform(0, 1))
    rate = jnp.where(jnp.arange(len(COUNTS)) < tau * len(COUNTS), before, after)
    numpyro.sample("y", dist.Poisson(rate), obs=COUNTS)


def threshold(minibatch=None):
    slope = numpyro.sample("slope", dist.Normal(0, 2))
    step = numpyro.sample("step", dist.Normal(0, 2))
    place = numpyro.sample("place", dist.Normal(0, 1))
    with numpyro.plate("rows", len(Y), subsample_size=minibatch) as rows:
        x = jnp.asarray(X)[rows]
        mean = slope * x[:, 0] + step * (x[:, 1] > place)
        numpyro.sample("y", dist.Normal(mean, 0.5), obs=jnp.asarray(Y)[rows])


def rounded():
    level = numpyro.sample("level", dist.Normal(3, 2))
    noise = numpyro.sample("noise", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(jnp.round(4 * level) / 4, noise), obs=3 + X[:20, 0])


def report(kernel, *args):
    mcmc = models.run(
        kernel, 0, *args, chains=4, samples=200, warmup=200, chain_method="vectorized"
    )
    return diagnose(mcmc)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "name"),
    [
        (change_point, "SGLD"),
        *[in_third_tier(change_point, n) for n in ("SGNHT", "ReplicaExchangeSGHMC")],
        *[in_third_tier(model, "ContourSGHMC") for model in (threshold, rounded)],
    ],
)
def test_a_model_that_jumps_has_a_fault(model, name):
    found = report(getattr(numpyro_contour, name)(model, num_steps=10))
    assert found.faults[0].check == "gradient"
    assert found["gradient"].figure > 5 * found["gradient"].limit
    assert "Give `adjusted=True`" in found["gradient"].advice


@pytest.mark.long
def test_minibatches_are_seen_through():
    found = report(SGLD(threshold, num_steps=10), 50)
    assert found["gradient"].outcome == "bad"


@pytest.mark.slow
def test_a_model_with_minibatches_and_constrained_sites_is_smooth():
    kernel = models.constrained_kernel("ContourSGLD", num_steps=10)
    found = report(kernel, *models.constrained_data())
    assert found["gradient"].figure < 0.01


@pytest.mark.slow
def test_the_group_is_stored():
    key = random.key(0)
    kernel = ContourSGLD(potential_fn=lambda x: 0.5 * x @ x, num_steps=5)
    mcmc = models.run(
        kernel, 0, chains=2, samples=60, warmup=60, chain_method="vectorized",
        init_params=random.normal(key, (2, 2)),
    )  # fmt: skip
    groups = to_datasets(to_inference_data(mcmc))
    assert set(groups["gradient"].data_vars) == {"rise", "jump"}
    assert groups["gradient"].sizes == {"line": 32}
