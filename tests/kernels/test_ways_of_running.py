"""NumPyro's own expectations of a kernel: every way to run it, for all that kernels are made of."""

import functools
import pickle

import jax
import jax.numpy as jnp
import models
import numpy as np
import pytest
from jax import random
from numpyro.infer import MCMC
from tiers import in_second_tier

from numpyro_contour import ContourSGLD

FIRST = ("ContourSGLD", "ReplicaExchangeSGHMC")
all_parts = pytest.mark.parametrize("name", models.of_first_tier(*FIRST, among=models.PARTS))


def others(names, tested):
    """The kernels of these that are not tested already."""
    return tuple(name for name in names if name not in tested)


# What is the adaptor's alone is tested on one kernel of each kind of state.
kinds = pytest.mark.parametrize("name", models.of_first_tier(*FIRST, among=models.KINDS))
# One kernel and, in the second tier, others.
one_kernel = pytest.mark.parametrize(
    "name", models.of_first_tier("ContourSGLD", among=models.PARTS)
)
one_kind = pytest.mark.parametrize("name", models.of_first_tier("ContourSGLD", among=models.KINDS))


@functools.cache
def finished(name, **arguments):
    """A run that several tests look at, and leave as it is."""
    return normal_run(name, **arguments)


def normal_run(name, seed=0, samples=60, y=None, **arguments):
    y = models.normal_data() if y is None else y
    return models.run(models.normal_kernel(name), seed, y, samples=samples, **arguments)


def same_but_for_rounding(one, other):
    """Draws of one program and of another that XLA may have fused otherwise."""
    assert jax.tree.structure(one) == jax.tree.structure(other)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), one, other)


# --------------------------------------------------------------------------- chains


METHODS = {"vectorized": "vectorized", "vmap": jax.vmap}
TOGETHER = {(FIRST[0], "vectorized")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "method"),
    [
        (name, method) if (name, method) in TOGETHER else in_second_tier(name, method)
        for name in models.PARTS
        for method in (METHODS if name in models.KINDS else ("vectorized",))
        # Chains that share theta do so only where they run together.
        if name != "InteractingContourSGLD"
    ],
)
def test_chain_methods_run_the_same_chains(name, method, two_chains):
    one_by_one = two_chains(name)
    if name in models.KINDS:
        kernel, data = models.constrained_kernel(name), models.constrained_data()
        sites = {"scale", "shares", "upper", "inside", "twice"}
    else:
        kernel, data, sites = models.normal_kernel(name), (models.normal_data(),), {"mu"}
    together = models.run(kernel, 0, *data, chains=2, chain_method=METHODS[method])
    expected, found = (m.get_samples(group_by_chain=True) for m in (one_by_one, together))
    assert found.keys() == expected.keys() == sites | ({"log_weight"} & expected.keys())
    for site in expected:
        # Batched arithmetic rounds differently.
        np.testing.assert_allclose(found[site], expected[site], rtol=2e-3, atol=1e-3)
        assert not np.allclose(expected[site][0], expected[site][1])


PARALLEL = """
import sys, jax, numpy as np, models
y = models.normal_data()
for name in sys.argv[1:]:
    mcmc, again = (models.run(models.normal_kernel(name), 0, y, chains=2, chain_method=method)
                   for method in ("parallel", "sequential"))
    assert len(mcmc.last_state.rng_key.devices()) == 2
    found, expected = (m.get_samples(True)["mu"] for m in (mcmc, again))
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3)
    print(name)
"""


@pytest.mark.parametrize(
    "names", [*map(in_second_tier, [FIRST[:1], others(models.KINDS, FIRST[:1])])], ids=len
)
def test_parallel_chains_on_two_devices(names, run_python):
    flags = "--xla_force_host_platform_device_count=2"
    assert run_python(PARALLEL, *names, XLA_FLAGS=flags).split() == list(names)


@pytest.mark.slow
@kinds
def test_one_chain_and_its_supports(name, constrained_runs):
    single = models.run(models.constrained_kernel(name), 3, *models.constrained_data())
    samples = single.get_samples()
    assert samples["scale"].shape == (60,)
    assert samples["shares"].shape == (60, 3)
    # Per-row deterministic sites of a minibatch belong to no row of the data.
    assert "fitted" not in samples
    assert (samples["scale"] > 0).all()
    np.testing.assert_allclose(samples["shares"].sum(-1), 1.0, atol=1e-5)
    assert ((samples["inside"] > 0) & (samples["inside"] < samples["upper"])).all()
    np.testing.assert_allclose(samples["twice"], 2 * samples["inside"], rtol=1e-6)


@pytest.mark.slow
@one_kind
def test_the_first_of_two_chains_is_a_chain_alone(name):
    two = finished(name, chains=2, chain_method="vectorized").get_samples(group_by_chain=True)
    alone = normal_run(name, seed=random.split(random.key(0))[0]).get_samples()["mu"]
    np.testing.assert_allclose(two["mu"][0], alone, rtol=2e-3, atol=1e-3)


@pytest.mark.slow
@one_kind
@pytest.mark.parametrize("method", ["sequential", in_second_tier("vectorized")])
def test_a_run_inside_jit(name, method):
    """As consensus Monte Carlo needs it; what depends on values is not checked there."""

    @jax.jit
    def samples(key, y):
        return normal_run(name, seed=key, y=y, chains=2, chain_method=method).get_samples()["mu"]

    expected = normal_run(name, chains=2, chain_method=method).get_samples()["mu"]
    found = samples(random.key(0), models.normal_data())
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=1e-3)


# --------------------------------------------------------------------------- repeated runs


@pytest.mark.slow
@one_kernel
@pytest.mark.parametrize("jit_model_args", [in_second_tier(False), True])
def test_a_second_run_takes_new_data(name, jit_model_args):
    """100 rows of variance 1 put the posterior mean within 0.5 of the data's, 5 of its sd."""
    y = models.normal_data(mean=0.0)
    mcmc = normal_run(name, y=y, jit_model_args=jit_model_args)
    assert abs(mcmc.get_samples()["mu"].mean() - y.mean()) < 0.5
    other = models.normal_data(mean=50.0, seed=4)
    mcmc.run(random.key(1), other, init_params={"mu": jnp.array(49.0)})
    assert abs(mcmc.get_samples()["mu"][20:].mean() - other.mean()) < 0.5
    of_another_size = models.normal_data(mean=-3.0, rows=130, seed=5)
    mcmc.run(random.key(2), of_another_size, init_params={"mu": jnp.array(-2.0)})
    assert abs(mcmc.get_samples()["mu"][20:].mean() - of_another_size.mean()) < 0.5


@one_kernel
def test_jit_model_args_changes_no_draw(name):
    plain, jitted = finished(name), normal_run(name, jit_model_args=True)
    np.testing.assert_allclose(
        plain.get_samples()["mu"], jitted.get_samples()["mu"], rtol=1e-4, atol=1e-4
    )


@all_parts
@pytest.mark.parametrize("jit_model_args", [in_second_tier(False), True])
def test_a_second_run_compiles_nothing(name, jit_model_args, compilations, monkeypatch):
    # NumPyro shows no progress bar, and runs other code, where it sees these.
    for variable in ("CI", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(variable, raising=False)
    # Without `jit_model_args` NumPyro takes the data as constants, so that new data are new code.
    y = models.normal_data()
    then = models.normal_data(seed=9) if jit_model_args else y
    mcmc = normal_run(name, y=y, progress_bar=True, jit_model_args=jit_model_args)
    first = mcmc.get_samples()["mu"]
    compilations.clear()
    mcmc.run(random.key(5), then)
    assert compilations == []
    assert not np.allclose(first, mcmc.get_samples()["mu"])


@pytest.mark.slow
@one_kind
def test_vectorized_chains_run_again(name):
    """HMC wraps its transition once more at each vectorised run; this one must not."""
    y = models.normal_data()
    mcmc = normal_run(name, chains=2, chain_method="vectorized")
    first = mcmc.get_samples(group_by_chain=True)["mu"]
    mcmc.run(random.key(0), y)
    np.testing.assert_array_equal(mcmc.get_samples(group_by_chain=True)["mu"], first)


@pytest.mark.slow
@one_kind
def test_compiling_ahead_changes_no_draw(name):
    y = models.normal_data()
    mcmc = MCMC(models.normal_kernel(name), num_warmup=30, num_samples=60, progress_bar=False)
    mcmc._compile(random.key(0), y)
    mcmc.warmup(random.key(0), y)
    mcmc.run(mcmc.last_state.rng_key, y)
    same_but_for_rounding(mcmc.get_samples(), finished(name).get_samples())


# --------------------------------------------------------------------------- warm-up, continuing


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "chains"),
    [
        ("ContourSGLD", 1),
        in_second_tier("ReplicaExchangeSGHMC", 2),
        in_second_tier("ContourSGLD", 2),
        in_second_tier("ReplicaExchangeSGHMC", 1),
        in_second_tier("SGLD", 1),
        in_second_tier("SGLD", 2),
    ],
)
def test_warmup_then_run_is_run(name, chains):
    y = models.normal_data()
    options = {"chains": chains, "chain_method": "vectorized" if chains > 1 else "sequential"}
    at_once = finished(name) if chains == 1 else finished(name, **options)
    mcmc = MCMC(
        models.normal_kernel(name),
        num_warmup=30,
        num_samples=60,
        num_chains=chains,
        chain_method=options["chain_method"],
        progress_bar=False,
    )
    mcmc.warmup(random.key(0), y, collect_warmup=True)
    assert mcmc.get_samples()["mu"].shape == (30 * chains,)
    kept = mcmc.last_state
    mcmc.run(mcmc.post_warmup_state.rng_key, y)
    assert models.equal(mcmc.get_samples(), at_once.get_samples())
    assert models.equal(mcmc.last_state, at_once.last_state)
    assert int(np.min(kept.sampler.chain.steps)) == 30


@kinds
def test_continuing_goes_on_where_the_chain_stopped(name):
    y = models.normal_data()
    long = normal_run(name, samples=120, warmup=0)
    mcmc = normal_run(name, samples=60, warmup=0)
    first = mcmc.get_samples()["mu"]
    mcmc.post_warmup_state = mcmc.last_state
    mcmc.run(mcmc.post_warmup_state.rng_key, y)
    joined = np.concatenate([first, mcmc.get_samples()["mu"]])
    np.testing.assert_array_equal(joined, long.get_samples()["mu"])
    assert models.equal(mcmc.last_state, long.last_state)


# --------------------------------------------------------------------------- what is collected


@pytest.mark.slow
@one_kind
def test_thinning_keeps_every_third_draw(name):
    all_draws, thinned = (
        m.get_samples()["mu"] for m in (finished(name), normal_run(name, thinning=3))
    )
    np.testing.assert_array_equal(thinned, all_draws[2::3])


@pytest.mark.slow
@kinds
def test_extra_fields(name):
    kernel = models.constrained_kernel(name, num_steps=1)
    mcmc = models.run(
        kernel,
        0,
        *models.constrained_data(),
        extra_fields=("position", "sampler.chain.steps", "sampler.chain.guard.refused"),
    )
    fields = mcmc.get_extra_fields()
    assert set(kernel.default_fields) - {kernel.sample_field} <= set(fields)
    np.testing.assert_array_equal(fields["sampler.chain.steps"], np.arange(31, 91))
    # With a window of one step the draw is where the chain is.
    np.testing.assert_allclose(
        np.exp(fields["position"]["scale"]), mcmc.get_samples()["scale"], rtol=1e-5
    )


@pytest.mark.slow
@one_kind
def test_removed_sites_stay_away(name):
    kernel, data = models.constrained_kernel(name), models.constrained_data()
    mcmc = models.run(kernel, 0, *data, extra_fields=(f"~{kernel.sample_field}.shares",))
    assert set(mcmc.get_samples()) - {"log_weight"} == {"scale", "upper", "inside", "twice"}
    if kernel.sample_field != "z":
        with pytest.raises(ValueError, match=r"'~weighted_draw.' and its name"):
            models.run(kernel, 0, *data, extra_fields=("~z.shares",))


@pytest.mark.slow
@kinds
def test_progress_bar_says_where_the_chain_is(name, monkeypatch, capsys):
    for variable in ("CI", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(variable, raising=False)
    mcmc = normal_run(name, progress_bar=True)
    same_but_for_rounding(mcmc.get_samples(), finished(name).get_samples())
    shown = capsys.readouterr().err
    assert f"energy {float(mcmc.last_state.potential_energy_estimate):.1f}" in shown
    if name == "ContourSGLD":
        counts = np.asarray(mcmc.last_state.sampler.theta.bin_counts)
        assert f"bins visited {np.mean(counts > 0):.0%}" in shown
        assert "multiplier" in shown


@pytest.mark.slow
@one_kind
def test_progress_bar_of_chains_that_run_together(name, monkeypatch, capsys):
    """The median, the lowest and the highest energy; a run that goes on keeps all keys."""
    for variable in ("CI", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(variable, raising=False)
    mcmc = normal_run(name, chains=3, chain_method="vectorized", progress_bar=True)
    low, middle, high = np.sort(mcmc.last_state.potential_energy_estimate)
    shown = capsys.readouterr().err
    assert f"3 chains: energy {middle:.1f} ({low:.1f} to {high:.1f}), step size 1.0e-03" in shown
    if name == "ContourSGLD":
        counts = np.asarray(mcmc.last_state.sampler.theta.bin_counts)
        assert f"bins visited {np.mean(counts > 0):.0%}, 1 step a draw" in shown
    mcmc.post_warmup_state = mcmc.last_state
    mcmc.run(mcmc.last_state.rng_key, models.normal_data())
    assert mcmc.last_state.rng_key.shape == (3,)
    assert not mcmc.sampler.is_ensemble_kernel


def test_the_progress_bar_names_the_stage_that_all_chains_are_in():
    kernel = models.normal_kernel("SGLD", step_size=None)
    keys = random.split(random.key(0), 2)
    state = kernel.first_state(keys, 100, None, (models.normal_data(),), {})
    assert kernel.get_diagnostics_str(state).startswith(f"2 chains: {kernel.stage_names()[0]}, ")
    done = state._replace(warmup=state.warmup._replace(iteration=state.warmup.length))
    assert kernel.get_diagnostics_str(done).startswith("2 chains: energy ")


@one_kind
def test_summary_prints(name, capsys):
    finished(name).print_summary()
    assert "mu" in capsys.readouterr().out


# --------------------------------------------------------------------------- copies and precision


@one_kernel
def test_pickled_kernel_state_and_run(name):
    y = models.normal_data()
    mcmc = finished(name)
    kernel = pickle.loads(pickle.dumps(models.normal_kernel(name)))
    again = models.run(kernel, 0, y)
    assert models.equal(again.get_samples(), mcmc.get_samples())

    loaded = pickle.loads(pickle.dumps(mcmc))
    assert models.equal(loaded.get_samples(), mcmc.get_samples())
    assert models.equal(loaded.get_extra_fields(), mcmc.get_extra_fields())
    loaded.run(random.key(0), y)
    assert models.equal(loaded.get_samples(), mcmc.get_samples())

    # Typed keys do not pickle, in NumPyro's states neither: their data do.
    state = mcmc.last_state
    bare = state._replace(rng_key=random.key_data(state.rng_key))
    assert models.equal(pickle.loads(pickle.dumps(bare)), bare)


@one_kind
def test_typed_and_raw_keys_draw_the_same(name):
    typed, raw = finished(name), normal_run(name, seed=random.PRNGKey(0))
    np.testing.assert_array_equal(typed.get_samples()["mu"], raw.get_samples()["mu"])


FLOAT64 = """
import sys, jax, jax.numpy as jnp, numpy as np, models
for name in sys.argv[1:]:
    mcmc = models.run(models.normal_kernel(name), 0, models.normal_data(), chains=2,
                      chain_method="vectorized")
    floats = {x.dtype for x in map(jnp.asarray, jax.tree.leaves(mcmc.last_state))
              if jnp.issubdtype(x.dtype, jnp.floating)}
    assert floats == {jnp.dtype("float64")}, (name, floats)
    mu = mcmc.get_samples()["mu"]
    assert mu.dtype == np.dtype("float64"), name
    assert (np.float32(mu) != mu).mean() > 0.95, name  # not float32 in a wider type
    print(name)
"""


@pytest.mark.slow
@pytest.mark.parametrize("names", [FIRST, in_second_tier(others(models.PARTS, FIRST))], ids=len)
def test_float64(names, run_python):
    assert run_python(FLOAT64, *names, JAX_ENABLE_X64="1").split() == list(names)


AFTER_A_RUN_IN_FLOAT64 = """
import warnings, jax, numpyro_contour as nc, models
warnings.simplefilter("ignore")
kernel = nc.ContourSGLD(models.normal, num_steps=5)
mcmc = models.run(kernel, 0, models.normal_data(), warmup=100, chains=2,
                  chain_method="vectorized")
idata = nc.to_inference_data(mcmc)
nc.resample(idata, 50), nc.summary(idata), nc.diagnose(idata), nc.print_summary(mcmc)
mean = nc.expectation(idata, lambda posterior: posterior["mu"])
assert idata["posterior"]["mu"].dtype == "float64" and abs(mean.mean) < 1
print("done")
"""


@pytest.mark.slow
def test_what_is_done_after_a_run_in_float64(run_python):
    """NumPy then sees the arrays of the state themselves, which cannot be written to."""
    assert "done" in run_python(AFTER_A_RUN_IN_FLOAT64, JAX_ENABLE_X64="1")


@pytest.mark.slow
@one_kernel
def test_minibatches_and_full_data(name):
    """Both sample about the same posterior, which 100 rows make normal."""
    y = models.normal_data()
    for arguments, chosen in (({}, "minibatch"), ({"energy": "full"}, "full")):
        kernel = models.normal_kernel(name, **arguments)
        assert kernel.energy_estimator((y,)) == chosen
        mcmc = models.run(kernel, 0, y, samples=60)
        assert abs(mcmc.get_samples()["mu"].mean() - y.mean()) < 0.5


@pytest.mark.slow
@all_parts
def test_float32_throughout_by_default(name, two_chains):
    leaves = jax.tree.leaves(two_chains(name).last_state)
    floats = {x.dtype for x in map(jnp.asarray, leaves) if jnp.issubdtype(x.dtype, jnp.floating)}
    assert floats == {jnp.dtype("float32")}


# --------------------------------------------------------------------------- windows


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["reservoir", in_second_tier("last")])
def test_windows_change_no_step(draw):
    """100 steps are the same 100 steps, however many of them a draw stands for."""
    steps = {}
    for num_steps in (1, 20):
        kernel = models.nested_kernel("ContourSGLD", num_steps=num_steps, draw=draw)
        mcmc = models.run(
            kernel,
            0,
            warmup=0,
            samples=100 // num_steps,
            init_params=models.NESTED_START,
        )
        steps[num_steps] = mcmc.last_state.sampler
    assert steps[1].chain.steps == steps[20].chain.steps == 100
    assert steps[1].theta.bin_counts.sum() == steps[20].theta.bin_counts.sum() == 100


@pytest.mark.slow
def test_the_kernel_holds_no_state():
    """Attributes read by `sample` are baked into NumPyro's cached trace."""
    kernel = models.normal_kernel("ContourSGLD")
    before = {k: v for k, v in vars(kernel).items() if k != "_start"}
    models.run(kernel, 0, models.normal_data(), chains=2, chain_method=jax.vmap)
    assert {k: v for k, v in vars(kernel).items() if k != "_start"} == before
    assert isinstance(kernel, ContourSGLD)
