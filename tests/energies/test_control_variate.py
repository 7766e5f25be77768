"""The control variate, its anchor, and passes over all data: what they promise of precision."""

import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from tiers import in_second_tier

from numpyro_contour import SGLD, ContourSGLD, EnergyPartition, weighted_samples
from numpyro_contour.core.arrays.compensated_sums import add, total, zero_sum
from numpyro_contour.energies.anchors import Expansions, anchor_at, with_anchor
from numpyro_contour.energies.control_variate import control_variate
from numpyro_contour.energies.first_anchors import least_noisy
from numpyro_contour.models.all_rows import FullData, Reference
from numpyro_contour.models.model_potential import ModelPotential

TEN_MILLION = 10_000_000
FIRST = Expansions((1,), ())


def potential_of(model, *args):
    return ModelPotential.of(model, args)


# --------------------------------------------------------------------------- noise


@pytest.mark.slow
def test_a_gaussian_likelihood_leaves_no_noise():
    """The energies of rows differ from their expansions by the same amount for every row."""
    y = models.normal_data(mean=2.0, rows=1000)
    potential, like = potential_of(models.normal, y), {"mu": jnp.zeros(())}
    anchor = anchor_at(FullData(potential, like), jnp.array([1.9]), FIRST.no_anchors(1))
    estimate = control_variate(potential, like, FIRST, jnp.ones((), int))
    x = jnp.array([2.3])
    anchors = with_anchor(FIRST.no_anchors(1), 0, anchor)
    draw = jax.jit(jax.vmap(lambda key: estimate(key, x, anchors)))
    energy, gradient, _ = draw(random.split(random.key(0), 1000))
    # U(x) - U(a) is 112 nats; a minibatch alone has a noise of 316 nats.
    assert energy.std() < 1e-3
    assert gradient.std() < 1e-2
    exact = 0.5 * ((2.3 - y) ** 2 - (1.9 - y) ** 2).sum() + (2.3**2 - 1.9**2) / 2e4
    assert abs(energy.mean() - exact) < 1e-3
    found = FullData(potential, like).at(x, Reference(anchor.position, anchor.weight))
    assert found.noise < 1e-3  # rounding: a minibatch alone has 1e5


def absolute(y):
    """A likelihood with a kink: an expansion at a point tells little of the energies elsewhere."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
    with numpyro.plate("rows", len(y), subsample_size=20) as idx:
        numpyro.factor("loss", -5.0 * jnp.abs(jnp.sin(20 * mu) - y[idx]))


def test_the_anchor_with_the_least_noise_is_taken_or_none():
    y = models.normal_data(mean=0.0, rows=500)
    potential, like = potential_of(absolute, y), {"mu": jnp.zeros(())}
    full_data = FullData(potential, like)
    blank = FIRST.no_anchors(1)
    anchors = [anchor_at(full_data, jnp.array([x]), blank) for x in (0.9, 0.011)]
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), *anchors)

    def chosen(x, or_none):
        arguments = (random.key(0), potential, like, jnp.array([x]), both, jnp.ones(1), or_none)
        anchor = jax.jit(lambda: least_noisy(*arguments))()
        return float(anchor.position[0]), float(anchor.weight)

    assert chosen(0.01, True) == (pytest.approx(0.011), 1.0)
    assert chosen(0.899, True) == (pytest.approx(0.9), 1.0)
    # Far from both the expansions are off by hundreds of nats.
    assert chosen(40.0, True)[1] == 0.0
    assert chosen(40.0, False)[1] == 1.0


# --------------------------------------------------------------------------- precision


def student(y):
    mean = numpyro.sample("mean", dist.Normal(0, 10))
    with numpyro.plate("rows", len(y), subsample_size=1000) as rows:
        numpyro.sample("y", dist.StudentT(4, mean, 1), obs=y[rows])


@pytest.mark.slow
def test_energies_of_ten_million_rows_are_precise_to_a_hundredth_of_a_nat():
    rows = models.normal_data(mean=0.7, rows=TEN_MILLION)
    like = {"mean": jnp.zeros(())}
    a, x = np.float32([0.7003]), np.float32([0.7001, 0.7012, 0.703])

    @jax.jit
    def evaluate(y):
        potential = potential_of(student, y)
        full_data = FullData(potential, like, 2**24)
        found = jax.vmap(full_data.at, (0, None))(x[:, None], Reference(a, jnp.ones(())))
        full = jax.vmap(lambda x: potential.full({"mean": x}))(jnp.append(x, a))
        return anchor_at(full_data, a, FIRST.no_anchors(1)), found, full[:-1] - full[-1]

    anchor, found, naive = evaluate(rows)
    y = np.asarray(rows, np.float64)

    def energy(mean):
        return 2.5 * np.log1p((y - np.float64(mean)) ** 2 / 4).sum() + np.float64(mean) ** 2 / 200

    exact = np.array([energy(mean) - energy(a[0]) for mean in x])
    assert np.abs(found.energy.float64() - exact).max() < 0.01
    # What is simple is not that precise.
    assert np.abs(naive - exact).max() > 0.1
    gradient = (5 * (a[0] - y) / (4 + (y - np.float64(a[0])) ** 2)).sum()
    assert abs(anchor.gradient[0] - gradient) < 1.0  # 3e-4 nats at a standard deviation


def test_sums_keep_what_float32_cannot():
    values = np.random.default_rng(0).normal(size=(300_001, 2)).astype(np.float32) + 1000
    exact = values.astype(np.float64).sum(0)
    parts = [total(jnp.asarray(part)) for part in np.array_split(values, 7)]
    found = zero_sum((2,))
    for part in parts:
        found = add(found, part)
    assert np.abs(found.float64() - exact).max() < 0.1
    assert np.abs(np.float64(values.sum(0)) - exact).max() > 5


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [2**18, 2**21])
def test_a_pass_takes_no_more_memory_than_its_chunk(chunk):
    x, y = jnp.ones((100_000, 20)), jnp.zeros(100_000)

    def regression(x, y):
        w = numpyro.sample("w", dist.Normal(0, 1).expand([20]).to_event(1))
        with numpyro.plate("rows", len(y), subsample_size=10) as idx:
            numpyro.sample("y", dist.StudentT(5, x[idx] @ w, 1), obs=y[idx])

    like = {"w": jnp.zeros(20)}
    reference = Reference(jnp.zeros(20), jnp.ones(()))

    def passes(x, y):
        return FullData(potential_of(regression, x, y), like, chunk)

    def draws(flats, x, y):
        sharing, positions = passes(x, y).sharing(reference)
        assert positions == 8
        return jax.vmap(sharing.at, (0, None))(flats, reference)

    def descent(flat, x, y):
        return passes(x, y).energy_and_gradient(flat)

    for function, argument in ((descent, jnp.zeros(20)), (draws, jnp.zeros((8, 20)))):
        memory = jax.jit(function).lower(argument, x, y).compile().memory_analysis()
        # All rows at once would take 8 MB at least.
        assert 0 < memory.temp_size_in_bytes <= chunk


# --------------------------------------------------------------------------- which estimator


def plain(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("rows", len(y)) as idx:
        numpyro.sample("y", dist.Normal(mu, 1), obs=y[idx])


Y = jnp.zeros(100)
PARTITION = EnergyPartition(0.0, 20.0, 20)
BY_HAND = {"step_size": 1e-3, "partition": PARTITION}


@pytest.mark.parametrize(
    ("kernel", "chosen"),
    [
        (ContourSGLD(plain), "full"),
        (ContourSGLD(plain, minibatch_size=10), "control_variate"),
        (ContourSGLD(plain, minibatch_size=100), "full"),
        (SGLD(plain, minibatch_size=10), "control_variate"),
        (ContourSGLD(models.normal), "control_variate"),
        (ContourSGLD(models.normal, partition=PARTITION), "control_variate"),
        (ContourSGLD(models.normal, **BY_HAND), "minibatch"),
        (ContourSGLD(models.normal, energy="control_variate", **BY_HAND), "control_variate"),
        (ContourSGLD(models.normal, energy="minibatch"), "minibatch"),
        (ContourSGLD(models.normal, energy="full"), "full"),
    ],
)
def test_the_estimator_that_is_chosen(kernel, chosen):
    assert kernel.energy_estimator((Y,)) == chosen


# --------------------------------------------------------------------------- whole runs


def scale_model(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 10.0))
    sigma = numpyro.sample("sigma", dist.LogNormal(0.0, 2.0))
    with numpyro.plate("rows", len(y), subsample_size=20) as idx:
        numpyro.sample("y", dist.Normal(mu, sigma), obs=y[idx])


def exact_moments(y):
    """Means and sds of mu and sigma, by integration on a grid."""
    y = np.asarray(y, np.float64)
    mu = np.linspace(y.mean() - 1, y.mean() + 1, 801)[:, None]
    log_sigma = np.log(y.std()) + np.linspace(-0.6, 0.6, 801)
    squares = len(y) * ((y.mean() - mu) ** 2 + y.var())
    energy = squares * np.exp(-2 * log_sigma) / 2 + len(y) * log_sigma
    energy += mu**2 / 200 + log_sigma**2 / 8
    density = np.exp(energy.min() - energy)
    density /= density.sum()
    moments = {}
    for name, x in (("mu", mu + 0 * log_sigma), ("sigma", np.exp(log_sigma) + 0 * mu)):
        mean = (density * x).sum()
        moments[name] = mean, ((density * (x - mean) ** 2).sum()) ** 0.5
    return moments


@pytest.mark.long
@pytest.mark.parametrize(
    ("kernel", "given"),
    [
        in_second_tier(ContourSGLD, {}),
        # By hand: absolute energies in the partition, an anchor by name.
        in_second_tier(
            ContourSGLD,
            {
                "energy": "control_variate",
                "step_size": 2e-4,
                "partition": EnergyPartition(760, 790, 60),
            },
        ),
    ],
)
def test_posteriors_from_minibatches_of_20_among_400_rows(kernel, given):
    """Against integration on a grid; limits of four errors of 16 chains with 250 draws' worth."""
    y = 3.0 + 1.7 * random.normal(random.key(1), (400,))
    mcmc = models.run(
        kernel(scale_model, num_steps=20, **given),
        0,
        y,
        chains=16,
        chain_method="vectorized",
        warmup=200,
        samples=500,
    )
    samples, log_weights = weighted_samples(mcmc)
    weights = np.exp(log_weights)
    for name, (mean, sd) in exact_moments(y).items():
        x = np.asarray(samples[name], np.float64)
        chains = (weights * x).mean(1)
        error = chains.std(ddof=1) / 4
        assert error < 0.04 * sd
        assert abs(chains.mean() - mean) < 4 * error + 0.03 * sd, name
        ratio = ((weights * (x - mean) ** 2).mean()) ** 0.5 / sd
        assert abs(ratio - 1) < 0.07, name
