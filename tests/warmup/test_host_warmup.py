"""The warm-up on the host makes what the one that is traced makes, in programs that are kept."""

import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from numpyro.infer import MCMC
from tiers import in_second_tier

from numpyro_contour import SGLD, ContourSGLD
from numpyro_contour.warmup.stages.state import COLUMNS

WARMUP = 60
#: settings with less to compile
PLAIN = {"jumps": False, "preconditioner": "diag"}


def regression(x, y):
    b = numpyro.sample("b", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(x @ b, 1), obs=y)


def two_normals(x):
    return -jnp.logaddexp(-0.5 * jnp.sum((x - 4) ** 2), -0.5 * jnp.sum((x + 4) ** 2))


def data(seed=0, rows=50):
    x = np.random.default_rng(seed).standard_normal((rows, 2)).astype(np.float32)
    return x, x @ np.array([1.0, -1.0], np.float32)


def traced(kernel, key, args, start):
    """The state after a warm-up in one program, as where NumPyro traces the first state."""
    state = kernel.first_state(key, WARMUP, start, args, {})
    draw = lambda _, state: kernel.sample(state, args, {})
    return jax.jit(lambda state: jax.lax.fori_loop(0, WARMUP, draw, state))(state)


CASES = {
    "model": (lambda: SGLD(regression, num_steps=10), data(), None),
    "modes": (lambda: ContourSGLD(potential_fn=two_normals, num_steps=20), (), jnp.ones((4, 2))),
    "rows": (lambda: ContourSGLD(models.normal, num_steps=10), (models.normal_data(),), None),
}


@pytest.mark.slow
def test_both_ways_find_the_same_modes_and_jump_alike():
    """Up to the last stage, in which rounding has decided another jump."""
    make = lambda: ContourSGLD(potential_fn=two_normals, num_steps=100)
    start = jnp.array([[4.0], [-4.0], [3.0], [-3.0]]) * jnp.ones(2)
    keys = random.split(random.key(1), 4)
    one, other = traced(make(), keys, (), start), make().init(keys, WARMUP, start)
    assert one.warmup.modes.modes.known.sum() == 2
    found, expected = (x.warmup.modes.log_mass[:2] for x in (one, other))
    np.testing.assert_allclose(found, expected, atol=1e-3)
    for name in COLUMNS:
        found = getattr(one.warmup.history, name)
        expected = getattr(other.warmup.history, name)[:, 1:-1]
        np.testing.assert_allclose(found[:, 1:-1], expected, rtol=2e-2, atol=0.05, err_msg=name)


@pytest.mark.parametrize("case", [in_second_tier("model"), "modes", in_second_tier("rows")])
def test_both_ways_make_the_same_warm_up(case):
    make, args, start = CASES[case]
    keys = random.split(random.key(1), 4)
    one = traced(make(), keys, args, start)
    other = make().init(keys, WARMUP, start, args, {})
    assert other.warmup.is_over
    for name in ("z", "position"):
        if hasattr(one, name):
            np.testing.assert_allclose(
                *(jax.tree.leaves(getattr(x, name))[0] for x in (one, other)), rtol=2e-2, atol=2e-2
            )
    for name in COLUMNS:
        # Of moves at the bottom of a descent rounding decides, and so of the place of the first
        # anchor, to which energies are relative.
        found, expected = (getattr(x.warmup.history, name)[:, 1:] for x in (one, other))
        if name in ("energy", "lower", "upper"):
            found, expected = (
                x - np.asarray(y.warmup.history.energy)[:, 1:2]
                for x, y in ((found, one), (expected, other))
            )
        np.testing.assert_allclose(found, expected, rtol=2e-2, atol=0.05, err_msg=name)


def test_further_runs_and_other_data_compile_nothing_of_it(compilations):
    kernel = SGLD(regression, num_steps=5, **PLAIN)
    kernel.init(random.key(0), WARMUP, None, data())
    del compilations[:]
    kernel.init(random.key(1), 2 * WARMUP, None, data(1))
    assert not [name for name in compilations if name == "jit(program)"]
    del compilations[:]
    # Other shapes are other programs: else the above would prove nothing.
    kernel.init(random.key(1), WARMUP, None, data(1, rows=60))
    assert [name for name in compilations if name == "jit(program)"]


def test_draws_of_numpyros_warm_up_change_nothing():
    mcmc = MCMC(
        SGLD(regression, num_steps=5, **PLAIN), num_warmup=30, num_samples=20, progress_bar=False
    )
    mcmc.warmup(random.key(0), *data(), collect_warmup=True)
    drawn = mcmc.get_samples()["b"]
    assert (drawn == drawn[0]).all()
    steps = int(mcmc.post_warmup_state.sampler.chain.steps)
    assert steps == 5 * 30
    mcmc.run(random.key(1), *data())
    assert int(mcmc.last_state.sampler.chain.steps) == steps + 5 * 20


def precise(x):
    """Differences to the mean of the data, of which single precision has no digit."""
    mu = numpyro.sample("mu", dist.Normal(0, 10))
    rows = x - x.mean()
    numpyro.sample("x", dist.Normal(mu, 1).expand([len(x)]).to_event(1), obs=rows)


def test_numpy_computes_as_precisely_as_in_draws():
    kernel = SGLD(precise, num_steps=10, **PLAIN)
    for sd in (1.0, 2.0):  # other data of one shape make other programs
        x = 1e9 + sd * np.random.default_rng(0).standard_normal(400)
        state = kernel.init(random.key(0), 100, None, (x,))
        expected = 0.5 * (((x - x.mean()) ** 2).sum() + 400 * np.log(2 * np.pi))
        assert float(state.warmup.history.energy[-1]) == pytest.approx(expected, abs=8)


def with_unique(x, y):
    """A model whose shapes depend on the values of its data."""
    groups, which = np.unique(np.asarray(x), return_inverse=True)
    b = numpyro.sample("b", dist.Normal(0, 1).expand([len(groups)]).to_event(1))
    numpyro.sample("y", dist.Normal(b[which], 1).to_event(1), obs=y)


@pytest.mark.parametrize("place", [np.asarray, jnp.asarray])
def test_models_that_need_the_values_of_their_data_get_them(place):
    rng = np.random.default_rng(0)
    kernel = SGLD(with_unique, num_steps=10, **PLAIN)
    for groups in (3, 4):
        x = rng.integers(groups, size=60)
        y = (x + rng.standard_normal(60)).astype(np.float32)
        state = kernel.init(random.key(0), 60, None, (place(x.astype(np.int32)), place(y)))
        assert state.z["b"].shape == (groups,)
        # A unit normal prior and n rows of variance 1, whose means are the groups' numbers.
        assert np.all(np.abs(state.z["b"] - np.arange(groups)) < 1.5)


def test_the_progress_bar_is_numpyros_and_says_what_has_been_found(capsys):
    start = jnp.ones((2, 2))
    for shown in (True, False):
        kernel = SGLD(potential_fn=two_normals, num_steps=10, preconditioner="diag")
        mcmc = MCMC(
            kernel,
            num_warmup=60,
            num_samples=5,
            num_chains=2,
            chain_method="vectorized",
        )
        mcmc.progress_bar = shown  # NumPyro shows none among many workers
        mcmc.run(random.key(0), init_params=start)
        printed = capsys.readouterr().err
        assert ("warm-up: 100%" in printed) == shown
        assert ("2 chains: settle, energy" in printed and "a draw, 2 modes" in printed) == shown


def test_large_arrays_in_double_precision_are_constants_once():
    rows = np.random.default_rng(0).standard_normal((3, 60_000))

    def model(x):
        mu = numpyro.sample("mu", dist.Normal(0, 10).expand([3]).to_event(1))
        with numpyro.plate("rows", x.shape[1], subsample_size=10) as idx:
            numpyro.sample("x", dist.Normal(mu, 1).to_event(1), obs=x[:, idx].T)

    kernel = SGLD(model, num_steps=2, energy="minibatch", **PLAIN)
    state = kernel.init(random.key(0), 60, None, (rows,))
    np.testing.assert_allclose(state.z["mu"], rows.mean(1), atol=1.0)


@pytest.mark.slow
def test_programs_in_which_rows_are_clustered_are_kept_for_these_data_only():
    rows = [models.normal_data(mean=mean, rows=400) for mean in (0.0, 3.0)]
    kernels = [SGLD(models.normal, num_steps=5, energy="data_expansion", **PLAIN) for _ in range(2)]
    kernels[0].init(random.key(0), 60, None, (rows[0],))
    after, alone = (kernel.init(random.key(0), 60, None, (rows[1],)) for kernel in kernels)
    assert models.equal(after.warmup.history, alone.warmup.history)
    assert models.equal(after.z, alone.z)
