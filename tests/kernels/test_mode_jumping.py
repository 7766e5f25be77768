"""`ModeJumping` around other kernels: masses are right, and one mode changes nothing."""

import copy
import functools
import pickle
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import models
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax import random
from numpyro.infer import HMC, MCMC, NUTS, SA, BarkerMH
from tiers import in_second_tier

from numpyro_contour import SGHMC, SGLD, ContourSGLD, ModeJumping, ModeList

CHAINS, WARMUP, DRAWS = 4, 400, 600
ROWS = 1.5**2 + 3.5 * np.random.default_rng(1).standard_normal(40).astype(np.float32)


def squared(y):
    """The data depend on a**2: a mode on each side of 0."""
    a = numpyro.sample("a", dist.Normal(0.3, 1))
    with numpyro.plate("rows", len(y)):
        numpyro.sample("y", dist.Normal(a**2, 3.5), obs=y)


def exact_mass(y):
    line = np.linspace(-4, 4, 8001)
    log_p = -0.5 * (line - 0.3) ** 2
    log_p -= 0.5 * ((np.asarray(y, float)[:, None] - line**2) ** 2).sum(0) / 3.5**2
    p = np.exp(log_p - log_p.max())
    return p[line > 0].sum() / p.sum()


def made(kernel, *args, seed=0, method="vectorized", chains=CHAINS, draws=DRAWS, **arguments):
    mcmc = MCMC(
        kernel,
        num_warmup=arguments.pop("warmup", WARMUP),
        num_samples=draws,
        num_chains=chains,
        chain_method=method,
        progress_bar=False,
        jit_model_args=arguments.pop("jit_model_args", False),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # NumPyro's, of donated buffers
        mcmc.run(random.key(seed), *args, **arguments)
    return mcmc


def mass_of(mcmc, site="a"):
    """The share of draws above 0 of each chain."""
    return (np.asarray(mcmc.get_samples(group_by_chain=True)[site]) > 0).mean(1)


def assert_right(shares, exact, effective=200):
    """As from so many independent draws of each chain: less than a third of what they are."""
    error = np.sqrt(exact * (1 - exact) / (effective * len(shares)))
    assert abs(shares.mean() - exact) < 4 * error
    assert np.abs(shares - exact).max() < 5 * error * len(shares) ** 0.5


KERNELS = {
    "NUTS": lambda: NUTS(squared),
    "dense": lambda: NUTS(squared, dense_mass=True),
    "HMC": lambda: HMC(squared, trajectory_length=1.0),
    "BarkerMH": lambda: BarkerMH(squared),
    "SGLD": lambda: SGLD(squared, adjusted=True, num_steps=20),
    "SGHMC": lambda: SGHMC(squared, adjusted=True, num_steps=20),
}


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("NUTS", "vectorized"),
        in_second_tier("NUTS", "sequential"),
        in_second_tier("NUTS", jax.vmap),
        in_second_tier("dense", "vectorized"),
        in_second_tier("HMC", "vectorized"),
        ("BarkerMH", "sequential"),
        ("SGLD", "vectorized"),
        in_second_tier("SGHMC", "vectorized"),
    ],
)
def test_modes_have_their_masses(name, method):
    mcmc = made(ModeJumping(KERNELS[name]()), ROWS, method=method)
    assert_right(mass_of(mcmc), exact_mass(ROWS))
    # Chains change their mode all the time; by themselves they would stay.
    modes = np.asarray(mcmc.get_extra_fields(group_by_chain=True)["mode"])
    positive = np.asarray(mcmc.get_samples(group_by_chain=True)["a"]) > 0
    assert (np.diff(modes, axis=1) != 0).mean() > 0.1
    assert (positive == (modes == modes[positive][0])).mean() > 0.99


@pytest.mark.parametrize("method", ["vectorized", in_second_tier("sequential")])
def test_with_one_mode_all_is_that_of_the_inner_kernel_bit_for_bit(method):
    def model(x, y):
        b = numpyro.sample("b", dist.Normal(0, 1).expand([3]).to_event(1))
        numpyro.sample("y", dist.Bernoulli(logits=x @ b), obs=y)

    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, 3)).astype(np.float32)
    y = (rng.random(100) < 0.5).astype(np.int32)
    fields = ("num_steps", "potential_energy", "adapt_state.step_size", "z.b")
    alone, jumping = (
        made(kernel, x, y, method=method, warmup=100, draws=50, extra_fields=fields)
        for kernel in (NUTS(model), ModeJumping(NUTS(model)))
    )
    for name in fields:
        one, other = (run.get_extra_fields(group_by_chain=True)[name] for run in (alone, jumping))
        np.testing.assert_array_equal(one, other, err_msg=name)
    assert models.equal(alone.get_samples(), jumping.get_samples())
    state = jumping.last_state
    last, of_inner = (
        x._replace(rng_key=random.key_data(x.rng_key)) for x in (alone.last_state, state.inner)
    )
    last, of_inner = (
        x._replace(adapt_state=x.adapt_state._replace(rng_key=())) for x in (last, of_inner)
    )
    assert models.equal(last, of_inner)
    assert (state.adapt_state.step_size == last.adapt_state.step_size).all()
    assert (state.jumping, state.counts) == ((), ())
    assert not np.asarray(jumping.get_extra_fields()["mode"]).any()
    assert len(jumping.sampler.modes_of(x, y)) == 1
    one = jax.tree.map(lambda leaf: leaf[0], state)
    text = NUTS(model).get_diagnostics_str(one.inner)
    assert jumping.sampler.get_diagnostics_str(one) == text


def two_normals(x):
    """In three dimensions, a third as wide on the right, where .6 of the mass is."""
    left = np.log(0.4) - 0.5 * jnp.sum((x + 3) ** 2)
    right = np.log(0.6) - 4.5 * jnp.sum((x - 3) ** 2) + 3 * np.log(3)
    return -jnp.logaddexp(left, right)


@functools.cache
def run_of_two_normals():
    kernel = ModeJumping(NUTS(potential_fn=two_normals), tries=3)
    start = jnp.zeros((CHAINS, 3))
    return made(kernel, draws=1000, init_params=start, extra_fields=("z_grad", "energy"))


def test_modes_of_other_widths_have_masses_and_spreads():
    mcmc = run_of_two_normals()
    x = np.asarray(mcmc.get_samples(group_by_chain=True), float)
    right = x.mean(-1) > 0
    assert_right(right.mean(1), 0.6)
    # NUTS in three dimensions makes at least a tenth as many independent draws of a square.
    for inside, sd in ((right, 1 / 3), (~right, 1.0)):
        squares = (x[inside] - x[inside].mean(0)) ** 2
        assert squares.mean() == pytest.approx(sd**2, rel=4 * (2 / (0.1 * squares.size)) ** 0.5)
    state = mcmc.last_state
    # A mass matrix that is right for neither would have the distance between the modes in it.
    np.testing.assert_array_less(state.adapt_state.inverse_mass_matrix, 0.6)
    adapted = state.adapt_state
    np.testing.assert_allclose(adapted.inverse_mass_matrix, adapted.mass_matrix_sqrt_inv**2, 1e-5)
    np.testing.assert_allclose(adapted.mass_matrix_sqrt * adapted.mass_matrix_sqrt_inv, 1, 1e-5)


def test_energies_and_gradients_are_those_of_the_draw():
    mcmc = run_of_two_normals()
    kept = mcmc.get_extra_fields()
    energy, gradient = jax.vmap(jax.value_and_grad(two_normals))(mcmc.get_samples())
    np.testing.assert_allclose(kept["potential_energy"], energy, atol=1e-4)
    np.testing.assert_allclose(kept["z_grad"], gradient, atol=1e-3)
    assert (kept["energy"] > kept["potential_energy"]).all()
    assert mcmc.last_state.counts.tried_by_move.sum() == CHAINS * 1000 * 3


def test_the_plan_is_frozen_when_draws_are_kept():
    mcmc = copy.copy(run_of_two_normals())
    before = mcmc.last_state
    mcmc.post_warmup_state = before
    mcmc.run(random.key(7))
    assert models.equal(before.jumping, mcmc.last_state.jumping)
    adapted = before.inner.adapt_state.inverse_mass_matrix
    np.testing.assert_array_equal(adapted, mcmc.last_state.inner.adapt_state.inverse_mass_matrix)
    assert int(mcmc.last_state.counts.tried.sum()) > int(before.counts.tried.sum())


def test_chains_search_once_and_further_runs_not_again(monkeypatch):
    kernel = ModeJumping(NUTS(squared))
    searched = []
    original = ModeJumping._search
    monkeypatch.setattr(ModeJumping, "_search", lambda *args: searched.append(1) or original(*args))
    for key in random.split(random.key(0), 2):  # as each chain of a sequential run
        kernel.init(key, 20, None, (ROWS,))
    made(kernel, ROWS, warmup=100, draws=50)
    assert len(searched) == 1
    kernel.init(random.key(0), 20, None, (ROWS + 1,))
    assert len(searched) == 2


@pytest.mark.slow
def test_modes_that_were_found_before_are_used(tmp_path):
    kernel = ModeJumping(NUTS(squared))
    listed = kernel.find_modes(random.key(3), ROWS)
    assert isinstance(listed, ModeList)
    assert listed.mass[0] == pytest.approx(exact_mass(ROWS), abs=0.01)
    first = made(kernel, ROWS, warmup=100, draws=50)
    path = tmp_path / "modes.npz"
    listed.save(path)
    second = made(ModeJumping(NUTS(squared), modes=path), ROWS, warmup=100, draws=50)
    assert models.equal(first.get_samples(), second.get_samples())
    third = made(ModeJumping(NUTS(squared), modes=listed), ROWS, warmup=100, draws=50)
    assert models.equal(first.get_samples(), third.get_samples())


def test_positions_can_be_given_in_place_of_a_search():
    kernel = ModeJumping(NUTS(squared), modes={"a": jnp.array([1.2, -1.4])})
    mcmc = made(kernel, ROWS)
    assert_right(mass_of(mcmc), exact_mass(ROWS))
    assert kernel.modes_of(ROWS).descents == 2
    # The one that is given alone is the only one that is known.
    kernel = ModeJumping(NUTS(squared), modes={"a": jnp.array([1.2])})
    assert made(kernel, ROWS, warmup=20, draws=10).last_state.jumping == ()


def test_a_run_inside_of_a_compiled_function_takes_modes_that_were_found_before():
    kernel = ModeJumping(NUTS(squared))

    def shares(y):
        mcmc = MCMC(kernel, num_warmup=200, num_samples=300, progress_bar=False)
        mcmc.run(random.key(0), y)
        return (mcmc.get_samples()["a"] > 0).mean()

    with pytest.raises(ValueError, match="`find_modes"):
        jax.jit(shares)(ROWS)
    kernel.find_modes(random.key(0), ROWS)
    assert 0.5 < float(jax.jit(shares)(ROWS)) < 0.95


def test_other_data_of_the_same_shapes_give_their_own_answer():
    kernel = ModeJumping(NUTS(squared))
    mcmc = made(kernel, ROWS, jit_model_args=True)
    other = ROWS - 2.5  # hardly any valley left, and other masses
    mcmc.run(random.key(1), other)
    assert_right(mass_of(mcmc), exact_mass(other))


def test_a_pickled_run_goes_on():
    mcmc = made(ModeJumping(NUTS(squared)), ROWS, warmup=100, draws=50)
    again = pickle.loads(pickle.dumps(mcmc))
    assert models.equal(again.last_state, mcmc.last_state)
    for run in (mcmc, again):
        run.post_warmup_state = run.last_state
        run.run(random.key(4), ROWS)
    assert models.equal(again.get_samples(), mcmc.get_samples())


def schools(y):
    """Eight schools, centred as it is written."""
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("y", dist.Normal(theta, SIGMA), obs=y)


SCHOOLS = jnp.array([28.0, 8, -3, 7, -1, 1, 18, 12])
SIGMA = jnp.array([15.0, 10, 16, 11, 9, 11, 10, 18])


@pytest.mark.slow
def test_hierarchies_are_sampled_in_coordinates_that_mix():
    mcmc = made(ModeJumping(NUTS(schools), centring=True), SCHOOLS, warmup=500, draws=1000)
    draws = {n: np.asarray(x, float) for n, x in mcmc.get_samples(group_by_chain=True).items()}
    assert set(draws) == {"mu", "tau", "theta"}
    # posteriordb's reference: means and standard deviations; 500 independent draws are few here.
    for name, mean, sd in (("mu", 4.36, 3.32), ("tau", 3.6, 3.2)):
        assert draws[name].mean() == pytest.approx(mean, abs=4 * sd / 500**0.5)
    assert draws["theta"][..., 0].mean() == pytest.approx(6.2, abs=4 * 5.7 / 500**0.5)
    assert not np.asarray(mcmc.get_extra_fields()["diverging"]).sum() > 20
    # The draws of z, in the coordinates that are sampled, are those of the sites.
    z = jax.tree.map(lambda x: x[0], mcmc.last_state.z)
    values = mcmc.sampler.postprocess_fn((SCHOOLS,), {})(z)
    np.testing.assert_allclose(values["theta"], draws["theta"][0, -1], rtol=1e-5)


def test_a_model_and_its_plates_are_taken_as_numpyro_takes_them():
    def model(y):  # a discrete site that is summed out
        mean = numpyro.sample("mean", dist.Normal(0, 3).expand([2]).to_event(1))
        with numpyro.plate("rows", len(y)):
            which = numpyro.sample("which", dist.Bernoulli(0.5), infer={"enumerate": "parallel"})
            numpyro.sample("y", dist.Normal(mean[which], 1), obs=y)

    y = np.concatenate([np.full(10, -2.0), np.full(10, 2.0)]).astype(np.float32)
    y += 0.5 * np.random.default_rng(0).standard_normal(20).astype(np.float32)
    mcmc = made(ModeJumping(NUTS(model)), y)
    first = np.asarray(mcmc.get_samples(group_by_chain=True)["mean"][..., 0]) > 0
    assert_right(first.mean(1), 0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ModeJumping(ContourSGLD(squared)), "but got ContourSGLD"),
        (lambda: ModeJumping(SGLD(squared)), "but got SGLD without it"),
        (lambda: ModeJumping(SA(squared)), "but got SA"),
        (lambda: ModeJumping(SGLD(squared, adjusted=True, temperature=2.0)), "temperature 1"),
        (lambda: ModeJumping(NUTS(squared), tries=-1), "`tries` takes"),
        (lambda: ModeJumping(NUTS(squared), tries=0.5), "`tries` takes"),
        (lambda: ModeJumping(NUTS(squared), centring=1), "`centring` takes"),
        (lambda: ModeJumping(NUTS(potential_fn=two_normals), centring=True), "`potential_fn`"),
        (
            lambda: ModeJumping(NUTS(squared)).find_modes(random.key(0), ROWS, most_gradients=0),
            "`most",
        ),
        (lambda: ModeJumping(NUTS(potential_fn=two_normals)).find_modes(random.key(0)), "`init_pa"),
    ],
)
def test_arguments_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_modes_of_another_model_are_refused(tmp_path):
    listed = ModeJumping(NUTS(squared)).find_modes(random.key(0), ROWS)
    other = ModeJumping(NUTS(potential_fn=two_normals), modes=listed)
    with pytest.raises(ValueError, match=r"coordinates z\[0\], .* but got modes in a"):
        made(other, init_params=jnp.zeros((CHAINS, 3)))
    wrong = ModeJumping(NUTS(squared), modes={"b": jnp.zeros(2)})
    with pytest.raises(ValueError, match=r"`modes` takes unconstrained positions, \{a: \(\)\}"):
        made(wrong, ROWS)
    with pytest.raises(FileNotFoundError):
        ModeJumping(NUTS(squared), modes=Path(tmp_path) / "none.npz")


def test_without_tries_nothing_jumps():
    mcmc = made(ModeJumping(NUTS(squared), tries=0), ROWS, warmup=100, draws=50)
    alone = made(NUTS(squared), ROWS, warmup=100, draws=50)
    assert models.equal(mcmc.get_samples(), alone.get_samples())
