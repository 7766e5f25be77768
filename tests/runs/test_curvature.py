"""The curvature at draws, by the steps there: exact for quadratic energies, and where it is bad."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import models
import numpy as np
import pytest
import xarray as xr
from tiers import in_third_tier

import numpyro_contour
from numpyro_contour import SGHMC, SGLD, ContourSGLD, diagnose, to_inference_data
from numpyro_contour.core.diffusions import Step, langevin, underdamped
from numpyro_contour.diagnosis import step_checks
from numpyro_contour.diagnosis.evidence import Evidence
from numpyro_contour.kernels.parts.moves import langevin_moves, underdamped_moves
from numpyro_contour.runs import curvature as module
from numpyro_contour.runs.curvature import curvature
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.statistics.arviz_versions import to_datasets

CHAINS, DRAWS, SIZE, STEP = 4, 60, 6, 0.01
ROOT = np.random.default_rng(0).normal(size=(SIZE, SIZE))
HESSIAN = ROOT @ ROOT.T


def quadratic(x):
    return 0.5 * x @ jnp.asarray(HESSIAN, x.dtype) @ x


@functools.cache
def plain_run():
    """Draws in six dimensions by steps of a given size."""
    kernel = SGLD(potential_fn=quadratic, step_size=STEP, num_steps=2)
    mcmc = models.run(
        kernel, 0, chains=CHAINS, samples=DRAWS, warmup=5, chain_method="vectorized",
        init_params=jnp.ones((CHAINS, SIZE)),
    )  # fmt: skip
    return FinishedRun.of(mcmc)


def of(kernel, log_weights=None):
    """The curvature of another kernel's potential energy at the same draws."""
    even = np.zeros((CHAINS, DRAWS)) if log_weights is None else log_weights
    return curvature(dataclasses.replace(plain_run(), kernel=kernel), even)


def largest(hessian):
    return np.linalg.eigvalsh(hessian)[-1]


def test_the_curvature_of_a_quadratic_energy():
    found = of(SGLD(potential_fn=quadratic, step_size=STEP))
    assert found.sizes == {"chain": CHAINS, "place": 8}
    for name in ("lowest", "even"):
        np.testing.assert_allclose(found[name], STEP * largest(HESSIAN) / 2, rtol=1e-3)


def test_in_coordinates_of_the_preconditioner():
    scales = jnp.logspace(-1, 1, SIZE)
    found = of(SGLD(potential_fn=quadratic, step_size=STEP, preconditioner=scales))
    root = np.sqrt(np.asarray(scales, np.float64))
    exact = STEP * largest(root[:, None] * HESSIAN * root) / 2
    np.testing.assert_allclose(found["lowest"], exact, rtol=1e-3)


@pytest.mark.parametrize(
    ("given", "limit"),
    [({"momentum": 0.8}, 3.6), ({"friction": 3.0}, 2 * (1 + np.exp(-3.0 * STEP**0.5)))],
)
def test_with_momentum(given, limit):
    found = of(SGHMC(potential_fn=quadratic, step_size=STEP, **given))
    np.testing.assert_allclose(found["lowest"], STEP * largest(HESSIAN) / limit, rtol=1e-3)


@pytest.mark.parametrize("noise", ["averaged", "independent"])
@pytest.mark.parametrize("momentum", [None, 0.5, 0.9])
def test_the_limit_is_that_of_stability(noise, momentum):
    """Without noise a chain goes to the minimum below it, and away from it above."""
    moves = langevin_moves(noise) if momentum is None else underdamped_moves(momentum, None, noise)
    make = langevin if momentum is None else functools.partial(underdamped, momentum)
    diffusion = make(noise=noise, drift_limit=np.inf)
    for share in (0.97, 1.03):
        step = Step(jnp.asarray(share * moves.stable_below(0.1)), jnp.asarray(0.0))

        def move(carry, key, step=step):
            x, memory = carry
            made = diffusion.propose(key, x, memory, x, step)
            return (made.position, made.memory), None

        x = jnp.ones(1)
        keys = jax.random.split(jax.random.key(0), 600)
        (x, _), _ = jax.lax.scan(move, (x, diffusion.init(keys[0], x)), keys)
        assert (abs(float(x[0])) < 1) == (share < 1)


def test_the_draws_of_the_lowest_energies():
    """Where the curvature grows with the energy, these are the draws where it is smallest."""
    quartic = lambda x: jnp.sum(x**4)
    found = of(SGLD(potential_fn=quartic, step_size=STEP))
    x = np.asarray(plain_run().samples, np.float64)
    energies = plain_run().per_draw("potential_energy_estimate")
    for chain in range(CHAINS):
        at = x[chain, np.argsort(energies[chain], kind="stable")[:8]]
        exact = STEP * 12 * (at**2).max(1) / 2
        np.testing.assert_allclose(found["lowest"][chain], exact, rtol=1e-3)
        at = x[chain, np.arange(3.75, DRAWS, 7.5).astype(int)]
        np.testing.assert_allclose(found["even"][chain], STEP * 6 * (at**2).max(1), rtol=1e-3)


def test_draws_of_even_weight():
    """Where half of the draws have a weight near 0, none of the even draws is among them."""
    quartic = lambda x: jnp.sum(x**4)
    weights = np.full((CHAINS, DRAWS), -20.0)
    weights[:, ::2] = 0.0
    found = of(SGLD(potential_fn=quartic, step_size=STEP), weights)
    x = np.asarray(plain_run().samples, np.float64)[:, ::2]
    at = x[:, np.arange(1.875, 30, 3.75).astype(int)]
    np.testing.assert_allclose(found["even"], STEP * 6 * (at**2).max(-1), rtol=1e-3)


def test_eigenvalues_that_stand_out_of_many():
    """Forty dimensions, in which eight products do not tell all."""
    curvatures = np.r_[30.0, np.linspace(0.5, 1.5, 39)]
    along, beside = jax.jit(module._tridiagonal, static_argnums=0)(
        lambda x: (None, jnp.asarray(curvatures, jnp.float32) * x), ((), jnp.ones(40)), jnp.ones(40)
    )
    found = module._largest_eigenvalues(*(np.asarray(x, float)[None] for x in (along, beside)))
    np.testing.assert_allclose(found, 30.0, rtol=1e-3)


def test_what_is_not_checked(monkeypatch):
    adjusted = SGLD(potential_fn=quadratic, step_size=STEP, adjusted=True)
    assert of(adjusted) is None
    assert of(SGLD(potential_fn=quadratic, step_size=STEP, preconditioner="rmsprop")) is None
    assert of(SGLD(potential_fn=quadratic, step_size=STEP, temperature=0.0)) is None
    kernel = SGLD(potential_fn=quadratic, step_size=STEP)
    few = np.full((CHAINS, DRAWS), -np.inf)
    few[:, :49] = 0.0
    assert of(kernel, few) is None
    few[:, :50] = 0.0
    assert of(kernel, few) is not None
    monkeypatch.setattr(module, "_OPERATIONS", 1e3)
    assert of(kernel) is None


def test_energies_without_second_derivatives():
    """A gradient that is computed outside of JAX: the check is not made, and nothing is said."""

    @jax.custom_vjp
    def energy(x):
        return 0.5 * x @ x

    def gradient(x, g):
        return (g * jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct(x.shape, x.dtype), x),)

    energy.defvjp(lambda x: (energy(x), x), gradient)
    assert of(SGLD(potential_fn=energy, step_size=STEP)) is None


def test_many_chains_take_turns(monkeypatch):
    monkeypatch.setattr(module, "_MOST", 12)
    assert of(SGLD(potential_fn=quadratic, step_size=STEP)).sizes["place"] == 3
    monkeypatch.setattr(module, "_MOST", 8)
    monkeypatch.setattr(module, "_LOWEST", 100)
    assert of(SGLD(potential_fn=quadratic, step_size=STEP)).sizes["place"] == 2
    monkeypatch.setattr(module, "_MOST", 2)
    monkeypatch.setattr(module, "_FEWEST", 2)
    found = np.isfinite(of(SGLD(potential_fn=quadratic, step_size=STEP))["lowest"]).all("place")
    assert found.values.tolist() == [True, False, False, True]


# --------------------------------------------------------------------------- verdicts


def verdict_on(lowest, even, noise=None, **settings):
    """The verdict on a group; None where there is none."""
    shape = (CHAINS, DRAWS)
    stats = {"log_weight": (("chain", "draw"), np.zeros(shape))}
    energies = "lp" if noise is None else "potential_energy_estimate"
    stats[energies] = (("chain", "draw"), np.zeros(shape))
    if noise is not None:
        stats["energy_noise"] = (("chain", "draw"), np.full(shape, noise))
    settings = {"temperature": 1.0, "adjusted": 0} | settings
    groups = {"sample_stats": xr.Dataset(stats, attrs=settings)}
    if lowest is not None:
        values = {"lowest": np.array(lowest), "even": np.array(even)}
        groups["curvature"] = xr.Dataset({n: (("chain", "place"), x) for n, x in values.items()})
    found = step_checks.curvature(Evidence(groups))
    return found[0] if found else None


def places(value, of_quarter=None):
    """The same value at eight draws of four chains, and another one at a quarter of them."""
    found = np.full((CHAINS, 8), value)
    if of_quarter is not None:
        found[:, :3] = of_quarter
    return found


@pytest.mark.parametrize(
    ("lowest", "even", "outcome", "limit"),
    [
        (places(0.9), places(0.2), "good", 1.0),
        (places(1.1), places(0.2), "bad", 1.0),
        (places(0.2, of_quarter=1.1), places(0.2), "bad", 1.0),
        (places(0.3), places(0.05), "good", 1.0),
        (places(0.3), places(0.04), "bad", 0.25),
        (places(0.24), places(0.01), "good", 0.25),
        (places(0.9), places(-0.1), "good", 1.0),
        (places(np.nan, of_quarter=1.1), places(0.2), "bad", 1.0),
        (places(np.nan), places(0.2), "not checked", np.nan),
        (None, None, "not checked", np.nan),
    ],
)
def test_verdicts(lowest, even, outcome, limit):
    found = verdict_on(lowest, even)
    assert found.outcome == outcome
    np.testing.assert_equal(found.limit, limit)


def test_no_verdict_on_moves_that_are_adjusted():
    assert verdict_on(places(9.0), places(0.2), adjusted=1) is None
    assert verdict_on(places(9.0), places(0.2), barrier=30.0) is None


def test_advice_names_what_can_be_given():
    bad = places(9.0), places(0.2)
    assert "Give `adjusted=True` and" in verdict_on(*bad).advice
    assert "`adjusted=True` with `energy='full'` and" in verdict_on(*bad, noise=1.0).advice


# --------------------------------------------------------------------------- runs


def two_widths(wide, narrow, size=1, sd=0.3):
    """Normals of sd 1 and less, the narrow one with 0.8 of the mass."""

    def potential(x):
        of_wide = jnp.log(0.2) - 0.5 * jnp.sum((x - wide) ** 2)
        of_narrow = jnp.log(0.8) - 0.5 * jnp.sum(((x - narrow) / sd) ** 2) - size * jnp.log(sd)
        return -jnp.logaddexp(of_wide, of_narrow)

    return potential


def report(name, potential, start, draws=300):
    kernel = getattr(numpyro_contour, name)(potential_fn=potential, jumps=False)
    mcmc = models.run(
        kernel, 0, chains=4, samples=draws, warmup=draws, chain_method="vectorized",
        init_params=jnp.asarray(start),
    )  # fmt: skip
    return diagnose(mcmc)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["ContourSGLD", *map(in_third_tier, ("ContourSGHMC", "ContourSGNHT"))]
)
def test_a_mode_that_is_too_narrow_for_the_steps(name):
    found = report(name, two_widths(-5.0, 5.0), np.full(4, -5.0))
    assert found["curvature"].outcome == "bad"


@pytest.mark.slow
def test_a_narrow_mode_in_five_dimensions():
    apart = 1.5 / 5**0.5
    found = report("ContourSGLD", two_widths(-apart, apart, 5), np.full((4, 5), -apart), draws=1000)
    assert found.faults[0].check == "curvature"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ContourSGLD", "SGNHT"])
def test_modes_of_one_width_are_not_too_narrow(name):
    found = report(name, two_widths(-2.0, 2.0, 2, 1.0), np.zeros((4, 2)))
    assert found["curvature"].outcome == "good"
    assert found["curvature"].figure < 0.3


@pytest.mark.slow
def test_a_dense_preconditioner_and_the_group():
    """By the matrix M that the warm-up found: the eigenvalues of H M."""
    precision = np.linalg.inv(np.full((3, 3), 0.995) + 0.005 * np.eye(3))
    kernel = ContourSGLD(
        potential_fn=lambda x: 0.5 * x @ jnp.asarray(precision, x.dtype) @ x,
        preconditioner="dense",
        num_steps=10,
    )
    mcmc = models.run(
        kernel, 0, chains=2, samples=60, warmup=100, chain_method="vectorized",
        init_params=jnp.zeros((2, 3)),
    )  # fmt: skip
    groups = to_datasets(to_inference_data(mcmc))
    found = groups["curvature"]
    assert found.sizes == {"chain": 2, "place": 8}
    steps = np.asarray(mcmc.last_state.step_size, np.float64)
    for chain, m in enumerate(groups["warmup"]["preconditioner_matrix"].values):
        exact = steps[chain] * np.linalg.eigvals(precision @ m).real.max() / 2
        np.testing.assert_allclose(found["lowest"][chain], exact, rtol=0.01)
