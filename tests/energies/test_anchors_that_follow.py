"""Modes that the rows make, seen through minibatches of 1 % by anchors that follow the chains."""

import functools

import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from tiers import in_second_tier

from numpyro_contour import (
    SGHMC,
    ContourSGLD,
    ReplicaExchangeSGLD,
    diagnose,
    expectation,
    to_inference_data,
)
from numpyro_contour.runs.energies_over_all_rows import full_energies
from numpyro_contour.runs.finished_run import FinishedRun

ROWS, MINIBATCH, CHAINS = 20_000, 200, 8
#: nats between the modes
BARRIER = 6.0


def sign(y):
    """The rows tell the square of `a`: a mode on each side of 0."""
    a = numpyro.sample("a", dist.Normal(0.3, 1))
    with numpyro.plate("rows", len(y), subsample_size=MINIBATCH) as idx:
        numpyro.sample("y", dist.Normal(a**2, 1), obs=y[idx])


def rows():
    error = random.normal(random.key(1), (ROWS,))
    return np.sqrt(2 * BARRIER / ROWS) + error - error.mean()


def exact_mass():
    a = np.linspace(-1, 1, 20_001)
    mean = float(np.mean(np.asarray(rows(), float)))
    energy = ROWS * (a**2 - mean) ** 2 / 2 + (a - 0.3) ** 2 / 2
    density = np.exp(energy.min() - energy)
    return density[a > 0].sum() / density.sum()


@functools.cache
def run(energy, kernel=ContourSGLD, chains=CHAINS, samples=400, **settings):
    return models.run(
        kernel(sign, num_steps=50, energy=energy, **settings),
        0,
        rows(),
        chains=chains,
        chain_method="vectorized",
        warmup=200,
        samples=samples,
    )


def anchors_of(mcmc):
    return mcmc.last_state.warmup.anchors


@pytest.mark.long
@pytest.mark.parametrize("energy", [*map(in_second_tier, ("first_order", None, "data_expansion"))])
def test_every_chain_crosses_and_the_masses_are_right(energy):
    """A plain minibatch has a noise of 245 nats, the first order at one anchor one of 35."""
    mcmc = run(energy)
    idata = to_inference_data(mcmc)
    right = np.asarray(idata["weighted_posterior"]["a"]) > 0
    assert (np.abs(np.diff(right.astype(int), axis=1)).sum(1) >= 5).all()
    mass = expectation(idata, lambda posterior: posterior["a"] > 0)
    assert mass.mcse < 0.06
    assert abs(mass.mean - exact_mass()) < 4 * mass.mcse
    assert np.median(idata["weighted_sample_stats"]["energy_noise"]) < 0.3
    faults = {fault.check for fault in diagnose(idata).faults}
    assert not faults & {"energy noise", "anchor", "warm-up"}


@pytest.mark.long
def test_passes_look_at_no_more_rows_than_minibatches():
    """Where 400 steps of 20 rows see less than all rows there are the first anchors alone."""
    kernel = ContourSGLD(sign, energy="first_order", minibatch_size=20, num_steps=1)
    mcmc = models.run(kernel, 0, rows(), chains=2, chain_method="vectorized", warmup=200)
    assert (np.asarray(anchors_of(mcmc).slots.weight > 0).sum(1) == 1).all()
    report = diagnose(to_inference_data(mcmc))
    assert "an anchor was wanted, but its pass over all rows" in report["energy noise"].advice
    assert "raise `num_steps` or `num_warmup`" in report["energy noise"].advice
    enough = diagnose(to_inference_data(run("first_order")))
    assert not any("an anchor was wanted" in verdict.advice for verdict in enough.verdicts)


@pytest.mark.slow
def test_chains_that_run_at_once_share_all_anchors_but_the_first():
    anchors = anchors_of(run("first_order"))
    used = np.asarray(anchors.slots.weight > 0).sum(1)
    assert (used > 3).all()
    positions = np.asarray(anchors.slots.position)
    assert (positions[:, 1:] == positions[:1, 1:]).all()
    assert len(np.unique(positions[:, 0])) == CHAINS


@pytest.mark.long
def test_the_noise_of_each_draw_is_that_of_the_anchor_that_served_it():
    """Draws of both modes, against estimates from 2,000 minibatches by the run's own estimator."""
    mcmc = run("first_order")
    finished = FinishedRun.of(mcmc)
    found = full_energies(finished)
    like = jax.tree.map(lambda x: x[0], mcmc.last_state.z)
    energy = mcmc.sampler.energies(like, (rows(),), {}).of_chains(mcmc.last_state.warmup)
    warmup = jax.tree.map(lambda x: x[2], finished.state.warmup)
    seen = jax.jit(jax.vmap(lambda key, x: energy(warmup)(key, x)[0], (0, None)))
    draws = np.asarray(finished.samples["a"])[2, ::50]
    assert len(np.unique(draws > 0)) == 2
    for number, a in zip(range(0, 400, 50), draws):
        energies = np.asarray(seen(random.split(random.key(3), 2000), jnp.array([a])), float)
        noise = energies.std(ddof=1)
        # The sd of an sd of 2,000 normal values is 1.6 %; float32 rounds 1e-3 nats.
        assert abs(found.noise[2, number] - noise) < 0.08 * noise + 1e-3
        exact = ROWS * 0.5 * (a**4 - 2 * a**2 * np.sqrt(2 * BARRIER / ROWS)) + (a - 0.3) ** 2 / 2
        home = float(warmup.anchors.slots.position[0, 0])
        start = ROWS * 0.5 * (home**4 - 2 * home**2 * np.sqrt(2 * BARRIER / ROWS))
        start += (home - 0.3) ** 2 / 2
        assert abs(found.energy[2, number] - (exact - start)) < 0.02
        assert abs(energies.mean() - (exact - start)) < 4 * noise / 2000**0.5 + 0.02


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [SGHMC, ReplicaExchangeSGLD])
def test_kernels_that_do_not_flatten_take_the_same_anchors(kernel):
    settings = {"temperatures": (1.0, 4.0)} if kernel is ReplicaExchangeSGLD else {}
    mcmc = run("first_order", kernel, 2, 20, **settings)
    anchors = anchors_of(mcmc)
    assert (np.asarray(anchors.slots.weight > 0).sum(1) > 1).all()


@pytest.mark.slow
def test_a_chain_alone_places_its_own():
    anchors = anchors_of(run("first_order", ContourSGLD, 1, 20))
    assert np.asarray(anchors.slots.weight > 0).sum() > 1


# --------------------------------------------------------------------------- what is refused


def wide(y):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([201]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=10) as idx:
        numpyro.sample("y", dist.Normal(w.sum(), 1), obs=y[idx])


@jax.custom_vjp
def squared(x):
    return x**2


squared.defvjp(lambda x: (x**2, x), lambda x, slope: (2 * x * slope,))


def backwards_only(y):
    a = numpyro.sample("a", dist.Normal(0.3, 1))
    with numpyro.plate("rows", len(y), subsample_size=10) as idx:
        numpyro.sample("y", dist.Normal(squared(a), 1), obs=y[idx])


def columns(x, y):
    w = numpyro.sample("w", dist.Normal(0, 1).expand([5]).to_event(1))
    with numpyro.plate("rows", len(y), subsample_size=10) as idx:
        numpyro.sample("y", dist.Normal(x[idx] @ w, 1), obs=y[idx])


X = np.random.default_rng(0).normal(size=(100, 5)).astype(np.float32)


@pytest.mark.parametrize(
    ("model", "energy", "data", "message"),
    [
        (wide, "second_order", (X[:, 0],), "`energy` takes 'second_order' for at most 200 param"),
        (columns, "data_expansion", (X, X[:, 0]), "`energy='data_expansion'` does not fit this mo"),
        *(
            (backwards_only, energy, (X[:, 0],), f"`energy` takes '{energy}' only where the energ")
            for energy in ("control_variate", "first_order")
        ),
        (sign, "third_order", (X[:, 0],), "`energy` takes None, 'minibatch', 'control_variate'"),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_reason(model, energy, data, message):
    with pytest.raises(ValueError, match=message):
        ContourSGLD(model, energy=energy).init(random.key(0), 100, None, data, {})


def test_rows_without_second_derivatives_take_minibatches_alone():
    assert ContourSGLD(backwards_only).energy_estimator((X[:, 0],)) == "minibatch"
