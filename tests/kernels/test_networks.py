"""Networks of flax: batch normalisation, augmentation and predictions."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from flax import nnx
from jax import random
from numpyro.contrib.module import random_flax_module, random_nnx_module
from numpyro.infer import MCMC
from tiers import in_third_tier

import numpyro_contour as nc
from numpyro_contour.models.model_potential import ModelPotential
from numpyro_contour.runs.finished_run import FinishedRun
from numpyro_contour.runs.module_states import module_states
from numpyro_contour.statistics.arviz_versions import to_datasets

ROWS, CLASSES = 240, 3


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train=True):
        x = nn.Conv(6, (3, 3))(x)
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        return nn.Dense(CLASSES)(nn.relu(x).mean((1, 2)))


def images():
    """Stripes in three directions, in noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, CLASSES, ROWS)
    up, right = np.mgrid[:8, :8]
    patterns = np.stack([np.sin(2 * up), np.sin(2 * right), np.sin(1.4 * (up + right))])
    pixels = patterns[labels] + rng.normal(size=(ROWS, 8, 8))
    return pixels[..., None].astype(np.float32), labels


def model(x, y=None):
    prior = dist.Normal(0, 1)
    net = random_flax_module("net", Net(), prior, x[:1], mutable=["batch_stats"])
    training = nc.training()
    with numpyro.plate("images", len(x), subsample_size=40) as idx:
        rows = x[idx]
        if training:
            rows = rows + 0.1 * random.normal(nc.step_key(), rows.shape)
        logits = net(rows, train=training)
        numpyro.deterministic("p", jax.nn.softmax(logits))
        numpyro.sample("y", dist.Categorical(logits=logits), obs=None if y is None else y[idx])


GIVEN = {"step_size": 3e-4, "num_steps": 20}
PARTITION = {"partition": nc.EnergyPartition(0.0, 400.0, 40)}
SETTINGS = {
    "SGHMC": {},
    "ContourSGHMC": PARTITION,
    "SGLD": {},
    "SGNHT": {},
    # Over a cycle its steps are half as large on average.
    "CyclicalSGLD": {"cycle_length": 100, "step_size": 6e-4},
    "CyclicalSGHMC": {"cycle_length": 100},
    "ReplicaExchangeSGLD": {"correction_factor": 1e3},
    "ReplicaExchangeSGHMC": {"correction_factor": 1e3},
    "ContourSGLD": PARTITION,
    "ContourSGNHT": PARTITION,
}
RUNS = {}


def finished(name):
    if name not in RUNS:
        kernel = getattr(nc, name)(model, **GIVEN | SETTINGS[name])
        RUNS[name] = models.run(kernel, 0, *images(), samples=20, warmup=20, chains=2)
    return RUNS[name]


@pytest.fixture
def run():
    return finished("SGHMC")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [*list(SETTINGS)[:2], *(in_third_tier(name) for name in list(SETTINGS)[2:])]
)
def test_a_network_learns_by_every_kernel(name):
    x, y = images()
    mcmc = finished(name)
    found = nc.predictive(mcmc, random.key(1), x, return_sites=["p"])["p"]
    draws, log_weights = np.asarray(found, float), nc.weighted_samples(mcmc)[1]
    weights = np.exp(np.asarray(log_weights, float))
    accuracy = (draws.argmax(-1) == y).mean(-1)
    average = (nc.predictive_mean(mcmc, x)["p"].argmax(-1) == y).mean()
    assert average > 0.8
    assert average >= (weights * accuracy).sum() / weights.sum()
    shapes = {site: value.shape[2:] for site, value in mcmc.get_samples(True).items()}
    assert shapes["net/Conv_0.kernel"] == (3, 3, 1, 6)


@pytest.mark.slow
def test_the_mean_is_the_weighted_mean_of_predictions():
    x, _ = images()
    mcmc = finished("ContourSGHMC")
    weights = np.exp(np.asarray(nc.weighted_samples(mcmc)[1], float))
    weights /= weights.sum(1, keepdims=True)
    draws = np.asarray(nc.predictive(mcmc, random.key(1), x[:30], return_sites=["p"])["p"], float)
    expected = np.einsum("cd,cdrk->rk", weights, draws) / len(weights)
    np.testing.assert_allclose(nc.predictive_mean(mcmc, x[:30])["p"], expected, atol=1e-6)


@pytest.mark.slow
def test_predictions_do_not_depend_on_the_order_or_number_of_rows(run):
    x, _ = images()
    order = np.random.default_rng(1).permutation(ROWS)
    whole = nc.predictive_mean(run, x)["p"]
    pieces = nc.predictive_mean(run, x[order], rows_at_once=37)["p"]
    np.testing.assert_allclose(pieces, whole[order], atol=1e-6)
    alone = nc.predictive_mean(run, x[:1])["p"]
    np.testing.assert_allclose(alone, whole[:1], atol=1e-6)


@pytest.mark.slow
def test_images_on_disk_give_the_same_run(tmp_path):
    # Of few steps, as rounding errors grow with each.
    kernel = nc.SGHMC(model, step_size=3e-4, num_steps=5)
    run = partial(models.run, kernel, 0, samples=6, warmup=6, chains=2)
    x, y = images()
    in_memory = run(x, y)
    for name, array in {"x": x, "y": y}.items():
        np.save(tmp_path / f"{name}.npy", array)
    data = (nc.on_disk(tmp_path / f"{name}.npy") for name in "xy")
    mcmc = run(*data)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
    jax.tree.map(close, mcmc.get_samples(), in_memory.get_samples())
    close(nc.predictive_mean(mcmc, x[:30])["p"], nc.predictive_mean(in_memory, x[:30])["p"])
    moved = np.ptp(mcmc.get_samples()["net/Dense_0.bias"], 0)
    assert (moved > 0.02).all()


@pytest.mark.slow
def test_predictions_and_log_likelihoods_are_those_of_flax(run):
    """By a network that is given the parameters of a draw, and the means over all minibatches."""
    x, y = images()
    values = jax.tree.map(lambda v: v[1, 7], run.get_samples(True))
    params = {"Conv_0": {}, "BatchNorm_0": {}, "Dense_0": {}}
    for site, value in values.items():
        layer, leaf = site.removeprefix("net/").split(".")
        params[layer][leaf] = value
    seen = nn.Conv(6, (3, 3)).apply({"params": params["Conv_0"]}, x).reshape(6, 40, 8, 8, 6)
    # What augmentation adds to the minibatches by which the state is measured.
    state = jax.tree.map(lambda v: v[1, 7], module_states(FinishedRun.of(run)))
    found = state["net$state"]["batch_stats"]["BatchNorm_0"]
    weights = np.asarray(params["Conv_0"]["kernel"], float)
    added = 0.01 * np.square(weights).sum((0, 1, 2))
    np.testing.assert_allclose(found["mean"], seen.mean((0, 1, 2, 3)), atol=0.02)
    expected = seen.var((1, 2, 3)).mean(0)
    assert (np.asarray(found["var"]) > expected - 0.01).all()
    np.testing.assert_allclose(found["var"], expected + added, rtol=0.05)
    logits = Net().apply({"params": params, "batch_stats": {"BatchNorm_0": found}}, x, train=False)
    p = nc.predictive(run, random.key(1), x, return_sites=["p"])["p"][1, 7]
    np.testing.assert_allclose(p, jax.nn.softmax(logits), atol=1e-5)
    idata = nc.to_inference_data(run, log_likelihood=True)
    kernel = idata["posterior"]["net.Conv_0.kernel"]  # arviz 1.x has no names with slashes
    np.testing.assert_array_equal(kernel[1, 7], params["Conv_0"]["kernel"])
    expected = jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], -1)[:, 0]
    of_draw = np.asarray(idata["log_likelihood"]["y"])[1, 7]
    np.testing.assert_allclose(of_draw, expected, rtol=1e-4, atol=1e-5)


def normalised(x, y=None, ask=True, plate="rows"):
    """Rows that are normalised before anything else: the state is known in closed form."""
    w = numpyro.sample("w", dist.Normal(0, 1))
    norm = numpyro.contrib.module.flax_module(
        "norm",
        nn.BatchNorm(momentum=0.7, use_bias=False, use_scale=True),
        x[:1],
        use_running_average=False,
        mutable=["batch_stats"],
    )
    train = nc.training() if ask else True
    with numpyro.plate(plate, len(x), subsample_size=5) as idx:
        rows = norm(x[idx], use_running_average=not train)[:, 0]
        numpyro.sample("y", dist.Normal(w * rows, 1), obs=y[idx])


def small():
    rng = np.random.default_rng(2)
    return 3 + 2 * rng.normal(size=(23, 1)).astype(np.float32), np.zeros(23, np.float32)


@pytest.mark.slow
def test_a_state_is_the_mean_over_minibatches():
    """Whatever the momentum; rows that do not fill a minibatch are left out."""
    x, y = small()
    kernel = nc.SGLD(normalised, step_size=1e-3, num_steps=2)
    mcmc = models.run(kernel, 0, x, y, samples=4, warmup=0)
    state = module_states(FinishedRun.of(mcmc))["norm$state"]["batch_stats"]
    parts = x[:20, 0].reshape(4, 5)
    np.testing.assert_allclose(state["mean"][0, :, 0], [parts.mean()] * 4, rtol=1e-5)
    np.testing.assert_allclose(state["var"][0, :, 0], [parts.var(1).mean()] * 4, rtol=1e-4)


@pytest.mark.slow
def test_without_minibatches_a_state_is_that_of_all_rows():
    x, y = small()
    kernel = nc.SGLD(normalised, minibatch_size=23, step_size=1e-3, num_steps=2)
    mcmc = models.run(kernel, 0, x, y, samples=4, warmup=0)
    state = module_states(FinishedRun.of(mcmc))["norm$state"]["batch_stats"]
    np.testing.assert_allclose(state["mean"][0, :, 0], [x.mean()] * 4, rtol=1e-5)
    np.testing.assert_allclose(state["var"][0, :, 0], [x.var()] * 4, rtol=1e-4)


@pytest.mark.slow
def test_energies_after_training_are_not_held_against_the_draws():
    """They are other energies than those of the steps: the checks by them would find faults."""
    groups = to_datasets(nc.to_inference_data(finished("ContourSGHMC")))
    assert not {"gradient", "equipartition", "curvature"} & set(groups)
    assert "lp" not in groups["sample_stats"]


def noisy(y):
    """All rows are alike, so that energies differ by the key of the step only."""
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("rows", len(y), subsample_size=4) as idx:
        rows = y[idx]
        if nc.training():
            rows = rows + random.normal(nc.step_key(), rows.shape)
        numpyro.sample("y", dist.Normal(mu, 1), obs=rows)


@pytest.mark.slow
def test_each_step_has_a_key_of_its_own():
    potential = ModelPotential.of(noisy, (jnp.zeros(20),))
    keys = random.split(random.key(3), 2000)
    energy = jax.vmap(potential.minibatch, (0, None))
    found = np.asarray(energy(keys, {"mu": jnp.array(0.5)}), float)
    np.testing.assert_array_equal(found, energy(keys, {"mu": jnp.array(0.5)}))
    half_log = 0.5 * np.log(2 * np.pi)
    # A square of mean 0.5 and sd 1 has the mean 1.25 and the variance 3.
    expected = 20 * (0.5 * 1.25 + half_log) + 0.125 + half_log
    sd = 20 * 0.5 * np.sqrt(3 / 4)
    assert found.mean() == pytest.approx(expected, abs=4 * sd / np.sqrt(2000))
    assert found.std() == pytest.approx(sd, rel=0.15)


@pytest.mark.slow
def test_parameters_without_a_prior_stay_as_they_are():
    """They are drawn by NumPyro's own key, which must not follow the steps."""
    x, y = images()

    def partly(x, y):
        net = random_flax_module("net", Net(), {"Dense_0.kernel": dist.Normal(0, 1)}, x[:1],
                                 mutable=["batch_stats"])  # fmt: skip
        with numpyro.plate("images", len(x), subsample_size=len(x) - 1) as idx:
            still = 0 * random.normal(nc.step_key())
            logits = net(x[jnp.sort(idx)] + still, train=nc.training())
            numpyro.sample("y", dist.Categorical(logits=logits), obs=y[jnp.sort(idx)])

    potential = ModelPotential.of(partly, (x[:2].repeat(2, 0), y[:2].repeat(2)))
    position = {"net/Dense_0.kernel": jnp.ones((6, CLASSES))}
    rows = {"images": jnp.array([0, 1, 2])}
    found = [
        float(potential.at(position, potential.plates.draw(random.key(k)) | rows)) for k in (0, 1)
    ]
    assert found[0] == found[1]


class NnxNet(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(3, 4, rngs=rngs)
        self.norm = nnx.BatchNorm(4, rngs=rngs)
        self.last = nnx.Linear(4, 1, rngs=rngs)

    def __call__(self, x, train):
        x = self.norm(self.first(x), use_running_average=not train)
        return self.last(nnx.relu(x))[:, 0]


@pytest.mark.slow
def test_modules_of_nnx_have_their_state_too():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 3)).astype(np.float32)
    y = x[:, 0] - x[:, 1] + 0.3 * rng.normal(size=100).astype(np.float32)
    network = NnxNet(nnx.Rngs(0))

    def regression(x, y=None):
        net = random_nnx_module("net", network, dist.Normal(0, 1))
        with numpyro.plate("rows", len(x), subsample_size=25) as idx:
            f = numpyro.deterministic("f", net(x[idx], nc.training()))
            numpyro.sample("y", dist.Normal(f, 0.3), obs=None if y is None else y[idx])

    kernel = nc.SGHMC(regression, step_size=2e-5, num_steps=50)
    mcmc = MCMC(kernel, num_warmup=30, num_samples=20, progress_bar=False)
    mcmc.run(random.key(0), x, y)
    f = nc.predictive_mean(mcmc, x)["f"]
    assert np.corrcoef(f, y)[0, 1] > 0.9
    order = rng.permutation(100)
    pieces = nc.predictive_mean(mcmc, x[order], rows_at_once=13)["f"]
    np.testing.assert_allclose(pieces, f[order], atol=1e-5)


# --------------------------------------------------------------------------- wrong use


def test_a_state_that_nobody_asks_about_is_refused():
    with pytest.raises(ValueError, match=r"module with a state, 'norm\$state'.*train=.*training"):
        nc.SGLD(lambda x, y: normalised(x, y, ask=False)).init(random.key(0), 100, None, small())


@pytest.mark.parametrize("energy", ["control_variate", "full"])
def test_other_energies_are_refused(energy):
    kernel = nc.SGLD(normalised, energy=energy, step_size=1e-3)
    with pytest.raises(ValueError, match=f"`energy` takes None or 'minibatch'.*{energy!r}"):
        kernel.init(random.key(0), 100, None, small())


def test_keys_without_minibatches_are_refused():
    kernel = nc.SGLD(noisy, minibatch_size=20, step_size=1e-3)
    with pytest.raises(ValueError, match=r"asks for a `step_key`.*`minibatch_size`"):
        kernel.init(random.key(0), 100, None, (jnp.zeros(20),))


@pytest.mark.slow
def test_sites_that_cannot_be_averaged_are_named(run):
    x, _ = images()
    with pytest.raises(ValueError, match=r"no site 'q'; it has"):
        nc.predictive_mean(run, x, sites=["q"])
    with pytest.raises(ValueError, match=r"`rows_at_once`.*but got 0"):
        nc.predictive_mean(run, x, rows_at_once=0)

    def without(y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", dist.Normal(mu, 1), obs=y)

    mcmc = MCMC(nc.SGLD(without, step_size=0.01), num_warmup=0, num_samples=4, progress_bar=False)
    mcmc.run(random.key(0), jnp.zeros(5))
    with pytest.raises(ValueError, match="`sites` takes names of sites, but got None"):
        nc.predictive_mean(mcmc, jnp.zeros(5))
