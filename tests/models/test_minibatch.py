"""Minibatch estimates of the potential energy against NumPyro's, over all data."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from numpyro.infer.util import initialize_model, potential_energy
from scipy import stats
from tiers import in_second_tier, in_third_tier

from numpyro_contour import EnergyPartition, weighted_samples
from numpyro_contour.core.arrays.vectors import ravel
from numpyro_contour.energies import choice
from numpyro_contour.energies.anchors import Expansions, anchor_at, with_anchor, with_hessian
from numpyro_contour.models.all_rows import CHUNK_BYTES, FullData, Reference
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.models.plates import SubsamplePlates, draw_indices

RNG = np.random.default_rng(0)
ROWS, COLUMNS, OTHERS = 60, 12, 35
X, V, OTHER, PAIRS, MATRICES, NOISE, TABLE = (
    jnp.asarray(RNG.normal(size=shape), jnp.float32)
    for shape in [(ROWS, 3), COLUMNS, OTHERS, (ROWS, 2), (ROWS, 2, 3), ROWS, (ROWS, COLUMNS)]
)
Y = X @ jnp.array([1.0, -0.5, 0.3]) + NOISE
GROUP = jnp.asarray(RNG.integers(0, 4, ROWS))
KEEP = jnp.asarray(RNG.random(ROWS) < 0.7)


# Each model takes the minibatch of its rows first; None is the same model over all data.


def slopes():
    return numpyro.sample("w", dist.Normal(0, 1).expand([3]).to_event(1))


def indexed(n, x=X, y=Y):
    w, scale = slopes(), numpyro.sample("scale", dist.HalfNormal(2))
    with numpyro.plate("rows", len(y), subsample_size=n) as idx:
        numpyro.sample("y", dist.Normal(x[idx] @ w, scale), obs=y[idx])


def subsampled(n):
    w = slopes()
    with numpyro.plate("rows", ROWS, subsample_size=n):
        mean = numpyro.subsample(X, event_dim=1) @ w
        numpyro.sample("y", dist.Normal(mean, 1), obs=numpyro.subsample(Y, event_dim=0))
        mean = numpyro.subsample(MATRICES, event_dim=2) @ w
        pairs = numpyro.subsample(PAIRS, event_dim=1)
        numpyro.sample("pairs", dist.Normal(mean, 1).to_event(1), obs=pairs)


def nested(n):
    w, b = slopes(), numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("columns", COLUMNS, subsample_size=n and 3) as j:
        numpyro.sample("v", dist.Normal(b, 1), obs=V[j])
        with numpyro.plate("rows", ROWS, subsample_size=n) as i:
            mean = (X[i] @ w)[:, None] + b * V[j]
            numpyro.sample("y", dist.Normal(mean, 1), obs=TABLE[i[:, None], j])


def nested_subsampled(n):
    b = numpyro.sample("b", dist.Normal(0, 1))
    rows = numpyro.plate("rows", ROWS, subsample_size=n, dim=-2)
    with numpyro.plate("columns", COLUMNS, subsample_size=n and 3, dim=-1), rows:
        table = numpyro.subsample(TABLE, event_dim=0)
        numpyro.sample("y", dist.StudentT(5, b * table**2, 1), obs=table)


def side_by_side(n, x=X, y=Y, other=OTHER):
    w, b = slopes(), numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("left", len(y), subsample_size=n) as idx:
        numpyro.sample("y", dist.Normal(x[idx] @ w + b, 1), obs=y[idx])
    with numpyro.plate("right", len(other), subsample_size=n and 5) as idx:
        numpyro.sample("other", dist.Normal(b, 0.5), obs=other[idx])


def scaled(n):
    w, rows = slopes(), numpyro.plate("rows", ROWS, subsample_size=n)
    with numpyro.handlers.scale(scale=0.3), rows as idx:
        numpyro.sample("y", dist.Normal(X[idx] @ w, 1), obs=Y[idx])
    with rows as idx, numpyro.handlers.scale(scale=2.0):
        numpyro.sample("cubes", dist.Normal(X[idx] ** 3 @ w, 1), obs=Y[idx])


def masked(n):
    w, rows = slopes(), numpyro.plate("rows", ROWS, subsample_size=n)
    with rows as idx, numpyro.handlers.mask(mask=KEEP[idx]):
        numpyro.sample("y", dist.Normal(X[idx] @ w, 1), obs=Y[idx])


def factor(n):
    w = slopes()
    with numpyro.plate("rows", ROWS, subsample_size=n) as idx:
        numpyro.factor("loss", -jnp.abs(X[idx] @ w - Y[idx]))


def groups(n):
    with numpyro.plate("groups", 4):
        b = numpyro.sample("b", dist.Normal(0, 1))
    with numpyro.plate("rows", ROWS, subsample_size=n) as idx:
        numpyro.sample("y", dist.Normal(b[GROUP[idx]], 1), obs=Y[idx])


class Case(NamedTuple):
    model: Callable
    n: int | None = 7
    minibatch_size: Any = None

    def potential(self):
        return ModelPotential.of(self.model, (self.n,), {}, self.minibatch_size)

    def exact(self, z):
        """NumPyro's potential energy, the minibatch removed."""
        return potential_energy(self.model, (None,), {}, z)

    def position(self):
        start = lambda: initialize_model(random.key(0), self.model, model_args=(None,)).param_info.z
        return jax.tree.map(
            lambda x: 0.5 * random.normal(random.key(1), x.shape), jax.eval_shape(start)
        )


OWN_SIZE = [indexed, subsampled, nested, nested_subsampled, side_by_side, scaled, masked, factor]
CASES = {model.__name__: Case(model) for model in [*OWN_SIZE, groups]} | {
    "constrained": Case(lambda n: models.constrained(X, Y, minibatch=n)),
    "plain plate, int": Case(indexed, None, 7),
    "plain plate, numpyro.subsample": Case(subsampled, None, 7),
    "plain plates, dict": Case(nested, None, {"rows": 7, "columns": 3}),
    "plain plates, dict of the one at dim -1": Case(nested, None, {"columns": 3}),
    "plain plates, dict of the one at dim -2": Case(nested_subsampled, None, {"rows": 7}),
    "int over the model's own": Case(indexed, 7, 12),
    "dict over one of the model's own": Case(side_by_side, 7, {"left": 3}),
}

MINIBATCHES = 10_000
ANCHORED = Expansions((1, 2), ())
# About 80 comparisons at 7e-6 each: one fixed seed in two thousand would fail by chance.
LIMIT = 4.5


def with_gradient(function, z):
    """A potential energy and each coordinate of its gradient, as a vector."""
    return flat(jax.value_and_grad(function)(z))


def flat(energy_and_gradient):
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(energy_and_gradient)])


def deviations(values, exact):
    """Deviations of the mean of many estimates (minibatches, d), in standard errors."""
    values, exact = np.asarray(values, np.float64), np.asarray(exact, np.float64)
    rounding = 1e-6 * np.abs(exact).max()
    error = np.hypot(values.std(0, ddof=1) / MINIBATCHES**0.5, rounding)
    return np.abs(values.mean(0) - exact) / error


def z_scores(estimate, exact):
    """The deviations of estimates `(key) -> vector`."""
    keys = random.split(random.key(5), MINIBATCHES)
    values = jax.jit(jax.vmap(estimate))(keys)
    assert (np.asarray(values).std(0) > 0).all()
    return deviations(values, exact)


def anchors_near(full_data, z, order=1):
    """Two anchors, of which the second is the nearer one."""
    anchors = ANCHORED.no_anchors(ravel(z).shape[0])
    for number, position in enumerate((ravel(z) - 2.0, 0.8 * ravel(z) + 0.1)):
        anchor = with_hessian(full_data, anchor_at(full_data, position, anchors))
        anchors = with_anchor(anchors, number, anchor)
    return anchors._replace(order=jnp.full((), order))


def estimator_of(case, energy, z, anchors=()):
    """`key -> [energy, gradient..., variance of the energy]`, the first anchor's energy added."""
    order = anchors.order if anchors else 0
    estimate = choice.of_model(energy, case.potential(), z, CHUNK_BYTES, ANCHORED, order, True)

    def estimated(key):
        value, gradient, *told = estimate(key, ravel(z), anchors)
        offset = anchors.reference.high if anchors else 0.0
        return jnp.concatenate([(value + offset)[None], gradient, jnp.stack(told or [0.0])])

    return estimated


THIRD = (
    "plain plate, numpyro.subsample",
    "nested_subsampled",
    "scaled",
    "plain plate, int",
    "plain plates, dict of the one at dim -1",
    "plain plates, dict of the one at dim -2",
    "dict over one of the model's own",
    "constrained",
    "factor",
    "groups",
    "int over the model's own",
    "masked",
    "plain plates, dict",
    "side_by_side",
    "subsampled",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", [in_third_tier(name) if name in THIRD else name for name in CASES])
def test_estimates_are_unbiased_and_as_noisy_as_is_said(name):
    """Energy and gradient of all choice, and the variance that a full pass gives them."""
    case = CASES[name]
    potential, z = case.potential(), case.position()

    @jax.jit
    def everything(keys):
        full_data = FullData(potential, z)
        both = [anchors_near(full_data, z, order) for order in (1, 2)]
        drawn = [jax.vmap(estimator_of(case, "minibatch", z))(keys)]
        drawn += [jax.vmap(estimator_of(case, "control_variate", z, a))(keys) for a in both]
        anchor = jax.tree.map(lambda x: x[1], both[0].slots)
        said = [
            full_data.at(ravel(z), Reference(anchor.position, jnp.asarray(weight), order))
            for weight, order in ((0.0, 1), (1.0, 1), (1.0, 2))
        ]
        passed = full_data.energy_and_gradient(ravel(z))
        exact, full = (with_gradient(f, z) for f in (case.exact, potential.full))
        return drawn, said, passed, exact, full, anchor.energy

    drawn, said, (energy, gradient), exact, full, offset = everything(
        random.split(random.key(5), MINIBATCHES)
    )
    np.testing.assert_allclose(full, exact, rtol=2e-5, atol=2e-4)
    np.testing.assert_allclose(energy.float64(), exact[0], rtol=1e-5)
    np.testing.assert_allclose(gradient, exact[1:], rtol=1e-4, atol=1e-3)
    assert (np.asarray(drawn[0])[:, :-1].std(0) > 0).all()
    for order, (values, found) in enumerate(zip(drawn, said)):
        assert deviations(values[:, :-1], exact).max() < LIMIT
        np.testing.assert_allclose(
            found.energy.float64() + offset.float64(), exact[0], rtol=1e-5, atol=1e-3
        )
        seen = np.asarray(values[:, 0], np.float64)
        if found.noise < 1e-6 * abs(exact[0]):  # no more than rounding
            continue
        moments = stats.kurtosis(seen) + 2
        assert abs(seen.var() / found.noise - 1) < LIMIT * (moments / MINIBATCHES) ** 0.5
        # What the minibatches tell of it: rows of nested plates are counted more than once.
        told = np.asarray(values[:, -1], np.float64)
        if order:
            error = LIMIT * told.std() / MINIBATCHES**0.5 / found.noise
            most = 1.0 if len(potential.plates.sizes) == 1 else 2.0
            assert 1 - error < told.mean() / found.noise < most + error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("energy", "name"),
    [
        in_third_tier("minibatch", "indexed"),
        in_third_tier("control_variate", "nested"),
        in_third_tier("minibatch", "nested"),
        ("control_variate", "indexed"),
    ],
)
def test_the_gradient_is_that_of_the_same_minibatchs_energy(energy, name):
    """The mean of the drift is then the gradient of a function, which the weights correct for."""
    case = CASES[name]
    potential, z = case.potential(), case.position()
    anchor = anchors_near(FullData(potential, z), z)
    estimate = choice.of_model(energy, potential, z, CHUNK_BYTES, ANCHORED, 1, False)
    value = jax.jit(lambda x: estimate(random.key(3), x, anchor)[0])
    _, gradient, *_ = jax.jit(lambda x: estimate(random.key(3), x, anchor))(ravel(z))
    np.testing.assert_allclose(jax.grad(value)(ravel(z)), gradient, rtol=1e-4, atol=1e-3)


def unscaled(key, z):
    rows = draw_indices(key, ROWS, 7)
    return potential_energy(indexed, (None, X[rows], Y[rows]), {}, z)


def half_of_the_rows(key, z):
    return CASES["indexed"].potential().at(z, {"rows": draw_indices(key, ROWS, 7) // 2})


@pytest.mark.parametrize("wrong", [unscaled, half_of_the_rows])
def test_the_comparison_rejects_biased_estimates(wrong):
    case = CASES["indexed"]
    z = case.position()
    estimate = lambda key: with_gradient(lambda z: wrong(key, z), z)
    assert z_scores(estimate, with_gradient(case.exact, z)).max() > 2 * LIMIT


@pytest.mark.parametrize("name", models.of_first_tier("ContourSGLD", among=models.KINDS))
def test_a_chain_sees_fresh_rows_at_every_step(name):
    """With a step too small to move, the energies are independent estimates at one place."""
    case, steps, partition = CASES["groups"], 2000, EnergyPartition(50, 250, 20)
    z = case.position()
    kernel = models.KERNELS[name](case.model, partition=partition, step_size=1e-25)
    mcmc = models.run(kernel, 0, case.n, samples=steps, warmup=0, init_params=z)
    energy = np.asarray(mcmc.get_extra_fields()["potential_energy_estimate"], np.float64)
    centred = energy - energy.mean()
    assert abs(energy.mean() - float(case.exact(z))) < LIMIT * energy.std() / steps**0.5
    assert abs((centred[1:] * centred[:-1]).mean() / energy.var()) < LIMIT / steps**0.5


@pytest.mark.parametrize(
    ("case", "energy"),
    [
        pytest.param(Case(nested, None), None, id="no minibatch"),
        pytest.param(CASES["nested"], "full", id="energy full"),
        pytest.param(Case(indexed, None, ROWS), None, id="minibatch of all rows"),
        pytest.param(Case(indexed, 7, ROWS), None, id="minibatch of all rows over the model's own"),
    ],
)
def test_without_a_minibatch_every_estimate_is_numpyros_potential(case, energy):
    z = case.position()
    chosen = choice.chosen(energy, case.potential(), descends=True)
    found = jax.jit(jax.vmap(estimator_of(case, chosen, z)))(random.split(random.key(0), 3))
    exact = with_gradient(case.exact, z)
    np.testing.assert_allclose(found[:, :-1], jnp.stack([exact] * 3), rtol=2e-5, atol=2e-4)


def uniform(numbers, size):
    """The p value of numbers below `size` being uniform."""
    return stats.chisquare(np.bincount(numbers, minlength=size)).pvalue


def high_and_low(rows, size):
    """P values of the upper and of the lower digits of row numbers."""
    high, low = min(size, 50), min(size, 8)
    return uniform(rows * high // size, high), uniform(rows % low, low)


# Above 2**16 a size has two halves of bits; above 2**24 JAX's own generator takes over.
@pytest.mark.parametrize("size", [2, 7, 1000, 2**16 - 1, 2**16 + 1, 10_000_019, 2**24, 2**24 + 1])
def test_row_numbers_are_uniform(size):
    draw = jax.jit(jax.vmap(lambda key: draw_indices(key, size, 50)))
    rows = draw(random.split(random.key(3), 4000))
    assert (rows.dtype, rows.shape) == (jnp.int32, (4000, 50))
    rows = np.asarray(rows, np.int64).ravel()
    assert rows.min() >= 0
    assert rows.max() < size
    assert min(high_and_low(rows, size)) > 1e-4
    # It can fail: without the last 2 % of the rows, or without odd rows.
    assert high_and_low((0.98 * rows).astype(int), size)[0] < 1e-10
    assert high_and_low(rows // 2 * 2, size)[1] < 1e-10


def test_rows_are_drawn_with_replacement():
    draw = jax.vmap(lambda key: draw_indices(key, 10, 5))
    rows = np.sort(draw(random.split(random.key(4), 20_000)), axis=1)
    distinct = (np.diff(rows, axis=1) > 0).all(axis=1).mean()
    chance = 0.9 * 0.8 * 0.7 * 0.6
    assert abs(distinct - chance) < LIMIT * (chance * (1 - chance) / 20_000) ** 0.5


def test_plates_draw_independently_of_each_other():
    plates = SubsamplePlates({"a": (6, 5), "b": (8, 5)})
    rows = jax.vmap(plates.draw)(random.split(random.key(6), 10_000))
    assert uniform(np.ravel(rows["a"]) * 8 + np.ravel(rows["b"]), 48) > 1e-4


@jax.jit
def all_finite(x, y, other):
    potential = ModelPotential.of(side_by_side, (5000, x, y, other))
    return potential.finite_on_all_rows({"w": jnp.ones(3), "b": jnp.array(1.0)})


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf])
def test_one_bad_row_is_found_wherever_it_is(bad):
    # Longer than the pieces that are looked at together, 4096, and no multiple of them.
    x, y, other = jnp.zeros((12_345, 3)), jnp.zeros(12_345), jnp.zeros(9001)
    assert all_finite(x, y, other)
    for row in (0, 4095, 4096, 12_344):
        assert not all_finite(x, y.at[row].set(bad), other)
        assert not all_finite(x.at[row, 1].set(bad), y, other)
    for row in (0, 4095, 4096, 9000):
        assert not all_finite(x, y, other.at[row].set(bad))


def table_of(values):
    columns = numpyro.plate("columns", 70, subsample_size=5, dim=-1)
    with columns as column, numpyro.plate("rows", 150, subsample_size=3, dim=-2) as row:
        numpyro.sample("y", dist.Normal(0, 1), obs=values[row[:, None], column])


def test_one_bad_cell_of_nested_plates_is_found():
    """Pieces of 64 rows and 64 columns: not only those on the diagonal are looked at."""

    @jax.jit
    def finite(values):
        return ModelPotential.of(table_of, (values,)).finite_on_all_rows({})

    assert finite(jnp.zeros((150, 70)))
    for cell in ((0, 0), (0, 69), (149, 0), (100, 65), (149, 69)):
        assert not finite(jnp.zeros((150, 70)).at[cell].set(jnp.nan)), cell


OBSERVED = {
    "indexed": {"y": Y},
    "subsampled": {"y": Y, "pairs": PAIRS},
    "nested": {"y": TABLE, "v": V},
    "side_by_side": {"y": Y, "other": OTHER},
    "factor": {},  # no data: a factor's value is empty
    "plain plates, dict": {"y": TABLE, "v": V},
}


@pytest.mark.parametrize("name", OBSERVED)
def test_observations_are_those_of_all_rows(name):
    found = CASES[name].potential().observations()
    assert found.keys() == OBSERVED[name].keys()
    for site, values in OBSERVED[name].items():
        np.testing.assert_array_equal(found[site], values)


@pytest.mark.parametrize("name", ["SGLD", in_second_tier("ContourSGLD")])
def test_the_posterior_of_a_normal_mean_from_minibatches(name):
    """20,000 rows, 200 at a time; both limits are more than three standard errors."""
    rows, chains = 20_000, 32
    y = models.normal_data(mean=0.3, rows=rows)
    mean, sd = float(y.sum()) / (rows + 1e-4), (rows + 1e-4) ** -0.5
    # The noise of the gradient adds eps N**2 / (2 n) = 10 % to the variance, 5 % to the sd, and a
    # chain forgets in 1 / (eps N) = 500 steps: 480 independent draws in all. The noise of the
    # energy, 1000 nats, is so far above any barrier here that nothing is flattened.
    partition = EnergyPartition(25_000, 32_000, 70)
    kernel = models.KERNELS[name](models.normal, partition=partition, step_size=1e-7, num_steps=100)
    mcmc = models.run(
        kernel,
        0,
        y,
        model_kwargs={"minibatch": 200},
        init_params={"mu": mean + sd * random.normal(random.key(8), (chains,))},
        chains=chains,
        chain_method="vectorized",
        warmup=0,
        samples=150,
    )
    samples, log_weights = weighted_samples(mcmc)
    weights, mu = np.exp(log_weights), np.asarray(samples["mu"], np.float64)
    by_chain = (weights * mu).mean(1)
    assert abs(by_chain.mean() - mean) < 0.3 * sd
    assert 4 * by_chain.std(ddof=1) / chains**0.5 < 0.3 * sd
    found = (weights * (mu - mean) ** 2).mean() ** 0.5
    assert abs(found / sd - 1.05) < 0.12
